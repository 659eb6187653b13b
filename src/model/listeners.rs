//! Listeners: sockets that share address and port, seen again and again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::connections::{Waiting, WaitingBy, by_listener};
use crate::read::listeners::{Bounds, Listener};

/// Listeners that are shown under their own name; the others are summed up.
pub const NAMED: usize = 32;

/// Listening sockets of one address and port, or all that have no name.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Local address, or `other`.
    pub address: String,
    /// Local port, or `other`.
    pub port: String,
    /// Sockets: more than one with `SO_REUSEPORT`, or where each is bound to a
    /// device of its own.
    pub sockets: u64,
    /// Connections that wait for accept(), of all sockets.
    pub queue: u64,
    /// What may wait, of all sockets.
    pub limit: u64,
    /// Queue over limit + 1 of the fullest socket; 1 is full.
    pub fill: f64,
    /// Limit of the fullest socket; of the least one where none is fuller.
    pub socket_limit: u64,
    /// Where the limits come from; `None` without `net.core.somaxconn`.
    pub limited_by: Option<Causes>,
    /// Whether the kernel may give the port to an outgoing connection; `None`
    /// for `other` and where the range is unknown.
    pub in_port_range: Option<bool>,
    /// Time during which a socket was seen full.
    pub full: Duration,
    /// Packets dropped, since the first of these sockets was made or we
    /// started; `None` where the kernel does not tell.
    pub drops: Option<u64>,
    /// Connections not yet with the program; `None` before the first pass over
    /// connections.
    pub waiting: Option<Waiting>,
}

impl Group {
    /// Both as one: figures summed, of the fullest socket the fuller one's.
    fn merged(self, other: Self) -> Self {
        let smaller = other.fill == self.fill && other.socket_limit < self.socket_limit;
        let fuller = if other.fill > self.fill || smaller { &other } else { &self };
        Self {
            sockets: self.sockets + other.sockets,
            queue: self.queue + other.queue,
            limit: self.limit + other.limit,
            fill: fuller.fill,
            socket_limit: fuller.socket_limit,
            limited_by: self.limited_by.zip(other.limited_by).map(|(one, two)| Causes {
                somaxconn: one.somaxconn + two.somaxconn,
                application: one.application + two.application,
                older_somaxconn: one.older_somaxconn + two.older_somaxconn,
            }),
            drops: self.drops.or(other.drops),
            waiting: self.waiting.zip(other.waiting).map(|(mut one, two)| {
                one.add(&two);
                one
            }),
            ..self
        }
    }
}

/// Sockets by where their limit comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Causes {
    /// The limit is `net.core.somaxconn`: it clamps, or listen() asked for as much.
    pub somaxconn: u64,
    /// It is less: listen() asked for it, unless somaxconn was raised before we
    /// first saw the socket.
    pub application: u64,
    /// It is more, or the somaxconn of the time when the socket was first seen:
    /// listen() was called under another setting.
    pub older_somaxconn: u64,
}

/// What is remembered of listeners between passes.
#[derive(Debug, Default)]
pub struct Tracker {
    known: BTreeMap<(u16, IpAddr), Totals>,
    /// Of those without a name; no sockets are kept here.
    other: Totals,
    last: Option<Instant>,
}

#[derive(Debug, Default)]
struct Totals {
    full: Duration,
    drops: u64,
    /// By cookie.
    sockets: HashMap<u64, Seen>,
}

/// What is remembered of a socket.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Drops at the last look.
    drops: Option<u32>,
    /// `net.core.somaxconn` when it was first seen.
    somaxconn: Option<u64>,
}

impl Totals {
    /// Those that were seen full come first, then those that dropped something,
    /// which a stray packet suffices for.
    fn rank(&self) -> u8 {
        match (self.full.is_zero(), self.drops) {
            (false, _) => 0,
            (true, 1..) => 1,
            (true, 0) => 2,
        }
    }
}

impl Tracker {
    /// After a pause nothing is known of what was between.
    pub fn pause(&mut self) {
        self.last = None;
    }

