//! What a path was seen to carry: to each neighbourhood of peers the best sum of
//! concurrent rates of the last ten minutes, and the least round trip time. It is a
//! lower bound of the path's capacity, and needs no configuration.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::paths::{Class, PathId};

/// Neighbourhoods that are remembered; beyond, new ones are not.
const MOST: usize = 4096;
/// The time of one bucket.
const MINUTE: Duration = Duration::from_secs(60);
const MINUTES: usize = 10;
/// A least round trip time is remembered for one to two of these, in minutes: a queue
/// that stands makes every new measurement longer.
const HOUR: u64 = 60;

/// Peers near each other that are reached in the same way, as far as we can tell: a
/// prefix may have neighbours of this host in it and others far away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// First address of the /24, or the /56.
    prefix: IpAddr,
    path: PathId,
    /// Of paths that are not declared: half the binary logarithm of the least round
    /// trip time.
    distance: u8,
}

impl Place {
    /// Where a peer is whose connection had this least round trip time, microseconds.
    pub fn of(peer: IpAddr, path: PathId, min_rtt: Option<u32>) -> Self {
        let prefix = match peer {
            IpAddr::V4(four) => Ipv4Addr::from_bits(four.to_bits() & !0 << 8).into(),
            IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !0 << 72).into(),
        };
        let is_declared = usize::from(path) >= Class::NAMES.len();
        let distance = min_rtt.filter(|rtt| !is_declared && *rtt > 0).map_or(0, |rtt| rtt.ilog2() / 2);
        Self { prefix, path, distance: distance as u8 }
    }
}

/// What one connection shows in a pass.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Bytes a second, at least.
    pub rate: f64,
    /// Least round trip time, microseconds.
    pub rtt: u32,
    /// Full segments, bytes.
    pub mss: u32,
    /// It lost data.
    pub lossy: bool,
}

/// What was seen of one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Bytes a second.
    pub rate: f64,
    /// Microseconds.
    pub rtt: u32,
    /// Largest segments to any of its peers, bytes.
    pub mss: u32,
    /// Sum of rates of the last pass.
    pub last_sum: f64,
    /// Connections that lost data in the last pass.
    pub last_lossy: u32,
}

impl Seen {
    /// Bytes in flight that fill the path at the best rate.
    pub fn bdp(&self) -> f64 {
        self.rate * f64::from(self.rtt) / 1e6
    }
}

#[derive(Debug, Clone, Copy)]
struct Minute {
    rate: f64,
    mss: u32,
}

const NOTHING: Minute = Minute { rate: 0.0, mss: 0 };

#[derive(Debug, Clone, Copy)]
struct Record {
    /// In a ring.
    minutes: [Minute; MINUTES],
    /// The minute that was last written to.
    last: u64,
    /// The last in which a connection was there, and whether one was in this pass.
    observed: u64,
    is_observed: bool,
    /// Least round trip times of this hour and the one before.
    hours: [u32; 2],
    best: Minute,
    /// Of this pass so far.
    sum: Minute,
    lossy: u32,
    last_sum: f64,
    last_lossy: u32,
}

impl Record {
    const NEW: Self = Self {
        minutes: [NOTHING; MINUTES],
        last: 0,
        observed: 0,
        is_observed: false,
        hours: [u32::MAX; 2],
        best: NOTHING,
        sum: NOTHING,
        lossy: 0,
        last_sum: 0.0,
        last_lossy: 0,
    };

    fn observe(&mut self, shown: &Shown) {
        self.is_observed = true;
        self.hours[0] = self.hours[0].min(shown.rtt);
        self.sum = Minute { rate: self.sum.rate + shown.rate, mss: self.sum.mss.max(shown.mss) };
        self.lossy = self.lossy.saturating_add(u32::from(shown.lossy));
    }

