//! Sums over all connections since the start.

use std::collections::BTreeMap;
use std::time::Duration;

use super::limits::{Cause, Limit, Verdict, times};
use super::paths::PathId;
use super::ratios::Ratios;
use super::receiving::ReceiveCause;
use super::table::Counters;
use crate::kernel::sock_diag::AlgorithmName;
use crate::model::histogram::Histogram;

/// Sums of one path and congestion control algorithm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time with something to send or not yet acknowledged.
    pub busy: Duration,
    /// Payload sent, retransmissions as well, bytes.
    pub sent: u64,
    /// Payload sent again, bytes.
    pub retransmitted: u64,
    /// Segments that the peer reported to have come twice.
    pub spurious: u64,
}

/// Everything since the start. A counter never falls: what the kernel tells may be
/// anything, so that a sum stays at the most it can be rather than begin anew.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// By path and algorithm.
    pub totals: BTreeMap<(PathId, u8), Totals>,
    /// Time spent limited.
    pub limited: BTreeMap<(Limit, Cause, PathId, u8), Duration>,
    /// Time during which connections mostly received.
    pub receiving: BTreeMap<PathId, Duration>,
    /// Of it the time during which our side held the peer back.
    pub receive_limited: BTreeMap<(ReceiveCause, PathId), Duration>,
    /// Time that a limited connection ran far below what the path was seen to carry.
    pub below_witness: BTreeMap<(Limit, Cause, PathId), Duration>,
    /// Congestion windows that the kernel reset after idle time.
    pub idle_restarts: BTreeMap<PathId, u64>,
    /// Congestion window over what fills the path.
    pub ratios: Ratios,
    /// Smoothed round trip times of connections that sent data and heard from their
    /// peer since the last pass, seconds, by path.
    pub rtt: BTreeMap<PathId, Histogram>,
    /// Their least round trip times.
    pub min_rtt: BTreeMap<PathId, Histogram>,
    /// What each busy connection delivered a second, by path.
    pub delivery_rates: BTreeMap<PathId, Histogram>,
    /// Connections that could not be followed for want of room.
    pub not_followed: u64,
}

/// Upper bounds of round trip times, seconds.
pub const RTT_BOUNDS: [f64; 13] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5];
/// Upper bounds of rates, bytes a second.
const RATE_BOUNDS: [f64; 12] = [1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9];

impl Sums {
    /// Nothing yet, for so many paths. Round trip times are there from the start, so
    /// that what comes first is an increase.
    pub fn new(paths: usize) -> Self {
        let times = || (0..paths as PathId).map(|path| (path, Histogram::new(&RTT_BOUNDS))).collect();
        Self { rtt: times(), min_rtt: times(), ..Self::default() }
    }

    /// Takes in round trip times in microseconds, of a connection that stands for
    /// `weight` of them.
    pub fn time(&mut self, path: PathId, rtt: u32, least: u32, weight: u64) {
        for (histograms, time) in [(&mut self.rtt, rtt), (&mut self.min_rtt, least)] {
            let histogram = histograms.entry(path).or_insert_with(|| Histogram::new(&RTT_BOUNDS));
            histogram.observe_times(f64::from(time) / 1e6, weight);
        }
    }

    /// Takes in a rate, bytes a second, likewise.
    pub fn rate(&mut self, path: PathId, rate: f64, weight: u64) {
        let rates = self.delivery_rates.entry(path).or_insert_with(|| Histogram::new(&RATE_BOUNDS));
        rates.observe_times(rate, weight);
    }

    /// Takes in what one connection did and what limited it meanwhile.
    pub fn add(&mut self, change: &Counters, verdict: Verdict, path: PathId, algorithm: u8) {
        let totals = self.totals.entry((path, algorithm)).or_default();
        lengthen(&mut totals.busy, Duration::from_micros(change.busy));
        totals.sent = totals.sent.saturating_add(change.sent);
        totals.retransmitted = totals.retransmitted.saturating_add(change.retransmitted);
        totals.spurious = totals.spurious.saturating_add(change.spurious.into());
        for ((limit, cause), time) in Limit::ALL.into_iter().zip(verdict.causes).zip(times(change)) {
            if time > 0 {
                let sum = self.limited.entry((limit, cause, path, algorithm)).or_default();
                lengthen(sum, Duration::from_micros(time));
            }
        }
    }
}

/// Adds to a sum of times.
pub(super) fn lengthen(sum: &mut Duration, time: Duration) {
    *sum = sum.saturating_add(time);
}

/// Congestion control algorithms by number; 0 is none that is known.
#[derive(Debug, Default)]
pub struct Algorithms(Vec<AlgorithmName>);

impl Algorithms {
    /// Beyond it a new one counts as unknown; a kernel has hardly a dozen.
    const MOST: usize = 30;

    /// The number of an algorithm.
    pub fn number(&mut self, name: Option<AlgorithmName>) -> u8 {
        // A second series of that name would spoil the scrape.
        let Some(name) = name.filter(|name| text(name) != UNKNOWN && !text(name).is_empty()) else {
            return 0;
        };
        let place = self.0.iter().position(|known| *known == name).or_else(|| {
            (self.0.len() < Self::MOST).then(|| {
                self.0.push(name);
                self.0.len() - 1
            })
        });
        place.map_or(0, |place| place as u8 + 1)
    }

    /// Names in the order of the numbers.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let all = std::iter::once(UNKNOWN).chain(self.0.iter().map(text));
        all.map(|name| name.escape_ascii().to_string())
    }
}

/// What stands for no algorithm, and for those without a number of their own.
const UNKNOWN: &[u8] = b"unknown";

fn text(name: &AlgorithmName) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &[u8]) -> AlgorithmName {
        let mut name = AlgorithmName::default();
        name[..text.len()].copy_from_slice(text);
        name
    }

    #[test]
    fn a_sum_that_is_full_stays_so() {
        let most = Counters {
            sent: u64::MAX,
            received: u64::MAX,
            retransmitted: u64::MAX,
            spurious: u32::MAX,
            busy: u64::MAX,
            receive_window: u64::MAX,
            send_buffer: 0,
        };
        let mut sums = Sums::new(3);
        for _ in 0..3 {
            sums.add(&most, Verdict::undecided(Limit::ReceiveWindow), 0, 0);
        }
        let totals = sums.totals[&(0, 0)];
        assert_eq!((totals.sent, totals.retransmitted), (u64::MAX, u64::MAX));
        assert_eq!(totals.busy, Duration::from_micros(u64::MAX) * 3);
        let mut time = Duration::MAX;
        lengthen(&mut time, Duration::from_secs(1));
        assert_eq!(time, Duration::MAX);
    }

    #[test]
    fn algorithms_have_one_name_each() {
        let mut algorithms = Algorithms::default();
        let numbers = [&b"unknown"[..], b"", b"cubic", b"un\xffknown", b"\xff\xff", b"cubic"];
        let numbers = numbers.map(|text| algorithms.number(Some(name(text))));
        assert_eq!(numbers, [0, 0, 1, 2, 3, 1]);
        assert_eq!(algorithms.number(None), 0);
        let names: Vec<_> = algorithms.names().collect();
        assert_eq!(names, ["unknown", "cubic", "un\\xffknown", "\\xff\\xff"]);
        for number in 0..100u8 {
            algorithms.number(Some(name(&[number + 1])));
        }
        assert_eq!(algorithms.names().count(), 31);
    }
}