    /// Takes in one look, and what waits by the last pass over connections, and
    /// gives the groups: those in trouble first get a name, then those of the
    /// lowest ports. Of the time since the last look at most `longest` counts.
    pub fn observe(
        &mut self,
        now: Instant,
        listeners: &[Listener],
        bounds: &Bounds,
        waiting: Option<&WaitingBy>,
        longest: Duration,
    ) -> Vec<Group> {
        let elapsed = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let elapsed = elapsed.min(longest);
        self.last = Some(now);

        let mut present: BTreeMap<(u16, IpAddr), Vec<&Listener>> = BTreeMap::new();
        // A dump that is resumed may give a socket twice.
        let mut cookies = HashSet::with_capacity(listeners.len());
        for listener in listeners.iter().filter(|listener| cookies.insert(listener.cookie)) {
            present.entry((listener.port, listener.address)).or_default().push(listener);
        }
        self.known.retain(|key, _| present.contains_key(key));
        let waiting = waiting.map(|found| by_listener(found, &present));

        let mut changes = BTreeMap::new();
        for (key, sockets) in &present {
            let totals = self.known.entry(*key).or_default();
            let full = if sockets.iter().any(|socket| is_full(socket)) { elapsed } else { Duration::ZERO };
            let drops = new_drops(&mut totals.sockets, sockets, bounds.somaxconn);
            totals.full += full;
            totals.drops += drops;
            changes.insert(*key, (full, drops));
        }

        let mut order: Vec<_> = present.keys().copied().collect();
        order.sort_by_key(|key| (self.known.get(key).map(Totals::rank), *key));
        let (named, rest) = order.split_at(order.len().min(NAMED));
        let mut named = named.to_vec();
        named.sort_unstable();
        let group_of = |key: &(u16, IpAddr)| {
            let waiting = waiting.as_ref().map(|found| found.get(key).copied().unwrap_or_default());
            Some(group(*key, present.get(key)?, self.known.get(key)?, bounds, waiting))
        };
        let mut groups: Vec<Group> = named.iter().filter_map(group_of).collect();
        if let Some(sum) = rest.iter().filter_map(group_of).reduce(Group::merged) {
            // Of listeners that come and go only what is new is added, so that a
            // counter never falls.
            for (full, drops) in rest.iter().filter_map(|key| changes.get(key)) {
                self.other.full += *full;
                self.other.drops += *drops;
            }
            groups.push(Group {
                address: "other".into(),
                port: "other".into(),
                in_port_range: None,
                full: self.other.full,
                drops: sum.drops.and(Some(self.other.drops)),
                ..sum
            });
        }
        groups
    }
}

fn group(
    (port, address): (u16, IpAddr),
    sockets: &[&Listener],
    totals: &Totals,
    bounds: &Bounds,
    waiting: Option<Waiting>,
) -> Group {
    let sum = |value: fn(&Listener) -> u32| sockets.iter().map(|socket| u64::from(value(socket))).sum();
    let worst =
        sockets.iter().max_by(|one, two| fill(one).total_cmp(&fill(two)).then(two.limit.cmp(&one.limit)));
    let queue = sum(|socket| socket.queue);
    // The queue is looked at more often than connections are; an empty one holds
    // none that waits.
    let accepted = |waiting: Waiting| Waiting { oldest_unaccepted: Duration::ZERO, ..waiting };
    Group {
        address: address.to_string(),
        port: port.to_string(),
        sockets: sockets.len() as u64,
        queue,
        limit: sum(|socket| socket.limit),
        fill: worst.map_or(0.0, |socket| fill(socket)),
        socket_limit: worst.map_or(0, |socket| socket.limit.into()),
        limited_by: bounds.somaxconn.map(|somaxconn| causes(sockets, &totals.sockets, somaxconn)),
        in_port_range: in_port_range(port, bounds),
        full: totals.full,
        drops: sockets.iter().any(|socket| socket.drops.is_some()).then_some(totals.drops),
        waiting: if queue == 0 { waiting.map(accepted) } else { waiting },
    }
}

