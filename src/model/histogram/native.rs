//! Counts in buckets that widen by a constant factor. Indices are those of
//! Prometheus and of its client for Go (prometheus/histogram.go: observe).

use std::iter::repeat_n;

/// What is no more than this, 2^-128, counts as zero; the default of Prometheus.
pub const ZERO_THRESHOLD: f64 = f64::from_bits(((EXPONENT_BIAS - 128) as u64) << FRACTION_BITS);

/// The exponent 0 of a double.
const EXPONENT_BIAS: i32 = 1023;
/// Where the exponent of a double begins.
const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// At first, eight buckets from one power of two to the next, each about 9 % wider
/// than the one before.
const SCHEMA: i32 = 3;
/// Lower bounds of these eight between ½ and 1. To the last digit those that
/// Prometheus has, though some are not the double closest to the root.
const BOUNDS: [f64; 1 << SCHEMA] = [
    0.5,
    0.5452538663326288,
    0.5946035575013605,
    0.6484197773255048,
    0.7071067811865475,
    0.7711054127039704,
    0.8408964152537144,
    0.9170040432046711,
];

/// With more buckets than this, pairs of them are merged. As finite numbers above
/// the threshold span 1152 powers of two, schema -3 (a bucket for eight of them)
/// always suffices.
const MOST_BUCKETS: usize = 160;

/// The native form of a histogram of what is zero or more.
#[derive(Debug, Clone, PartialEq)]
pub struct Native {
    schema: i32,
    zeros: u64,
    /// Index of the first bucket that is not empty.
    first: i32,
    /// Counts from that bucket to the last that is not empty. Sizes lie close
    /// together, so that few between are, and a place is found without a search.
    counts: Vec<u64>,
    /// Buckets that are not empty.
    used: usize,
}

impl Default for Native {
    fn default() -> Self {
        Self { schema: SCHEMA, zeros: 0, first: 0, counts: Vec::new(), used: 0 }
    }
}

impl Native {
    /// From one bucket to the next the bound grows by the factor 2^(2^-schema).
    pub fn schema(&self) -> i32 {
        self.schema
    }

