//! What a path was seen to carry: to each neighbourhood of peers the best sum of
//! concurrent rates, and the least round trip time, of the last ten minutes. It is a
//! lower bound of the path's capacity, and needs no configuration.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::paths::PathId;

/// Neighbourhoods that are remembered; beyond, new ones are not.
const MOST: usize = 4096;
/// The time of one bucket.
const MINUTE: Duration = Duration::from_secs(60);
const MINUTES: usize = 10;

/// What was seen of one neighbourhood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Bytes a second.
    pub rate: f64,
    /// Microseconds.
    pub rtt: u32,
    /// Largest segments to any of its peers, bytes.
    pub mss: u32,
}

impl Seen {
    const NOTHING: Self = Self { rate: 0.0, rtt: u32::MAX, mss: 0 };

    /// Bytes in flight that fill the path at this rate.
    pub fn bdp(&self) -> f64 {
        self.rate * f64::from(self.rtt) / 1e6
    }

    fn best(self, other: Self) -> Self {
        Self { rate: self.rate.max(other.rate), rtt: self.rtt.min(other.rtt), mss: self.mss.max(other.mss) }
    }
}

#[derive(Debug, Clone, Copy)]
struct Neighbourhood {
    /// By minute, in a ring.
    minutes: [Seen; MINUTES],
    /// The minute that was last written to.
    last: u64,
    /// Path of the peer that was last seen.
    path: PathId,
    /// Best of all minutes.
    best: Seen,
    /// Sum of this pass so far, and that of the one before.
    sum: Seen,
    sum_before: f64,
}

impl Neighbourhood {
    const NEW: Self = Self {
        minutes: [Seen::NOTHING; MINUTES],
        last: 0,
        path: 0,
        best: Seen::NOTHING,
        sum: Seen::NOTHING,
        sum_before: 0.0,
    };

    /// Puts the pass away.
    fn close(&mut self, minute: u64) {
        for passed in (self.last + 1..=minute).take(MINUTES) {
            self.minutes[passed as usize % MINUTES] = Seen::NOTHING;
        }
        self.last = self.last.max(minute);
        let slot = &mut self.minutes[minute as usize % MINUTES];
        *slot = slot.best(self.sum);
        self.best = self.minutes.iter().copied().fold(Seen::NOTHING, Seen::best);
        self.sum_before = self.sum.rate;
        self.sum = Seen::NOTHING;
    }
}

/// The witness.
#[derive(Debug)]
pub struct Witness {
    start: Instant,
    neighbourhoods: HashMap<IpAddr, Neighbourhood>,
}

impl Witness {
    /// Nothing seen yet.
    pub fn new(start: Instant) -> Self {
        Self { start, neighbourhoods: HashMap::new() }
    }

    /// Takes in what one connection of this pass delivered a second.
    pub fn observe(&mut self, (peer, path): (IpAddr, PathId), rate: f64, min_rtt: u32, mss: u32) {
        let key = neighbourhood(peer);
        if self.neighbourhoods.len() >= MOST && !self.neighbourhoods.contains_key(&key) {
            return;
        }
        let entry = self.neighbourhoods.entry(key).or_insert(Neighbourhood::NEW);
        entry.path = path;
        let sum = entry.sum.rate + rate;
        entry.sum = Seen { rate: sum, ..entry.sum.best(Seen { rate: 0.0, rtt: min_rtt, mss }) };
    }

    /// Ends a pass; who was not seen for ten minutes is forgotten.
    pub fn close(&mut self, now: Instant) {
        let minute = now.saturating_duration_since(self.start).as_secs() / MINUTE.as_secs();
        for entry in self.neighbourhoods.values_mut() {
            entry.close(minute);
        }
        self.neighbourhoods.retain(|_, entry| entry.best.rate > 0.0);
    }

    /// The best that was seen in earlier passes.
    pub fn of(&self, peer: IpAddr) -> Option<Seen> {
        let entry = self.neighbourhoods.get(&neighbourhood(peer))?;
        Some(entry.best).filter(|best| best.rate > 0.0)
    }

    /// What the neighbourhood as a whole was sent in the pass before, over the best;
    /// `None` in its first pass.
    pub fn use_before(&self, peer: IpAddr) -> Option<f64> {
        let entry = self.neighbourhoods.get(&neighbourhood(peer))?;
        (entry.best.rate > 0.0).then(|| entry.sum_before / entry.best.rate)
    }

    /// The best rate of each neighbourhood, and its path.
    pub fn rates(&self) -> impl Iterator<Item = (PathId, f64)> {
        self.neighbourhoods.values().map(|entry| (entry.path, entry.best.rate))
    }
}

/// The first address of the /24, or the /56.
fn neighbourhood(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(four) => Ipv4Addr::from_bits(four.to_bits() & !0 << 8).into(),
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !0 << 72).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn concurrent_rates_add_up_and_the_best_pass_stays_ten_minutes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut witness = Witness::new(start);
        let peer = address("192.0.2.1");
        for (rate, rtt) in [(3e6, 80_000), (2e6, 90_000)] {
            witness.observe((address("192.0.2.200"), 2), rate, rtt, 1400);
        }
        assert_eq!(witness.of(peer), None);
        witness.close(at(0));
        assert_eq!(witness.of(peer), Some(Seen { rate: 5e6, rtt: 80_000, mss: 1400 }));
        assert_eq!(witness.of(peer).unwrap().bdp(), 400_000.0);
        assert_eq!(witness.of(address("192.0.3.1")), None);
        // A slower pass takes nothing away, and says what is in use now.
        witness.observe((peer, 3), 1e6, 100_000, 1448);
        witness.close(at(30));
        assert_eq!(witness.of(peer), Some(Seen { rate: 5e6, rtt: 80_000, mss: 1448 }));
        assert_eq!(witness.use_before(peer), Some(0.2));
        assert_eq!(witness.rates().collect::<Vec<_>>(), [(3, 5e6)]);
        // Ten minutes later only what came since is left.
        witness.observe((peer, 3), 2e6, 95_000, 1000);
        witness.close(at(599));
        witness.close(at(600));
        assert_eq!(witness.of(peer), Some(Seen { rate: 2e6, rtt: 95_000, mss: 1000 }));
        witness.close(at(5_000));
        assert_eq!((witness.of(peer), witness.rates().count()), (None, 0));
    }

    #[test]
    fn neighbourhoods_are_24_and_56_bits_and_bounded() {
        assert_eq!(neighbourhood(address("203.0.113.77")), address("203.0.113.0"));
        assert_eq!(neighbourhood(address("2001:db8:1:2ff::1")), address("2001:db8:1:200::"));
        let mut witness = Witness::new(Instant::now());
        for number in 0..2 * MOST as u32 {
            witness.observe((Ipv4Addr::from_bits(number << 8).into(), 0), 1.0, 1, 1);
        }
        assert_eq!(witness.neighbourhoods.len(), MOST);
    }
}