fn is_full(socket: &Listener) -> bool {
    socket.queue > socket.limit
}

fn fill(socket: &Listener) -> f64 {
    f64::from(socket.queue) / (f64::from(socket.limit) + 1.0)
}

fn causes(sockets: &[&Listener], seen: &HashMap<u64, Seen>, somaxconn: u64) -> Causes {
    let mut causes = Causes::default();
    for socket in sockets {
        let limit = u64::from(socket.limit);
        let then = seen.get(&socket.cookie).and_then(|seen| seen.somaxconn);
        *if limit == somaxconn {
            &mut causes.somaxconn
        } else if limit > somaxconn || then == Some(limit) {
            &mut causes.older_somaxconn
        } else {
            &mut causes.application
        } += 1;
    }
    causes
}

/// Drops since the last look; of a socket not seen before all it ever had. A
/// count that fell started anew.
fn new_drops(seen: &mut HashMap<u64, Seen>, sockets: &[&Listener], somaxconn: Option<u64>) -> u64 {
    let mut new = 0;
    let mut now = HashMap::with_capacity(sockets.len());
    for socket in sockets {
        let before = seen.get(&socket.cookie);
        if let Some(drops) = socket.drops {
            let known = before.and_then(|seen| seen.drops).unwrap_or(0);
            new += u64::from(drops.checked_sub(known).unwrap_or(drops));
        }
        let somaxconn = before.map_or(somaxconn, |seen| seen.somaxconn);
        now.insert(socket.cookie, Seen { drops: socket.drops, somaxconn });
    }
    *seen = now;
    new
}