    /// Observations of no more than [`ZERO_THRESHOLD`].
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// Index and count of buckets that are not empty, by index. Bucket 0 ends with 1,
    /// which it includes.
    pub fn buckets(&self) -> impl Iterator<Item = (i32, u64)> {
        (self.first..).zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// `value` is finite and not negative, `times` not 0.
    pub(super) fn observe_times(&mut self, value: f64, times: u64) {
        if value <= ZERO_THRESHOLD {
            self.zeros += times;
        } else {
            self.count(merged(index(value), SCHEMA - self.schema), times);
        }
    }

    /// Adds the other's, at the resolution of the coarser of both.
    pub(super) fn add(&mut self, other: &Self) {
        self.zeros += other.zeros;
        self.lower(other.schema);
        for (index, count) in other.buckets() {
            self.count(merged(index, other.schema - self.schema), count);
        }
    }

    fn count(&mut self, index: i32, times: u64) {
        // One before the first becomes a place that no vector has.
        let place = index.wrapping_sub(self.first) as usize;
        match self.counts.get_mut(place) {
            Some(count) if *count > 0 => *count += times,
            _ => self.open(index, times),
        }
    }

    /// Counts in a bucket that was empty.
    fn open(&mut self, index: i32, times: u64) {
        if self.counts.is_empty() {
            self.first = index;
        }
        if index < self.first {
            let more = self.first.abs_diff(index) as usize;
            self.counts.splice(..0, repeat_n(0, more));
            self.first = index;
        }
        let place = index.abs_diff(self.first) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = times;
        self.used += 1;
        if self.used > MOST_BUCKETS {
            self.lower(self.schema - 1);
        }
    }

    /// Merges buckets until the schema is no higher than this.
    fn lower(&mut self, schema: i32) {
        if schema < self.schema {
            let finer = std::mem::replace(self, Self { schema, ..Self::default() });
            self.add(&finer);
        }
    }
}

/// The bucket of the first schema that a value above the threshold belongs to.
fn index(value: f64) -> i32 {
    // The value is fraction × 2^exponent with a fraction between ½ and 1, as long as
    // it is normal: everything below that is below the threshold.
    let bits = value.to_bits();
    let exponent = (bits >> FRACTION_BITS) as i32 - EXPONENT_BIAS + 1;
    let half = 0.5_f64.to_bits();
    let fraction = f64::from_bits(bits & ((1 << FRACTION_BITS) - 1) | half);
    let place = BOUNDS.partition_point(|bound| *bound < fraction);
    ((exponent - 1) << SCHEMA) + place as i32
}

/// Where a bucket ends up after pairs were merged so many times: an odd one and the
/// even one above it become one.
fn merged(index: i32, steps: i32) -> i32 {
    (index + (1 << steps) - 1) >> steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(native: &Native) -> Vec<(i32, u64)> {
        native.buckets().collect()
    }

    #[test]
    fn buckets_appear_on_either_side() {
        let mut native = Native::default();
        for (value, times) in [(2.0, 1), (8.0, 2), (0.5, 3), (2.0, 4), (4.0, 5)] {
            native.observe_times(value, times);
        }
        assert_eq!(buckets(&native), [(-8, 3), (8, 5), (16, 5), (24, 2)]);
    }

    #[test]
    fn a_bound_belongs_to_the_bucket_below_it() {
        assert_eq!(ZERO_THRESHOLD, 2.0_f64.powi(-128));
        for (value, expected) in [
            (1.0, 0),
            (1.0_f64.next_up(), 1),
            (1.0_f64.next_down(), 0),
            (2.0, 8),
            (2.0_f64.next_up(), 9),
            (0.5, -8),
            (0.25, -16),
            (4.0, 16),
            // 2^(1/8) is 1.0905…, 2^(7/8) is 1.8340…
            (1.09, 1),
            (1.091, 2),
            (1.83, 7),
            (1.835, 8),
            (1.090_507_732_665_257_7, 1),
            (1.090_507_732_665_257_7_f64.next_up(), 2),
            (BOUNDS[4] * 2.0, 4),
            // The double closest to the root is above the bound.
            (std::f64::consts::SQRT_2, 5),
            // 8 · log2(0.001) is -79.7.
            (0.001, -79),
            (ZERO_THRESHOLD.next_up(), -1023),
            (f64::MAX, 8192),
        ] {
            assert_eq!(index(value), expected, "{value}");
        }
    }

    #[test]
    fn the_bounds_are_eighth_roots() {
        for (place, bound) in BOUNDS.iter().enumerate() {
            let power = (bound * 2.0).powi(8);
            let expected = 2.0_f64.powi(place as i32);
            assert!((power / expected - 1.0).abs() < 1e-14, "{bound}");
        }
    }

    #[test]
    fn what_is_next_to_nothing_is_zero() {
        let mut native = Native::default();
        for value in [0.0, -0.0, f64::from_bits(1), f64::MIN_POSITIVE, ZERO_THRESHOLD] {
            native.observe_times(value, 2);
        }
        assert_eq!(native, Native { zeros: 10, ..Native::default() });
    }

    #[test]
    fn merging_keeps_bounds_where_they_were() {
        // Bucket 0 ends with 1 in every schema, 8 with 2, 16 with 4.
        for (index, once, thrice) in [
            (0, 0, 0),
            (1, 1, 1),
            (2, 1, 1),
            (3, 2, 1),
            (8, 4, 1),
            (9, 5, 2),
            (-1, 0, 0),
            (-7, -3, 0),
            (-8, -4, -1),
            (-9, -4, -1),
        ] {
            assert_eq!((merged(index, 0), merged(index, 1), merged(index, 3)), (index, once, thrice));
        }
    }

    #[test]
    fn there_are_never_too_many() {
        let mut native = Native::default();
        // One in each bucket from 1 to 2^20: eighths of a way are as far apart as roots.
        for eighth in 0..160 {
            let value = 2.0_f64.powi(eighth / 8) * (1.0 + f64::from(eighth % 8) / 8.0);
            native.observe_times(value.next_up(), 1);
        }
        assert_eq!((native.schema, native.used), (3, 160));
        native.observe_times(0.5, 7);
        let expected: Vec<_> = [(-4, 7)].into_iter().chain((1..=80).map(|index| (index, 2))).collect();
        assert_eq!((native.schema, buckets(&native)), (2, expected));
        // And over all there is.
        for exponent in -130..1024 {
            native.observe_times(2.0_f64.powi(exponent), 1);
        }
        assert_eq!((native.schema, native.zeros), (-3, 3));
        assert_eq!(native.counts.iter().sum::<u64>(), 167 + 1151);
        assert_eq!((native.first, native.used), (-15, 144));
    }

    #[test]
    fn a_sum_is_as_coarse_as_the_coarser() {
        let (mut fine, mut coarse) = (Native::default(), Native::default());
        fine.observe_times(1.0, 1);
        fine.observe_times(2.0, 2);
        coarse.observe_times(1.5, 4);
        coarse.lower(0);
        for (mut sum, other) in [(fine.clone(), &coarse), (coarse.clone(), &fine)] {
            sum.add(other);
            assert_eq!((sum.schema, buckets(&sum)), (0, vec![(0, 1), (1, 6)]));
        }
    }
}
