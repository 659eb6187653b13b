//! Native histograms beside those of the client library of Prometheus for Rust,
//! which follows the one for Go.

use std::collections::BTreeMap;

use nettune::model::histogram::Histogram;
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::metrics::histogram::{Histogram as Reference, NativeHistogramConfig};
use prometheus_client::registry::Registry;
use proptest::collection::vec;
use proptest::prelude::*;

const BOUNDS: [f64; 4] = [0.001, 0.1, 1.0, 100.0];

/// Schema, zeros, and counts by index, of what the library makes of `values`.
fn expected(values: &[f64]) -> (i32, u64, BTreeMap<i32, i64>) {
    let reference = Reference::new_native(NativeHistogramConfig::with_schema(3).max_buckets(160));
    values.iter().for_each(|value| reference.observe(*value));
    let mut registry = Registry::default();
    registry.register("x", "Help", reference);
    let families = prometheus_protobuf::encode(&registry).unwrap();
    let found = families[0].metric[0].histogram.as_ref().unwrap();
    let (mut buckets, mut deltas) = (BTreeMap::new(), found.positive_delta.iter());
    let (mut index, mut count) = (0, 0);
    for span in &found.positive_span {
        index += span.offset;
        for _ in 0..span.length {
            count += deltas.next().unwrap();
            buckets.insert(index, count);
            index += 1;
        }
    }
    // The library fills small gaps.
    buckets.retain(|_, count| *count > 0);
    (found.schema, found.zero_count, buckets)
}

fn found(histogram: &Histogram) -> (i32, u64, BTreeMap<i32, i64>) {
    let native = histogram.native();
    let buckets = native.buckets().map(|(index, count)| (index, count as i64)).collect();
    (native.schema(), native.zeros(), buckets)
}

fn observed(values: &[f64]) -> Histogram {
    let mut histogram = Histogram::new(&BOUNDS);
    values.iter().for_each(|value| histogram.observe(*value));
    histogram
}

/// Sizes that occur, neighbours of bounds, and any number that is one.
fn value() -> impl Strategy<Value = f64> {
    let power = (-140..1024_i32).prop_map(|exponent| 2.0_f64.powi(exponent));
    let bound = (-300..300_i32).prop_map(|eighths| (f64::from(eighths) / 8.0).exp2());
    let exact = prop_oneof![power, bound];
    let near = (exact, -2..=2_i64).prop_map(|(value, steps)| {
        f64::from_bits(value.to_bits().checked_add_signed(steps).unwrap()).min(f64::MAX)
    });
    let any = (0..f64::INFINITY.to_bits()).prop_map(f64::from_bits);
    prop_oneof![0.0..0.5_f64, near, any]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// So few that none must be merged.
    #[test]
    fn buckets_are_those_of_the_library(values in vec(value(), 0..160)) {
        prop_assert_eq!(found(&observed(&values)), expected(&values));
    }

    #[test]
    fn a_sum_is_that_of_all_observations(one in vec(value(), 0..400), other in vec(value(), 0..400)) {
        let (mut sum, more) = (observed(&one), observed(&other));
        sum.add(&more);
        let all = observed(&[one.clone(), other.clone()].concat());
        prop_assert_eq!(sum.count(), (one.len() + other.len()) as u64);
        prop_assert_eq!(sum.classic().collect::<Vec<_>>(), all.classic().collect::<Vec<_>>());
        prop_assert_eq!(sum.native(), all.native());
        prop_assert!(sum.native().buckets().count() <= 160);
        let native: u64 = sum.native().buckets().map(|(_, count)| count).sum();
        prop_assert_eq!(native + sum.native().zeros(), sum.count());
    }

    /// NaN and infinity among them.
    #[test]
    fn no_number_spoils_the_sum(bits in vec(any::<u64>(), 0..50)) {
        let values: Vec<_> = bits.into_iter().map(f64::from_bits).filter(|value| !(1e300..f64::INFINITY).contains(value)).collect();
        let sizes: Vec<_> = values.iter().copied().filter(|value| (0.0..f64::INFINITY).contains(value)).collect();
        let histogram = observed(&values);
        prop_assert!(histogram.sum.is_finite() && histogram.sum >= 0.0);
        prop_assert_eq!(histogram, observed(&sizes));
    }
}
