//! Observations by size, in both forms that Prometheus stores: counts between
//! given bounds (classic), and counts in buckets that widen by a constant factor
//! (native).

mod native;

pub use native::{Native, ZERO_THRESHOLD};

/// Observations by size, and their sum. Takes what is zero or more.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One count a bound, then those above the last; each by itself.
    counts: Vec<u64>,
    /// Sum of all observations.
    pub sum: f64,
    native: Native,
}

impl Histogram {
    /// An empty one; `bounds` rise and are finite.
    pub fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.is_sorted_by(|lower, upper| lower < upper), "{bounds:?}");
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0, native: Native::default() }
    }

    /// Counts one observation.
    pub fn observe(&mut self, value: f64) {
        self.observe_times(value, 1);
    }

    /// Counts one observation that stands for several. What is negative, infinite
    /// or no number is not counted: it would make the sum fall, or spoil it for good.
    pub fn observe_times(&mut self, value: f64, times: u64) {
        if times == 0 || !(0.0..f64::INFINITY).contains(&value) {
            return;
        }
        // There are few bounds: to compare them all is faster than to search.
        let place = self.bounds.iter().filter(|bound| **bound < value).count();
        self.counts[place] += times;
        self.sum += value * times as f64;
        self.native.observe_times(value, times);
    }

    /// Adds what another with the same bounds counted.
    pub fn add(&mut self, other: &Self) {
        debug_assert_eq!(self.bounds, other.bounds);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
        self.native.add(&other.native);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The classic form: each bound, infinity as the last, and how many lie between
    /// it and the one before.
    pub fn classic(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().copied().chain([f64::INFINITY]).zip(self.counts.iter().copied())
    }

    /// The native form.
    pub fn native(&self) -> &Native {
        &self.native
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 3] = [0.1, 1.0, 10.0];

    fn counts(histogram: &Histogram) -> Vec<u64> {
        histogram.classic().map(|(_, count)| count).collect()
    }

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::new(&BOUNDS);
        for value in [0.0, 0.1, 0.100_000_1, 1.0, 10.0, 10.1, 1e300] {
            histogram.observe(value);
        }
        assert_eq!(counts(&histogram), [2, 2, 1, 2]);
        let bounds: Vec<_> = histogram.classic().map(|(bound, _)| bound).collect();
        assert_eq!(bounds, [0.1, 1.0, 10.0, f64::INFINITY]);
    }

    #[test]
    fn one_that_stands_for_several_counts_as_several() {
        let (mut weighed, mut single) = (Histogram::new(&BOUNDS), Histogram::new(&BOUNDS));
        weighed.observe_times(0.5, 3);
        weighed.observe_times(20.0, 0);
        for _ in 0..3 {
            single.observe(0.5);
        }
        assert_eq!(weighed, single);
        assert_eq!((weighed.count(), weighed.sum), (3, 1.5));
    }

    #[test]
    fn sums_are_of_both_forms() {
        let mut histogram = Histogram::new(&BOUNDS);
        histogram.observe_times(0.5, 2);
        let mut sum = histogram.clone();
        histogram.observe(16.0);
        sum.add(&histogram);
        assert_eq!((counts(&sum), sum.sum), (vec![0, 4, 0, 1], 18.0));
        assert_eq!(sum.native().buckets().collect::<Vec<_>>(), [(-8, 4), (32, 1)]);
    }

    #[test]
    fn what_is_no_size_leaves_no_trace() {
        let mut histogram = Histogram::new(&BOUNDS);
        histogram.observe(0.5);
        let before = histogram.clone();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -f64::MIN_POSITIVE] {
            histogram.observe_times(value, 5);
            assert_eq!(histogram, before, "{value}");
        }
        // Zero is one, whatever its sign.
        histogram.observe(-0.0);
        assert_eq!((counts(&histogram), histogram.sum), (vec![1, 1, 0, 0], 0.5));
    }
}
