//! Listeners: sockets that share address and port, seen again and again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::connections::waiting::{WaitingBy, by_listener};
use super::peak::Peak;
use crate::read::listeners::{Bounds, Listener};

mod group;

pub use group::{Causes, Group};
use group::{group, is_full, queue};

/// Listeners that are shown under their own name; the others are summed up.
pub const NAMED: usize = 32;

/// Time of which the longest queue is kept.
const PEAK_WINDOW: Duration = Duration::from_secs(300);

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
    queue: Peak,
    /// By cookie.
    sockets: HashMap<u64, Seen>,
}

/// What is remembered of a socket.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Drops at the last look.
    drops: Option<u32>,
    /// What listen() set, when it was called last.
    limit: u32,
    /// `net.core.somaxconn` when that was first seen, or the one before, where the limit
    /// says that it is from that time.
    somaxconn: Option<u64>,
    /// The limit was there at the first look, so that nothing is known of its age.
    of_any_age: bool,
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
        // What a later look finds new was made since the one before.
        let of_any_age = self.last.is_none();
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
            let drops = new_drops(&mut totals.sockets, sockets, bounds, of_any_age);
            totals.full += full;
            totals.drops += drops;
            totals.queue.observe(now, queue(sockets), PEAK_WINDOW);
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
            self.other.queue.observe(now, sum.queue, PEAK_WINDOW);
            groups.push(Group {
                address: "other".into(),
                port: "other".into(),
                in_port_range: None,
                queue_peak: self.other.queue.largest(),
                full: self.other.full,
                drops: sum.drops.and(Some(self.other.drops)),
                ..sum
            });
        }
        groups
    }
}