    /// Puts the pass away.
    fn close(&mut self, minute: u64) {
        for passed in (self.last + 1..=minute).take(MINUTES) {
            self.minutes[passed as usize % MINUTES] = NOTHING;
        }
        if minute / HOUR > self.last / HOUR {
            self.hours = [u32::MAX, self.hours[0]];
        }
        self.last = self.last.max(minute);
        if std::mem::take(&mut self.is_observed) {
            self.observed = minute;
        }
        let best =
            |one: Minute, two: Minute| Minute { rate: one.rate.max(two.rate), mss: one.mss.max(two.mss) };
        let slot = &mut self.minutes[minute as usize % MINUTES];
        *slot = best(*slot, self.sum);
        self.best = self.minutes.iter().copied().fold(NOTHING, best);
        (self.last_sum, self.last_lossy) = (self.sum.rate, self.lossy);
        (self.sum, self.lossy) = (NOTHING, 0);
    }

    fn seen(&self) -> Seen {
        Seen {
            rate: self.best.rate,
            rtt: self.hours[0].min(self.hours[1]),
            mss: self.best.mss,
            last_sum: self.last_sum,
            last_lossy: self.last_lossy,
        }
    }
}

/// The witness.
#[derive(Debug)]
pub struct Witness {
    start: Instant,
    minute: u64,
    records: HashMap<Place, Record>,
    /// Of everything that leaves the host.
    all: Record,
}

impl Witness {
    /// Nothing seen yet.
    pub fn new(start: Instant) -> Self {
        Self { start, minute: 0, records: HashMap::new(), all: Record::NEW }
    }

    /// Takes in one connection of this pass.
    pub fn observe(&mut self, place: Place, shown: &Shown) {
        if place.path != Class::Local as PathId {
            self.all.observe(shown);
        }
        if self.records.len() < MOST || self.records.contains_key(&place) {
            self.records.entry(place).or_insert(Record::NEW).observe(shown);
        }
    }

    /// Ends a pass; what was not seen for ten minutes is forgotten.
    pub fn close(&mut self, now: Instant) {
        let minute = now.saturating_duration_since(self.start).as_secs() / MINUTE.as_secs();
        self.minute = self.minute.max(minute);
        for record in self.records.values_mut().chain([&mut self.all]) {
            record.close(self.minute);
        }
        self.records.retain(|_, record| self.minute - record.observed < MINUTES as u64);
    }

    /// What was seen in earlier passes; its rate is 0 where nothing was delivered.
    pub fn of(&self, place: &Place) -> Option<Seen> {
        self.records.get(place).map(Record::seen).filter(|seen| seen.rtt < u32::MAX)
    }

    /// Whether hardly half of what the place was seen to carry was in use in the last
    /// pass, nor three quarters of what left this host at best: others do not take what
    /// a slow connection lacks.
    pub fn has_room(&self, place: &Place) -> bool {
        let here = self.records.get(place).is_some_and(|record| record.last_sum <= 0.5 * record.best.rate);
        here && self.all.last_sum <= 0.75 * self.all.best.rate
    }

