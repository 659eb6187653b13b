//! Counts by size.

/// Upper bounds for round trip times, seconds.
pub const RTT_BOUNDS: [f64; 13] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5];

/// Round trip times by size, and their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RttHistogram {
    /// One count a bound, then those above the last; each by itself.
    pub counts: [u64; RTT_BOUNDS.len() + 1],
    /// Sum of all, seconds.
    pub sum: f64,
}

impl RttHistogram {
    /// Counts a round trip time, in seconds.
    pub fn observe(&mut self, seconds: f64) {
        self.counts[RTT_BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
        self.sum += seconds;
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = RttHistogram::default();
        for seconds in [0.00005, 0.0001, 0.000_100_1, 0.5, 0.6] {
            histogram.observe(seconds);
        }
        assert_eq!((histogram.counts[0], histogram.counts[1]), (2, 1));
        assert_eq!((histogram.counts[12], histogram.counts[13]), (1, 1));
        let mut twice = histogram;
        twice.add(&histogram);
        assert_eq!((twice.count(), twice.sum), (10, 2.0 * histogram.sum));
    }
}
