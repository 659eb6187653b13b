//! Congestion windows over the bandwidth-delay product of their path.

use std::collections::BTreeMap;

use super::limits::Limit;
use super::paths::PathId;
use crate::model::histogram::Histogram;

/// Upper bounds: well below 1, around it, well above.
pub const RATIO_BOUNDS: [f64; 14] =
    [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0];

/// What the product is taken of. Each answers a question of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The connection's own rate and least round trip time: at least 1 by
    /// construction, more where a queue stands.
    Delivered,
    /// What BBR believes of the path; BBR aims at 2.
    Bbr,
    /// The best sum of rates seen to the same neighbourhood: a lower bound of the
    /// path; below 1 the window is too small for it.
    Witnessed,
    /// What the user declared, likewise.
    Declared,
}

impl Basis {
    /// As in the `basis` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Bbr => "bbr",
            Self::Witnessed => "witnessed",
            Self::Declared => "declared",
        }
    }
}

/// By basis, limit and path.
pub type Ratios = BTreeMap<(Basis, Limit, PathId), Histogram>;

/// Takes in a window of so many bytes, `weight` times, for each basis whose product,
/// in bytes, is known.
pub fn observe(
    ratios: &mut Ratios,
    window: f64,
    products: [(Basis, Option<f64>); 4],
    (limit, path): (Limit, PathId),
    weight: u64,
) {
    for (basis, product) in products {
        if let Some(product) = product.filter(|product| *product > 0.0) {
            let histogram = ratios.entry((basis, limit, path));
            let histogram = histogram.or_insert_with(|| Histogram::new(&RATIO_BOUNDS));
            histogram.observe_times(window / product, weight);
        }
    }
}
