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

    /// When a packet that comes now arrives; `None` when it does not.
    pub(super) fn admit(&mut self, now: Instant, size: usize) -> Option<Instant> {
        let start = self.free.map_or(now, |free| free.max(now));
        let waiting = (start - now).as_secs_f64() * self.direction.rate;
        if waiting + size as f64 > self.direction.queue as f64 {
            return None;
        }
        let sent = start + Duration::from_secs_f64(size as f64 / self.direction.rate);
        self.free = Some(sent);
        (self.uniform() >= self.direction.loss).then(|| sent + self.direction.delay)
    }

    /// From 0 to 1, the same row in every run (Knuth's MMIX generator).
    fn uniform(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// 1,000 bytes a second: one packet of 100 takes 100 ms.
fn slow(loss: f64) -> Direction {
    Direction { rate: 1_000.0, delay: Duration::from_secs(1), queue: 250, loss }
}

#[test]
fn packets_queue_behind_each_other_and_are_dropped_at_the_end() {
    let (mut link, start) = (Link::new(slow(0.0)), Instant::now());
    let at = |milliseconds: u64| Some(start + Duration::from_millis(milliseconds));
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
    let (mut link, start) = (Link::new(slow(0.1)), Instant::now());
    let lost =
        (0..10_000).filter(|second| link.admit(start + Duration::from_secs(*second), 1).is_none()).count();
    assert!((900..1100).contains(&lost), "{lost} of 10,000");
}
