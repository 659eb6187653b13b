//! What one direction of a path does to packets; no input or output.

use std::time::{Duration, Instant};

/// One direction of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Direction {
    /// Bytes a second.
    pub(crate) rate: f64,
    /// From the end of sending to arrival.
    pub(crate) delay: Duration,
    /// Most bytes that wait to be sent; what comes then is dropped.
    pub(crate) queue: usize,
    /// Share of packets that are sent and never arrive.
    pub(crate) loss: f64,
    /// Share of packets that arrive later than their turn.
    pub(crate) reorder: f64,
    /// By how much they do.
    pub(crate) held: Duration,
    /// Larger packets never arrive, and nobody is told: a black hole.
    pub(crate) size_limit: usize,
}

impl Direction {
    /// Every packet that finds room arrives, in order.
    pub(crate) fn new(rate: f64, delay: Duration, queue: usize) -> Self {
        Self { rate, delay, queue, loss: 0.0, reorder: 0.0, held: Duration::ZERO, size_limit: usize::MAX }
    }
}

/// When a packet arrives, and whether others may overtake it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arrival {
    pub(super) due: Instant,
    pub(super) held: bool,
}

/// A direction at work.
pub(super) struct Link {
    direction: Direction,
    /// When all that was admitted will have been sent.
    free: Option<Instant>,
    random: u64,
}

impl Link {
    pub(super) fn new(direction: Direction) -> Self {
        Self { direction, free: None, random: 1 }
    }

    /// When a packet that comes now arrives; `None` when it does not. Those that
    /// are held arrive in order among themselves, and so do the others.
    pub(super) fn admit(&mut self, now: Instant, size: usize) -> Option<Arrival> {
        let Direction { rate, delay, queue, loss, reorder, held, size_limit } = self.direction;
        let start = self.free.map_or(now, |free| free.max(now));
        let waiting = (start - now).as_secs_f64() * rate;
        if waiting + size as f64 > queue as f64 {
            return None;
        }
        let sent = start + Duration::from_secs_f64(size as f64 / rate);
        self.free = Some(sent);
        if self.uniform() < loss || size > size_limit {
            return None;
        }
        let late = self.uniform() < reorder;
        Some(Arrival { due: sent + delay + if late { held } else { Duration::ZERO }, held: late })
    }

    /// From 0 to 1, the same row in every run (Knuth's MMIX generator).
    fn uniform(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 bytes a second: one packet of 100 takes 100 ms.
    fn slow() -> Direction {
        Direction::new(1_000.0, Duration::from_secs(1), 250)
    }

    /// Lets 10,000 packets of a byte through an idle link, and counts.
    fn count(direction: Direction, counts: impl Fn(Option<Arrival>, Instant) -> bool) -> usize {
        let (mut link, start) = (Link::new(direction), Instant::now());
        let sent = (0..10_000).map(|second| start + Duration::from_secs(second));
        sent.filter(|now| counts(link.admit(*now, 1), *now)).count()
    }

    #[test]
    fn packets_queue_behind_each_other_and_are_dropped_at_the_end() {
        let (mut link, start) = (Link::new(slow()), Instant::now());
        let at =
            |milliseconds| Some(Arrival { due: start + Duration::from_millis(milliseconds), held: false });
        assert_eq!(link.admit(start, 100), at(1100));
        assert_eq!(link.admit(start, 100), at(1200));
        // 200 bytes wait, 250 may.
        assert_eq!(link.admit(start, 100), None);
        assert_eq!(link.admit(start, 50), at(1250));
        // After 150 ms there are 100 left.
        assert_eq!(link.admit(start + Duration::from_millis(150), 100), at(1350));
        // An idle link sends at once.
        assert_eq!(link.admit(start + Duration::from_secs(9), 100), at(10_100));
    }

    #[test]
    fn the_share_that_is_lost_is_the_one_asked_for() {
        let lost = count(Direction { loss: 0.1, ..slow() }, |arrival, _| arrival.is_none());
        assert!((900..1100).contains(&lost), "{lost} of 10,000");
    }

    #[test]
    fn the_share_that_is_held_comes_later() {
        let direction = Direction { reorder: 0.1, held: Duration::from_secs(5), ..slow() };
        let late = count(direction, |arrival, sent| {
            let Arrival { due, held } = arrival.expect("nothing is lost");
            assert_eq!(due - sent, Duration::from_millis(if held { 6001 } else { 1001 }));
            held
        });
        assert!((900..1100).contains(&late), "{late} of 10,000");
    }

    #[test]
    fn what_is_larger_than_the_limit_never_arrives() {
        let (mut link, start) = (Link::new(Direction { size_limit: 100, ..slow() }), Instant::now());
        assert_eq!(link.admit(start, 101), None);
        // It took its time on the link all the same.
        assert_eq!(
            link.admit(start, 99).map(|arrival| arrival.due - start),
            Some(Duration::from_millis(1200))
        );
    }
}
