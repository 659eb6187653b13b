//! Passes over a part of all connections at a time, and what they cost.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::kernel::sock_diag::PortFilter;

/// Most slices of a round. The kernel passes every socket for each, so that many
/// save little.
pub const MOST: u16 = 16;
/// Most ports that the filter of a slice names; each is compared with every socket.
const EXCEPTIONS: usize = 64;

const NO_PORTS: RangeInclusive<u16> = RangeInclusive::new(1, 0);

/// A round of slices: each connection is in one of them, by the port that was given
/// to its end that connected. On a proxy every other port is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slices {
    count: u16,
    turn: u16,
    range: RangeInclusive<u16>,
    /// Ports of the range that something listens on; `None` where they are too many.
    listening: Option<Vec<u16>>,
}

impl Slices {
    /// One slice: everything.
    pub fn whole() -> Self {
        Self { count: 1, turn: 0, range: 0..=u16::MAX, listening: None }
    }

    /// `range` are the ports that the kernel gives to connections of ours; those of
    /// others are thought to come from a range like it.
    pub fn new(count: u16, range: RangeInclusive<u16>, listening: &BTreeSet<u16>) -> Self {
        let inside: Vec<_> = listening.iter().copied().filter(|port| range.contains(port)).collect();
        let listening = (inside.len() <= EXCEPTIONS).then_some(inside);
        Self { count: count.clamp(1, MOST), turn: 0, range, listening }
    }

    /// How many there are in a round.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Which one it is now, from 0.
    pub fn turn(&self) -> u16 {
        self.turn
    }

    /// The filter of this slice; `None` for everything.
    pub fn filter(&self) -> Option<PortFilter> {
        if self.count == 1 {
            return None;
        }
        let ports = self.ports();
        Some(PortFilter {
            // Where it cannot be told whose port it is, the peer's decides.
            ephemeral: self.listening.is_some().then(|| self.range.clone()),
            listening: self.listening.clone().unwrap_or_default(),
            own: ports.clone(),
            peer: ports,
        })
    }

    /// Ports of this slice: a part of the range; the first and the last reach to the
    /// ends of all ports.
    fn ports(&self) -> RangeInclusive<u16> {
        let (first, last) = (u32::from(*self.range.start()), u32::from(*self.range.end()));
        let bound =
            |turn: u32| (first + (last + 1).saturating_sub(first) * turn / u32::from(self.count)) as u16;
        let turn = u32::from(self.turn);
        let start = if self.turn == 0 { 0 } else { bound(turn) };
        if self.turn + 1 == self.count {
            return start..=u16::MAX;
        }
        // Before port 0 is none.
        bound(turn + 1).checked_sub(1).map_or(NO_PORTS, |end| start..=end)
    }

    /// The next slice; true when it was the last of the round.
    pub fn advance(&mut self) -> bool {
        self.turn = (self.turn + 1) % self.count;
        self.turn == 0
    }
}

/// What a pass costs, as far as passes so far tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Of passing every socket without giving it, seconds.
    fixed: f64,
    /// Of giving one, seconds.
    each: f64,
    /// Connections that there are.
    total: f64,
}

/// Share of a pass over everything that goes to passing sockets, until it is known:
/// measured at 515,000 sockets on 6.18.
const FIXED: f64 = 0.2;

impl Cost {
    /// Takes in a pass over one of `slices`, which gave `walked` connections.
    pub fn learn(&mut self, cost: Duration, walked: u64, slices: u16) {
        let (cost, walked) = (cost.as_secs_f64(), walked as f64);
        self.total = walked * f64::from(slices);
        if slices == 1 {
            // The parts keep their proportion, which slices correct.
            let share = if self.fixed > 0.0 { self.fixed / (self.fixed + self.each * walked) } else { FIXED };
            self.fixed = cost * share;
            self.each = if walked > 0.0 { cost * (1.0 - share) / walked } else { 0.0 };
        } else {
            let fixed = (cost - self.each * walked).max(0.0);
            self.fixed = (self.fixed + fixed) / 2.0;
        }
    }

    /// Of how many slices a round should be, so that a pass costs no more than `share`
    /// of one CPU when it comes every `interval`.
    pub fn slices(&self, share: f64, interval: Duration) -> u16 {
        let allowed = share * interval.as_secs_f64();
        let giving = self.each * self.total;
        if self.fixed + giving <= allowed {
            return 1;
        }
        let room = allowed - self.fixed;
        let wanted = if room > 0.0 { (giving / room).ceil() } else { f64::INFINITY };
        let most = LONGEST_ROUND.as_secs_f64() / interval.as_secs_f64();
        wanted.clamp(2.0, most.clamp(2.0, f64::from(MOST))) as u16
    }