/// Drops since the last look; of a socket not seen before all it ever had. A
/// count that fell started anew.
fn new_drops(seen: &mut HashMap<u64, Seen>, sockets: &[&Listener], bounds: &Bounds, of_any_age: bool) -> u64 {
    let mut new = 0;
    let mut now = HashMap::with_capacity(sockets.len());
    for socket in sockets {
        let Listener { limit, .. } = **socket;
        let first = Seen { drops: None, limit, somaxconn: bounds.somaxconn, of_any_age };
        let mut known = seen.get(&socket.cookie).copied().unwrap_or(first);
        if known.limit != limit {
            // listen() was called again meanwhile.
            known = Seen { drops: known.drops, of_any_age: false, ..first };
        }
        if let Some(drops) = socket.drops {
            let before = known.drops.unwrap_or(0);
            new += u64::from(drops.checked_sub(before).unwrap_or(drops));
        }
        if known.of_any_age && bounds.earlier_somaxconn == Some(socket.limit.into()) {
            known.somaxconn = bounds.earlier_somaxconn;
        }
        known.drops = socket.drops;
        now.insert(socket.cookie, known);
    }
    *seen = now;
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(port: u16, cookie: u64, queue: u32, limit: u32, drops: u32) -> Listener {
        let address = IpAddr::from([0; 4]);
        Listener {
            address,
            port,
            cookie,
            queue,
            limit,
            drops: Some(drops),
            cgroup: None,
            inode: 0,
            port_was_chosen: false,
        }
    }

    const LONGEST: Duration = Duration::from_secs(3);

    fn bounds() -> Bounds {
        Bounds {
            somaxconn: Some(16),
            earlier_somaxconn: None,
            port_range: Some([32768, 60999]),
            reserved: vec![[40000, 40001]],
        }
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
    fn the_longest_queue_is_that_of_all_sockets_at_one_look() {
        let mut tracker = Tracker::default();
        let start = Instant::now();
        let mut peak = |second: u64, queues: [u32; 2]| {
            let sockets = [listener(80, 1, queues[0], 8, 0), listener(80, 2, queues[1], 8, 0)];
            let now = start + Duration::from_secs(second);
            tracker.observe(now, &sockets, &bounds(), None, LONGEST)[0].queue_peak
        };
        assert_eq!(peak(0, [5, 0]), 5);
        // Not 5 + 4: they were not that long at once.
        assert_eq!(peak(1, [2, 4]), 6);
        assert_eq!(peak(300, [0, 0]), 6);
        assert_eq!(peak(302, [0, 0]), 0);
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
        let causes = Causes { somaxconn: 1, application: 1, above_somaxconn: 1, ..Causes::default() };
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

    /// listen() may be called again on a socket that listens (net/ipv4/af_inet.c:__inet_listen_sk).
    #[test]
    fn a_limit_is_judged_by_the_time_when_it_was_set() {
        let mut tracker = Tracker::default();
        let mut cause = |limit: u32, somaxconn: u64| {
            let bounds = Bounds { somaxconn: Some(somaxconn), ..bounds() };
            let sockets = [listener(80, 1, 0, limit, 0)];
            let groups = tracker.observe(Instant::now(), &sockets, &bounds, None, LONGEST);
            groups[0].limited_by.unwrap()
        };
        let somaxconn = Causes { somaxconn: 1, ..Causes::default() };
        let older = Causes { older_somaxconn: 1, ..Causes::default() };
        let application = Causes { application: 1, ..Causes::default() };
        assert_eq!((cause(128, 128), cause(128, 4096)), (somaxconn, older));
        assert_eq!((cause(4096, 4096), cause(4096, 8192)), (somaxconn, older));
        assert_eq!(cause(128, 8192), application);
    }

    #[test]
    fn a_limit_from_before_a_restart_is_that_of_sockets_of_the_first_look_alone() {
        let mut tracker = Tracker::default();
        let mut causes = |sockets: &[Listener], somaxconn: u64, earlier: Option<u64>| {
            let bounds =
                Bounds { somaxconn: Some(somaxconn), earlier_somaxconn: earlier, ..Bounds::default() };
            let groups = tracker.observe(Instant::now(), sockets, &bounds, None, LONGEST);
            groups.iter().map(|group| group.limited_by.unwrap()).collect::<Vec<_>>()
        };
        let application = Causes { application: 1, ..Causes::default() };
        let older = Causes { older_somaxconn: 1, ..Causes::default() };
        let mut sockets = vec![listener(80, 1, 0, 128, 0), listener(81, 2, 0, 100, 0)];
        // The ledger may speak later than the first look is.
        assert_eq!(causes(&sockets, 4096, None), [application, application]);
        sockets.push(listener(82, 3, 0, 128, 0));
        assert_eq!(causes(&sockets, 4096, Some(128)), [older, application, application]);
        // It stays so through further changes.
        assert_eq!(causes(&sockets, 8192, Some(128)), [older, application, application]);
    }

    #[test]
    fn a_port_that_the_kernel_chose_is_missed_by_nobody() {
        let mut sockets = [listener(40_002, 1, 0, 16, 0), listener(40_002, 2, 0, 16, 0)];
        let mut in_port_range = |chosen: [bool; 2]| {
            for (socket, chosen) in sockets.iter_mut().zip(chosen) {
                socket.port_was_chosen = chosen;
            }
            Tracker::default().observe(Instant::now(), &sockets, &bounds(), None, LONGEST)[0].in_port_range
        };
        assert_eq!(in_port_range([false, false]), Some(true));
        assert_eq!(in_port_range([true, false]), Some(true));
        assert_eq!(in_port_range([true, true]), Some(false));
    }

    #[test]
    fn a_socket_that_a_dump_gives_twice_counts_once() {
        let twice = [listener(80, 1, 3, 16, 7), listener(80, 1, 3, 16, 7)];
        let groups = Tracker::default().observe(Instant::now(), &twice, &bounds(), None, LONGEST);
        assert_eq!((groups[0].sockets, groups[0].queue, groups[0].drops), (1, 3, Some(7)));
    }
}
