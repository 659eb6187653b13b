//! UDP sockets that share address and port, seen again and again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::read::udp::{Bounds, Socket};

/// Addresses and ports that are shown under their own name; the others are summed
/// up.
pub const NAMED: usize = 10;

/// A socket that holds this share of its buffer is full: one datagram counts with
/// its overhead, and the last one that fits leaves a rest.
const FULL: f64 = 0.9;

/// What a port that the kernel gave away must have dropped, or hold of its buffer,
/// to be named: clients come and go under ever new ones.
const NOTABLE_DROPS: u64 = 10;
const NOTABLE_FILL: f64 = 0.5;

/// Sockets of one address and port, or all that have no name.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Local address, or `other`.
    pub address: String,
    /// Local port, or `other`.
    pub port: String,
    /// Sockets: more than one with `SO_REUSEPORT`, or where several are connected.
    pub sockets: u64,
    /// Memory taken over buffer size, of the fullest socket.
    pub fill: f64,
    /// Buffer size of the fullest socket, bytes; of the smallest one where none is
    /// fuller.
    pub buffer: u64,
    /// Where the sizes come from; `None` without both parameters.
    pub set_by: Option<Causes>,
    /// Time between looks at whose both ends one socket was full.
    pub full: Duration,
    /// Datagrams dropped, since the first of these sockets was made or we started;
    /// `None` where the kernel does not tell.
    pub drops: Option<u64>,
}

/// Sockets by where the size of their buffer comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Causes {
    /// It is `net.core.rmem_default`: the program did not set it.
    pub default: u64,
    /// It is twice `net.core.rmem_max`, which clamps, or was asked for exactly.
    pub rmem_max: u64,
    /// It is another: the program's own, or from before a parameter was changed.
    pub application: u64,
}

/// What is remembered of sockets between looks.
#[derive(Debug, Default)]
pub struct Tracker {
    known: BTreeMap<Key, Totals>,
    /// Of those without a name.
    other: Totals,
    /// By cookie.
    seen: HashMap<u64, Seen>,
    last: Option<Instant>,
}

type Key = (u16, IpAddr);

#[derive(Debug, Default, Clone, Copy)]
struct Totals {
    full: Duration,
    drops: u64,
}

impl Totals {
    fn add(&mut self, full: Duration, drops: u64) {
        self.full += full;
        self.drops += drops;
    }
}

/// What is remembered of a socket.
#[derive(Debug, Clone, Copy)]
struct Seen {
    drops: Option<u32>,
    full: bool,
}

/// What one look found of an address and port.
#[derive(Debug, Default)]
struct Look<'a> {
    sockets: Vec<&'a Socket>,
    /// Dropped since the last look.
    drops: u64,
    /// A socket was full then and is now.
    full: bool,
}

impl Look<'_> {
    fn fill(&self) -> f64 {
        self.sockets.iter().map(|socket| fill(socket)).fold(0.0, f64::max)
    }
}

impl Tracker {
    /// After a pause nothing is known of what was between.
    pub fn pause(&mut self) {
        self.last = None;
    }

    /// Takes in one look and gives the groups: of ports that programs chose and of
    /// others in trouble the worst get a name, by drops, then by how full they are,
    /// then by port. Of the time since the last look at most `longest` counts.
    pub fn observe(
        &mut self,
        now: Instant,
        sockets: &[Socket],
        bounds: &Bounds,
        longest: Duration,
    ) -> Vec<Group> {
        let elapsed = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let elapsed = elapsed.min(longest);
        self.last = Some(now);

        let present = self.look(sockets);
        self.known.retain(|key, _| present.contains_key(key));
        for (key, look) in &present {
            let full = if look.full { elapsed } else { Duration::ZERO };
            self.known.entry(*key).or_default().add(full, look.drops);
        }

        let (named, rest) = self.split(&present, bounds);
        let group_of =
            |key: &Key| Some(group(*key, &present.get(key)?.sockets, *self.known.get(key)?, bounds));
        let mut groups: Vec<Group> = named.iter().filter_map(group_of).collect();
        if let Some(sum) = rest.iter().filter_map(group_of).reduce(merged) {
            let looks = || rest.iter().filter_map(|key| present.get(key));
            // Of sockets that come and go only what is new is added, so that a
            // counter never falls.
            let full = if looks().any(|look| look.full) { elapsed } else { Duration::ZERO };
            self.other.add(full, looks().map(|look| look.drops).sum());
            groups.push(Group {
                address: "other".into(),
                port: "other".into(),
                full: self.other.full,
                drops: sum.drops.and(Some(self.other.drops)),
                ..sum
            });
        }
        groups
    }

