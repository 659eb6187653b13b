//! The largest value of the last minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Largest of what was seen within a window of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peak(VecDeque<(Instant, u64)>);

impl Peak {
    /// Takes in a value, and lets go what is older than `window`.
    pub fn observe(&mut self, now: Instant, value: u64, window: Duration) {
        // What a later value reaches is never the largest again, so that those
        // kept fall from the first to the last.
        while self.0.back().is_some_and(|(_, earlier)| *earlier <= value) {
            self.0.pop_back();
        }
        self.0.push_back((now, value));
        while self.0.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > window) {
            self.0.pop_front();
        }
    }

    /// The largest at the last observation; 0 before the first.
    pub fn largest(&self) -> u64 {
        self.0.front().map_or(0, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_kept_as_long_as_the_window() {
        let (start, mut peak) = (Instant::now(), Peak::default());
        let seen = [(0, 3), (10, 9), (20, 5), (30, 5), (40, 1), (309, 0), (311, 0), (331, 0), (341, 0)];
        let found = seen.map(|(second, value)| {
            peak.observe(start + Duration::from_secs(second), value, Duration::from_secs(300));
            peak.largest()
        });
        assert_eq!(found, [3, 9, 9, 9, 9, 9, 5, 1, 0]);
        assert_eq!(Peak::default().largest(), 0);
    }
}