    /// Time from pass to pass over one of so many slices: `interval`, or longer where it
    /// would cost more.
    pub fn interval(&self, slices: u16, share: f64, interval: Duration) -> Duration {
        let cost = self.fixed + self.each * self.total / f64::from(slices);
        let stretched = Duration::try_from_secs_f64(cost / share).unwrap_or(LONGEST);
        interval.max(stretched.min(LONGEST))
    }
}

/// Some counters of a connection are remembered by their low half: of microseconds
/// it lasts for 71 minutes.
const LONGEST_ROUND: Duration = Duration::from_secs(3600);
/// Longest time between two passes, however dear they are.
const LONGEST: Duration = Duration::from_secs(3600 / MOST as u64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection is in one slice of a round, whatever its ports.
    #[test]
    fn a_round_takes_every_connection_once() {
        let listening = BTreeSet::from([443, 40_000, 50_051]);
        for (count, range) in
            [(2, 32_768..=60_999), (16, 32_768..=60_999), (7, 1024..=65_535), (16, 40_000..=40_003)]
        {
            let mut slices = Slices::new(count, range, &listening);
            let mut filters = Vec::new();
            loop {
                filters.extend(slices.filter());
                if slices.advance() {
                    break;
                }
            }
            assert_eq!(filters.len(), usize::from(count));
            for port in [0, 1, 443, 32_767, 32_768, 40_000, 40_001, 50_051, 60_999, 61_000, 65_535] {
                for peer in [1, 443, 32_768, 40_000, 60_999, 65_535] {
                    let taken = filters.iter().filter(|filter| filter.passes(port, peer)).count();
                    assert_eq!(taken, 1, "{port} {peer} in {count}");
                }
            }
        }
        assert_eq!(Slices::whole().filter(), None);
    }

    #[test]
    fn a_range_may_be_anything() {
        let points = [0, 1, 15, 443, 65_534, 65_535];
        for (first, last) in points.iter().flat_map(|first| points.map(|last| (*first, last))) {
            for count in 2..=MOST {
                let mut slices = Slices::new(count, RangeInclusive::new(first, last), &BTreeSet::from([443]));
                let filters: Vec<_> = (0..count).map(|_| (slices.filter(), slices.advance()).0).collect();
                for (port, peer) in points.iter().flat_map(|port| points.map(|peer| (*port, peer))) {
                    let taken = filters.iter().flatten().filter(|filter| filter.passes(port, peer)).count();
                    assert_eq!(taken, 1, "{port} {peer} of {first}-{last} in {count}");
                }
            }
        }
    }

    #[test]
    fn with_many_listeners_in_the_range_the_peer_decides() {
        let listening = (40_000..40_100).collect();
        let filter = Slices::new(2, 32_768..=60_999, &listening).filter().unwrap();
        assert!(
            filter.listening.is_empty() && filter.passes(60_000, 40_000) && !filter.passes(40_000, 60_000)
        );
    }

    #[test]
    fn what_is_dear_is_cut_and_then_rarer() {
        let interval = Duration::from_secs(15);
        let plan = |cost: &Cost, share: f64| {
            let slices = cost.slices(share, interval);
            (slices, cost.interval(slices, share, interval).as_millis())
        };
        let mut cost = Cost::default();
        assert_eq!(plan(&cost, 0.01), (1, 15_000));
        // Of 0.545 s 0.109 are for passing: 0.15 are allowed, 0.436 / 0.041 is 11.
        cost.learn(Duration::from_millis(545), 500_000, 1);
        assert_eq!(plan(&cost, 0.01), (11, 15_000));
        assert_eq!(plan(&cost, 1.0), (1, 15_000));
        // Of 1.1 s passing alone takes 0.22 s: 16 slices cost 0.275 s, every 27.5 s.
        cost.learn(Duration::from_millis(1100), 500_000, 1);
        assert_eq!(plan(&cost, 0.01), (16, 27_500));
        // Slices tell what passing costs: 118 ms less 50,000 of 1.76 us leave 30, which
        // counts half: 0.125 s.
        cost.learn(Duration::from_millis(118), 50_000, 10);
        assert_eq!(plan(&cost, 0.01), (16, 18_000));
    }
}