    /// Sockets by address and port, with what changed since the last look; of a
    /// socket not seen before all it ever dropped. A count that fell started anew.
    fn look<'a>(&mut self, sockets: &'a [Socket]) -> BTreeMap<Key, Look<'a>> {
        let mut present: BTreeMap<Key, Look<'_>> = BTreeMap::new();
        let mut seen = HashMap::with_capacity(sockets.len());
        for socket in sockets {
            let full = fill(socket) >= FULL;
            // A dump that is resumed may give a socket twice.
            if seen.insert(socket.cookie, Seen { drops: socket.drops, full }).is_some() {
                continue;
            }
            let before = self.seen.get(&socket.cookie);
            let look = present.entry((socket.port, socket.address)).or_default();
            if let Some(drops) = socket.drops {
                let known = before.and_then(|seen| seen.drops).unwrap_or(0);
                look.drops += u64::from(drops.checked_sub(known).unwrap_or(drops));
            }
            look.full |= full && before.is_some_and(|seen| seen.full);
            look.sockets.push(socket);
        }
        self.seen = seen;
        present
    }

    /// Those that get a name, and the others.
    fn split(&self, present: &BTreeMap<Key, Look<'_>>, bounds: &Bounds) -> (Vec<Key>, Vec<Key>) {
        let drops = |key: &Key| self.known.get(key).map_or(0, |totals| totals.drops);
        let notable = |key: &Key, look: &Look<'_>| drops(key) >= NOTABLE_DROPS || look.fill() >= NOTABLE_FILL;
        let mut named = Vec::new();
        let mut rest = Vec::new();
        for (key, look) in present {
            if !is_ephemeral(key.0, bounds) || notable(key, look) {
                // In tenths: who holds a datagram more or less is not worse.
                let filled = (look.fill() * 10.0) as u64;
                named.push((Reverse(drops(key)), Reverse(filled), *key));
            } else {
                rest.push(*key);
            }
        }
        named.sort_unstable();
        let mut keys: Vec<Key> = named.into_iter().map(|(.., key)| key).collect();
        rest.extend(keys.split_off(keys.len().min(NAMED)));
        keys.sort_unstable();
        (keys, rest)
    }
}

/// All of these sockets, which share address and port.
fn group((port, address): Key, sockets: &[&Socket], totals: Totals, bounds: &Bounds) -> Group {
    let worst =
        sockets.iter().max_by(|one, two| fill(one).total_cmp(&fill(two)).then(two.rcvbuf.cmp(&one.rcvbuf)));
    Group {
        address: address.to_string(),
        port: port.to_string(),
        sockets: sockets.len() as u64,
        fill: worst.map_or(0.0, |socket| fill(socket)),
        buffer: worst.map_or(0, |socket| socket.rcvbuf.into()),
        set_by: bounds.rmem_default.zip(bounds.rmem_max).map(|(default, max)| causes(sockets, default, max)),
        full: totals.full,
        drops: sockets.iter().any(|socket| socket.drops.is_some()).then_some(totals.drops),
    }
}

/// Both as one: figures summed, of the fullest socket the fuller one's.
fn merged(one: Group, other: Group) -> Group {
    let smaller = other.fill == one.fill && other.buffer < one.buffer;
    let fuller = if other.fill > one.fill || smaller { &other } else { &one };
    Group {
        sockets: one.sockets + other.sockets,
        fill: fuller.fill,
        buffer: fuller.buffer,
        set_by: one.set_by.zip(other.set_by).map(|(one, two)| Causes {
            default: one.default + two.default,
            rmem_max: one.rmem_max + two.rmem_max,
            application: one.application + two.application,
        }),
        drops: one.drops.or(other.drops),
        ..one
    }
}

fn fill(socket: &Socket) -> f64 {
    // No kernel has a buffer of nothing (SOCK_MIN_RCVBUF).
    f64::from(socket.rmem_alloc) / f64::from(socket.rcvbuf.max(1))
}

fn causes(sockets: &[&Socket], rmem_default: u64, rmem_max: u64) -> Causes {
    let mut causes = Causes::default();
    for size in sockets.iter().map(|socket| u64::from(socket.rcvbuf)) {
        *if size == rmem_default {
            &mut causes.default
        } else if size == rmem_max.saturating_mul(2) {
            &mut causes.rmem_max
        } else {
            &mut causes.application
        } += 1;
    }
    causes
}