fn in_port_range(port: u16, bounds: &Bounds) -> Option<bool> {
    let [first, last] = bounds.port_range?;
    let reserved = bounds.reserved.iter().any(|[first, last]| (first..=last).contains(&&port));
    Some((first..=last).contains(&port.into()) && !reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(port: u16, cookie: u64, queue: u32, limit: u32, drops: u32) -> Listener {
        Listener { address: IpAddr::from([0; 4]), port, cookie, queue, limit, drops: Some(drops) }
    }

    const LONGEST: Duration = Duration::from_secs(3);

    fn bounds() -> Bounds {
        Bounds { somaxconn: Some(16), port_range: Some([32768, 60999]), reserved: vec![[40000, 40001]] }
    }

    #[test]
    fn full_is_one_more_than_the_limit() {
        let mut tracker = Tracker::default();
        let start = Instant::now();
        let full = [listener(80, 1, 9, 8, 0)];
        tracker.observe(start, &full, &bounds(), None, LONGEST);
        let groups = tracker.observe(start + Duration::from_secs(1), &full, &bounds(), None, LONGEST);
        assert_eq!((groups[0].fill, groups[0].full), (1.0, Duration::from_secs(1)));
        // At the limit one more fits.
        let groups = tracker.observe(
            start + Duration::from_secs(2),
            &[listener(80, 1, 8, 8, 0)],
            &bounds(),
            None,
            LONGEST,
        );
        assert_eq!((groups[0].fill, groups[0].full), (8.0 / 9.0, Duration::from_secs(1)));
        // Of an hour without a look only a moment counts.
        let groups = tracker.observe(start + Duration::from_secs(3602), &full, &bounds(), None, LONGEST);
        assert_eq!(groups[0].full, Duration::from_secs(4));
    }

    #[test]
    fn listen_of_nothing_holds_one() {
        let groups =
            Tracker::default().observe(Instant::now(), &[listener(80, 1, 1, 0, 0)], &bounds(), None, LONGEST);
        assert_eq!((groups[0].fill, groups[0].socket_limit), (1.0, 0));
    }

    #[test]
    fn sockets_of_a_port_are_summed_and_the_worst_is_kept() {
        let sockets = [listener(80, 1, 0, 16, 2), listener(80, 2, 4, 8, 3), listener(80, 3, 1, 64, 0)];
        let groups = Tracker::default().observe(Instant::now(), &sockets, &bounds(), None, LONGEST);
        assert_eq!(groups.len(), 1);
        let group = &groups[0];
        assert_eq!((group.sockets, group.queue, group.limit, group.drops), (3, 5, 88, Some(5)));
        assert_eq!((group.fill, group.socket_limit), (4.0 / 9.0, 8));
        let causes = Causes { somaxconn: 1, application: 1, older_somaxconn: 1 };
        assert_eq!(group.limited_by, Some(causes));
    }

    #[test]
    fn drops_never_fall_when_a_socket_goes() {
        let mut tracker = Tracker::default();
        let now = Instant::now();
        let mut drops =
            |sockets: &[Listener]| tracker.observe(now, sockets, &bounds(), None, LONGEST)[0].drops;
        assert_eq!(drops(&[listener(80, 1, 0, 8, 7), listener(80, 2, 0, 8, 1)]), Some(8));
        assert_eq!(drops(&[listener(80, 1, 0, 8, 9)]), Some(10));
        // A new socket brings what it dropped before it was seen.
        assert_eq!(drops(&[listener(80, 1, 0, 8, 9), listener(80, 3, 0, 8, 4)]), Some(14));
        assert_eq!(drops(&[listener(80, 3, 0, 8, 1)]), Some(15));
    }

    #[test]
    fn those_in_trouble_have_a_name_and_the_rest_a_sum_that_never_falls() {
        let mut tracker = Tracker::default();
        let now = Instant::now();
        let mut sockets: Vec<_> = (1..=40).map(|port| listener(port, port.into(), 0, 8, 0)).collect();
        let groups = tracker.observe(now, &sockets, &bounds(), None, LONGEST);
        assert_eq!(groups.len(), NAMED + 1);
        assert_eq!((groups[NAMED].port.as_str(), groups[NAMED].sockets), ("other", 8));
        sockets[39].drops = Some(5);
        let groups = tracker.observe(now, &sockets, &bounds(), None, LONGEST);
        assert!(groups.iter().any(|group| group.port == "40" && group.drops == Some(5)));
        assert_eq!((groups[NAMED].sockets, groups[NAMED].drops), (8, Some(0)));
    }

    #[test]
    fn a_limit_from_before_a_raise_is_not_the_applications() {
        let mut tracker = Tracker::default();
        let sockets = [listener(80, 1, 0, 16, 0), listener(81, 2, 0, 8, 0)];
        let mut causes = |sockets: &[Listener], somaxconn: u64| {
            let bounds = Bounds { somaxconn: Some(somaxconn), ..bounds() };
            let groups = tracker.observe(Instant::now(), sockets, &bounds, None, LONGEST);
            groups.iter().map(|group| group.limited_by.unwrap()).collect::<Vec<_>>()
        };
        let somaxconn = Causes { somaxconn: 1, ..Causes::default() };
        let application = Causes { application: 1, ..Causes::default() };
        let older = Causes { older_somaxconn: 1, ..Causes::default() };
        assert_eq!(causes(&sockets, 16), [somaxconn, application]);
        assert_eq!(causes(&sockets, 4096), [older, application]);
        // After listen() again, and then its limit is the program's own.
        let again = [listener(80, 3, 0, 16, 0), listener(81, 2, 0, 8, 0)];
        assert_eq!(causes(&again, 4096), [application, application]);
    }

    #[test]
    fn a_socket_that_a_dump_gives_twice_counts_once() {
        let twice = [listener(80, 1, 3, 16, 7), listener(80, 1, 3, 16, 7)];
        let groups = Tracker::default().observe(Instant::now(), &twice, &bounds(), None, LONGEST);
        assert_eq!((groups[0].sockets, groups[0].queue, groups[0].drops), (1, 3, Some(7)));
    }

    #[test]
    fn reserved_ports_are_not_given_away() {
        let ports = [80, 32768, 40000, 40002].map(|port| in_port_range(port, &bounds()));
        assert_eq!(ports, [Some(false), Some(true), Some(false), Some(true)]);
        assert_eq!(in_port_range(80, &Bounds::default()), None);
    }
}
