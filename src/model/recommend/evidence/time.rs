//! What is remembered of figures that come and go, and of counters.

use std::time::{Duration, Instant};

/// How long evidence counts.
pub(in crate::model::recommend) const HOUR: Duration = Duration::from_secs(3600);

/// The largest value of this hour and the one before.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::model::recommend) struct Highest {
    since: Option<Instant>,
    hours: [u64; 2],
}

impl Highest {
    pub(super) fn observe(&mut self, now: Instant, value: u64) {
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        if passed >= HOUR {
            let before = if passed < 2 * HOUR { self.hours[0] } else { 0 };
            *self = Self { since: Some(now), hours: [0, before] };
        }
        self.hours[0] = self.hours[0].max(value);
    }

    /// 0 before the first.
    pub(in crate::model::recommend) fn get(&self) -> u64 {
        self.hours[0].max(self.hours[1])
    }
}

/// A counter, from look to look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rise(Option<u64>);

impl Rise {
    /// By how much it rose since the last look that found it; nothing at the first, or
    /// where it began anew.
    pub(super) fn take(&mut self, now: Option<u64>) -> u64 {
        let Some(now) = now else { return 0 };
        self.0.replace(now).map_or(0, |before| now.saturating_sub(before))
    }
}

/// A counter's rise over the time between two looks that are not too near each other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate(Option<(Instant, u64)>);

impl Rate {
    const SHORTEST: Duration = Duration::from_secs(10);

    /// What it comes to in `time`; `None` where too little time has passed.
    pub(super) fn take(&mut self, now: Instant, value: Option<u64>, time: Duration) -> Option<u64> {
        let value = value?;
        let (then, before) = *self.0.get_or_insert((now, value));
        let passed = now.saturating_duration_since(then);
        if passed < Self::SHORTEST {
            return None;
        }
        self.0 = Some((now, value));
        let rise = value.saturating_sub(before) as f64;
        Some((rise * time.as_secs_f64() / passed.as_secs_f64()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_stays_for_one_to_two_hours() {
        let (start, mut highest) = (Instant::now(), Highest::default());
        let mut at = |minute: u64, value| {
            highest.observe(start + Duration::from_secs(60 * minute), value);
            highest.get()
        };
        assert_eq!((at(0, 3), at(59, 9), at(60, 1)), (3, 9, 9));
        // Of the hour before nothing is left once another has begun.
        assert_eq!((at(119, 2), at(120, 1), at(180, 0)), (9, 2, 1));
        // Nor is there anything after a pause.
        assert_eq!(at(600, 0), 0);
    }

    #[test]
    fn a_counter_rises_from_its_first_look_on() {
        let mut rise = Rise::default();
        assert_eq!(
            [Some(7), Some(9), None, Some(10), Some(2), Some(3)].map(|now| rise.take(now)),
            [0, 2, 0, 1, 0, 1]
        );
    }

    #[test]
    fn a_rate_needs_time() {
        let (start, mut rate) = (Instant::now(), Rate::default());
        let mut at = |second, value| {
            rate.take(start + Duration::from_secs(second), Some(value), Duration::from_secs(60))
        };
        // 30 in 20 seconds are 90 a minute.
        assert_eq!((at(0, 100), at(9, 200), at(20, 130), at(29, 0)), (None, None, Some(90), None));
    }
}