/// Whether the kernel gives this port to a socket that asks for none.
fn is_ephemeral(port: u16, bounds: &Bounds) -> bool {
    let within = bounds.port_range.is_some_and(|[first, last]| (first..=last).contains(&port.into()));
    within && !bounds.reserved.iter().any(|[first, last]| (first..=last).contains(&&port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(45);

    fn socket(port: u16, cookie: u64, rmem_alloc: u32, drops: u32) -> Socket {
        let address = IpAddr::from([0; 4]);
        Socket { address, port, cookie, rmem_alloc, rcvbuf: 1000, drops: Some(drops) }
    }

    fn bounds() -> Bounds {
        Bounds {
            rmem_default: Some(1000),
            rmem_max: Some(4000),
            port_range: Some([32768, 60999]),
            reserved: vec![[40000, 40001]],
        }
    }

    #[test]
    fn full_is_who_was_so_at_both_looks() {
        let mut tracker = Tracker::default();
        let start = Instant::now();
        let mut full = |second: u64, sockets: &[Socket]| {
            let now = start + Duration::from_secs(second);
            tracker.observe(now, sockets, &bounds(), LONGEST)[0].full.as_secs()
        };
        assert_eq!(full(0, &[socket(53, 1, 900, 0)]), 0);
        assert_eq!(full(15, &[socket(53, 1, 950, 0)]), 15);
        // Drained between, then another socket of the same port.
        assert_eq!(full(30, &[socket(53, 1, 899, 0)]), 15);
        assert_eq!(full(45, &[socket(53, 1, 1000, 0)]), 15);
        assert_eq!(full(60, &[socket(53, 2, 1000, 0)]), 15);
        assert_eq!(full(75, &[socket(53, 1, 0, 0), socket(53, 2, 1000, 0)]), 30);
        // Of an hour without a look only a moment counts.
        assert_eq!(full(3675, &[socket(53, 2, 1000, 0)]), 75);
    }

    #[test]
    fn sockets_of_a_port_are_summed_and_the_fullest_is_kept() {
        let mut sockets = [socket(53, 1, 100, 2), socket(53, 2, 300, 3), socket(53, 3, 300, 0)];
        sockets[1].rcvbuf = 8000;
        sockets[2].rcvbuf = 600;
        let groups = Tracker::default().observe(Instant::now(), &sockets, &bounds(), LONGEST);
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].sockets, groups[0].drops), (3, Some(5)));
        assert_eq!((groups[0].fill, groups[0].buffer), (0.5, 600));
        assert_eq!(groups[0].set_by, Some(Causes { default: 1, rmem_max: 1, application: 1 }));
        let unknown = Bounds { rmem_max: None, ..bounds() };
        let groups = Tracker::default().observe(Instant::now(), &sockets, &unknown, LONGEST);
        assert_eq!(groups[0].set_by, None);
    }

    #[test]
    fn drops_never_fall_and_a_new_socket_brings_its_own() {
        let mut tracker = Tracker::default();
        let mut drops =
            |sockets: &[Socket]| tracker.observe(Instant::now(), sockets, &bounds(), LONGEST)[0].drops;
        assert_eq!(drops(&[socket(53, 1, 0, 7), socket(53, 2, 0, 1), socket(53, 2, 0, 1)]), Some(8));
        assert_eq!(drops(&[socket(53, 1, 0, 9)]), Some(10));
        assert_eq!(drops(&[socket(53, 1, 0, 9), socket(53, 3, 0, 4)]), Some(14));
        assert_eq!(drops(&[socket(53, 3, 0, 1)]), Some(15));
        let untold = Socket { drops: None, ..socket(54, 4, 0, 0) };
        assert_eq!(drops(&[untold]), None);
    }

    fn names(groups: &[Group]) -> Vec<&str> {
        groups.iter().map(|group| group.port.as_str()).collect()
    }

    #[test]
    fn clients_have_no_name_until_they_are_in_trouble() {
        let mut tracker = Tracker::default();
        let mut sockets: Vec<_> = (50_000..50_100).map(|port| socket(port, port.into(), 0, 0)).collect();
        sockets.extend([socket(53, 1, 0, 0), socket(40_000, 2, 0, 0)]);
        let mut look = |sockets: &[Socket]| tracker.observe(Instant::now(), sockets, &bounds(), LONGEST);
        let groups = look(&sockets);
        assert_eq!(names(&groups), ["53", "40000", "other"]);
        assert_eq!((groups[2].sockets, groups[2].drops), (100, Some(0)));
        // Below what is notable it is part of the rest.
        sockets[5].drops = Some(9);
        assert_eq!(look(&sockets)[2].drops, Some(9));
        sockets[5].drops = Some(12);
        sockets[6].rmem_alloc = 500;
        let groups = look(&sockets);
        assert_eq!(names(&groups), ["53", "40000", "50005", "50006", "other"]);
        assert_eq!((groups[2].drops, groups[4].drops), (Some(12), Some(9)));
        // It goes, and what the rest dropped stays.
        sockets.truncate(5);
        assert_eq!(look(&sockets)[0].drops, Some(9));
    }

    #[test]
    fn the_worst_are_named_by_drops_then_by_fill_then_by_port() {
        let mut tracker = Tracker::default();
        let mut sockets: Vec<_> = (1..=13).map(|port| socket(port, port.into(), 0, 0)).collect();
        let mut look = |sockets: &[Socket]| tracker.observe(Instant::now(), sockets, &bounds(), LONGEST);
        assert_eq!(names(&look(&sockets))[8..], ["9", "10", "other"]);
        sockets[11].rmem_alloc = 400;
        sockets[12].drops = Some(1);
        let groups = look(&sockets);
        assert_eq!(names(&groups)[7..], ["8", "12", "13", "other"]);
        assert_eq!((groups[10].sockets, groups[10].drops), (3, Some(0)));
    }
}