    /// What was seen of each place that something was delivered to, and its path.
    pub fn places(&self) -> impl Iterator<Item = (PathId, Seen)> {
        let places = self.records.iter().map(|(place, record)| (place.path, record.seen()));
        places.filter(|(_, seen)| seen.rate > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: PathId = Class::Long as PathId;

    fn place(peer: &str, min_rtt: u32) -> Place {
        Place::of(peer.parse().unwrap(), LONG, Some(min_rtt))
    }

    fn shown(rate: f64, rtt: u32, mss: u32) -> Shown {
        Shown { rate, rtt, mss, lossy: false }
    }

    #[test]
    fn concurrent_rates_add_up_and_the_best_pass_stays_ten_minutes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut witness = Witness::new(start);
        let here = place("192.0.2.1", 80_000);
        witness.observe(place("192.0.2.200", 80_000), &shown(3e6, 80_000, 1400));
        witness.observe(place("192.0.2.200", 90_000), &Shown { lossy: true, ..shown(2e6, 90_000, 1400) });
        assert_eq!(witness.of(&here).map(|seen| seen.rate), Some(0.0));
        witness.close(at(0));
        let seen = Seen { rate: 5e6, rtt: 80_000, mss: 1400, last_sum: 5e6, last_lossy: 1 };
        assert_eq!((witness.of(&here), seen.bdp()), (Some(seen), 400_000.0));
        assert!(!witness.has_room(&here));
        // A slower pass takes nothing away, and says what is in use now.
        witness.observe(here, &shown(1e6, 100_000, 1448));
        witness.close(at(30));
        assert_eq!(witness.of(&here), Some(Seen { mss: 1448, last_sum: 1e6, last_lossy: 0, ..seen }));
        assert!(witness.has_room(&here));
        assert_eq!(witness.places().map(|(path, seen)| (path, seen.rate)).collect::<Vec<_>>(), [(LONG, 5e6)]);
        // Ten minutes later only what came since is left, but for the round trip time.
        witness.observe(here, &shown(2e6, 95_000, 1000));
        witness.close(at(599));
        witness.close(at(600));
        let later = witness.of(&here).unwrap();
        assert_eq!((later.rate, later.rtt, later.mss), (2e6, 80_000, 1000));
        witness.close(at(5_000));
        assert_eq!((witness.of(&here), witness.places().count()), (None, 0));
    }

    #[test]
    fn a_least_round_trip_time_stays_for_an_hour_at_least() {
        let start = Instant::now();
        let mut witness = Witness::new(start);
        let here = place("192.0.2.1", 80_000);
        let mut rtt = |minute: u64, rtt: u32| {
            witness.observe(here, &shown(1.0, rtt, 1));
            witness.close(start + Duration::from_secs(60 * minute));
            witness.of(&here).unwrap().rtt
        };
        assert_eq!(rtt(0, 70_000), 70_000);
        for minute in (5..115).step_by(5) {
            assert_eq!(rtt(minute, 200_000), 70_000, "{minute}");
        }
        assert_eq!(rtt(120, 200_000), 200_000);
    }

    #[test]
    fn a_place_is_a_prefix_reached_in_one_way() {
        let near = |rtt| Place::of("192.0.2.9".parse().unwrap(), Class::Local as PathId, Some(rtt));
        assert_eq!(place("203.0.113.77", 80_000), place("203.0.113.1", 100_000));
        assert_ne!(place("203.0.113.77", 80_000), place("203.0.114.77", 80_000));
        assert_eq!(place("2001:db8:1:2ff::1", 80_000), place("2001:db8:1:200::", 80_000));
        assert_ne!(place("192.0.2.1", 80_000), near(50));
        assert_ne!(place("192.0.2.1", 25_000), place("192.0.2.1", 250_000));
        // What is declared is one path, however long it takes at the moment.
        let declared = |rtt| Place::of("192.0.2.9".parse().unwrap(), 3, Some(rtt));
        assert_eq!(declared(10), declared(1_000_000));
    }

    #[test]
    fn what_stays_on_the_host_does_not_leave_it() {
        let start = Instant::now();
        let mut witness = Witness::new(start);
        let here = place("192.0.2.1", 80_000);
        let local = Place::of("127.0.0.1".parse().unwrap(), Class::Local as PathId, Some(20));
        // 9 MB/s left at best, 8 are leaving now.
        for (one, other, seconds) in [(4e6, 5e6, 0), (1e6, 7e6, 30)] {
            witness.observe(here, &shown(one, 80_000, 1));
            witness.observe(place("198.51.100.1", 80_000), &shown(other, 80_000, 1));
            witness.observe(local, &shown(1e9, 20, 1));
            witness.close(start + Duration::from_secs(seconds));
        }
        assert!(!witness.has_room(&here));
        witness.observe(here, &shown(1e6, 80_000, 1));
        witness.close(start + Duration::from_secs(40));
        assert!(witness.has_room(&here));
    }

    #[test]
    fn places_are_bounded() {
        let mut witness = Witness::new(Instant::now());
        for number in 0..2 * MOST as u32 {
            let peer = Ipv4Addr::from_bits(number << 8).into();
            witness.observe(Place::of(peer, 0, Some(1)), &shown(1.0, 1, 1));
        }
        assert_eq!(witness.records.len(), MOST);
    }
}
