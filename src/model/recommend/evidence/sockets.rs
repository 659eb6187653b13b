//! What sockets show: listeners, connections, ports, UDP sockets.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::time::{Highest, Rise};
use super::{Key, Signs};
use crate::catalogue::Sign;
use crate::model::connections::limits::{Cause, Limit};
use crate::model::connections::paths::{Class, PathId};
use crate::model::connections::receiving::ReceiveCause;
use crate::model::connections::{Paths, Sums};
use crate::model::listeners::Group;
use crate::model::ports::Usage;
use crate::model::{Connections, Followed, Snapshot, udp};
use crate::read::connections::State;

/// Share of the time of some connections from which on what limits them counts.
const SHARE: u32 = 10;

/// Share of the ports toward one destination from which on they run short.
const SHORT: f64 = 0.7;

/// Sockets in FIN_WAIT2 without an owner that are many.
const MANY_ORPHANS: u64 = 1000;

/// What is remembered of sockets.
#[derive(Debug, Default)]
pub(in crate::model::recommend) struct Sockets {
    /// Time seen full, by address and port.
    full: HashMap<(String, String), Duration>,
    /// Of the last pass; a connection may be in it for long.
    sums: Seen,
    paths: Arc<Paths>,
    /// Datagrams dropped, by address and port.
    dropped: HashMap<(String, String), Rise>,
    /// Names of algorithms, by number.
    pub(in crate::model::recommend) algorithms: Vec<String>,
    /// Bytes in flight that fill a path, as far as it was seen to carry them.
    pub(in crate::model::recommend) witnessed: BTreeMap<PathId, Highest>,
    /// Connections whose send buffer is at its maximum, and whose receive buffer is.
    pub(in crate::model::recommend) at_maximum: [Highest; 2],
    pub(in crate::model::recommend) half_open: Highest,
    pub(in crate::model::recommend) established: Highest,
    /// Connections with a keepalive timer.
    pub(in crate::model::recommend) keepalive: Highest,
    /// TCP ports that something listens on now; `None` before the first pass.
    pub(in crate::model::recommend) listening: Option<Arc<BTreeSet<u16>>>,
    /// Of those with a name the ones that the kernel may give to connections.
    pub(in crate::model::recommend) in_port_range: BTreeSet<u16>,
    /// UDP ports that have a name.
    pub(in crate::model::recommend) udp_ports: BTreeSet<u16>,
    /// UDP sockets with a buffer of the default size.
    pub(in crate::model::recommend) of_default_size: Highest,
}

/// Sums of a pass that later ones are compared with.
#[derive(Debug, Default)]
struct Seen {
    busy: BTreeMap<Key, Duration>,
    limited: BTreeMap<(Limit, Cause, PathId, u8), Duration>,
    receiving: BTreeMap<PathId, Duration>,
    receive_limited: BTreeMap<(ReceiveCause, PathId), Duration>,
    idle_restarts: BTreeMap<PathId, u64>,
}

impl Sockets {
    pub(super) fn observe(&mut self, now: Instant, snapshot: &Snapshot, signs: &mut Signs) {
        if let Some(groups) = &snapshot.listeners {
            self.observe_listeners(now, groups, signs);
        }
        if let Some(connections) = &snapshot.connections {
            self.observe_connections(now, connections, signs);
        }
        if let Some(groups) = &snapshot.udp_sockets {
            self.observe_datagrams(now, groups, signs);
        }
    }

    fn observe_listeners(&mut self, now: Instant, groups: &[Group], signs: &mut Signs) {
        let in_range = groups.iter().filter(|group| group.in_port_range == Some(true));
        self.in_port_range = in_range.filter_map(|group| group.port.parse().ok()).collect();
        let mut full = HashMap::with_capacity(groups.len());
        for group in groups {
            let name = (group.address.clone(), group.port.clone());
            let was_full = self.full.get(&name).is_some_and(|before| group.full > *before);
            full.insert(name, group.full);
            if group.limited_by.is_none_or(|causes| causes.somaxconn == 0) {
                continue;
            }
            let (place, limit) = (place(&group.address, &group.port), group.socket_limit);
            if was_full || group.fill >= 1.0 {
                let what = format!("the accept queue of {place} held more than {limit} connections");
                signs.note(now, Sign::AcceptQueueFull, Key::default(), what);
            }
            let half_open = group.waiting.map_or(0, |waiting| waiting.half_open);
            if half_open >= limit.max(1) {
                let what = format!("{place} had {half_open} half-open connections at a limit of {limit}");
                signs.note(now, Sign::SynQueueFull, Key::default(), what);
            }
        }
        self.full = full;
    }

    fn observe_connections(&mut self, now: Instant, connections: &Connections, signs: &mut Signs) {
        if let Some(pass) = &connections.now {
            let of = |state: State| pass.connections[state as usize].iter().sum();
            self.established.observe(now, of(State::Established));
            self.half_open.observe(now, of(State::SynRecv));
            let troubles = &pass.troubles;
            self.at_maximum[0].observe(now, troubles.send_buffer_at_maximum);
            self.at_maximum[1].observe(now, troubles.receive_buffer_at_maximum);
            self.keepalive.observe(now, troubles.keepalive);
            for (sign, count, least, of) in [
                (
                    Sign::OrphanedFinWait2,
                    troubles.orphaned_fin_wait2,
                    MANY_ORPHANS,
                    "in FIN_WAIT2 had no owner",
                ),
                (
                    Sign::FullSegmentsStall,
                    troubles.stalled_full_size,
                    1,
                    "stalled that never got a full segment through",
                ),
                (
                    Sign::SegmentsShrunk,
                    troubles.smaller_mss_than_peers,
                    1,
                    "sent less than half a segment of those to the same peers",
                ),
            ] {
                if count >= least {
                    signs.note(now, sign, Key::default(), format!("{count} connections {of}"));
                }
            }
        }
        if let Some(listening) = &connections.listening {
            self.listening = Some(Arc::clone(listening));
        }
        if let Some(usage) = &connections.ports {
            observe_ports(now, usage, signs);
        }
        if let Some(followed) = &connections.followed {
            self.observe_sums(now, followed, signs);
        }
    }

    fn observe_sums(&mut self, now: Instant, followed: &Followed, signs: &mut Signs) {
        if self.paths != followed.paths {
            // Numbers stand for other paths now.
            (self.sums, self.witnessed, self.paths) =
                (Seen::default(), BTreeMap::new(), Arc::clone(&followed.paths));
            signs.0.retain(|(_, key), _| *key == Key::default());
        }
        for (path, bytes) in &followed.witnessed_in_flight {
            self.witnessed.entry(*path).or_default().observe(now, *bytes as u64);
        }
        self.algorithms.clone_from(&followed.algorithms);
        let names = Names { paths: followed.paths.classes().collect(), algorithms: &followed.algorithms };
        let sums = Seen::of(&followed.sums);
        self.sums.compare(&sums, now, &names, signs);
        self.sums = sums;
    }

    fn observe_datagrams(&mut self, now: Instant, groups: &[udp::Group], signs: &mut Signs) {
        let mut dropped = HashMap::with_capacity(groups.len());
        self.udp_ports = groups.iter().filter_map(|group| group.port.parse().ok()).collect();
        let default_sized = groups.iter().filter_map(|group| group.set_by).map(|causes| causes.default);
        self.of_default_size.observe(now, default_sized.sum());
        for group in groups {
            let name = (group.address.clone(), group.port.clone());
            let mut rise = self.dropped.remove(&name).unwrap_or_default();
            let drops = rise.take(group.drops);
            dropped.insert(name, rise);
            let Some(causes) = group.set_by.filter(|_| drops > 0) else { continue };
            let what = format!(
                "{} dropped {drops} datagrams at a receive buffer of {} bytes",
                place(&group.address, &group.port),
                group.buffer
            );
            for (sign, sockets) in
                [(Sign::DatagramsDropped, causes.default), (Sign::DatagramsDroppedAtLimit, causes.rmem_max)]
            {
                if sockets > 0 {
                    signs.note(now, sign, Key::default(), what.clone());
                }
            }
        }
        self.dropped = dropped;
    }
}

fn place(address: &str, port: &str) -> String {
    match address {
        "other" => "one of the others".to_owned(),
        address if address.contains(':') => format!("[{address}]:{port}"),
        address => format!("{address}:{port}"),
    }
}

fn observe_ports(now: Instant, usage: &Usage, signs: &mut Signs) {
    for destination in &usage.destinations {
        let (in_use, available) = (destination.in_use, usage.available);
        if in_use as f64 <= SHORT * available as f64 {
            continue;
        }
        let time_wait = destination.unreusable_time_wait.unwrap_or(0);
        let what = format!(
            "connections to port {} of one address took {in_use} of {available} local ports, {time_wait} of them in TIME_WAIT that may not be reused",
            destination.port
        );
        let sign = if time_wait > in_use / 2 { Sign::PortsInTimeWait } else { Sign::PortsInUse };
        signs.note(now, sign, Key::default(), what);
    }
}

/// Names of paths with their classes, and of algorithms, by number.
struct Names<'a> {
    paths: Vec<(&'a str, Class)>,
    algorithms: &'a [String],
}

impl Names<'_> {
    fn path(&self, path: PathId) -> &str {
        self.paths.get(usize::from(path)).map_or("unknown", |(name, _)| name)
    }

    fn is_long(&self, path: PathId) -> bool {
        self.paths.get(usize::from(path)).is_some_and(|(_, class)| *class == Class::Long)
    }

    fn is_bbr(&self, algorithm: u8) -> bool {
        self.algorithms.get(usize::from(algorithm)).is_some_and(|name| name.starts_with("bbr"))
    }
}

impl Seen {
    fn of(sums: &Sums) -> Self {
        Self {
            busy: sums.totals.iter().map(|(key, totals)| (*key, totals.busy)).collect(),
            limited: sums.limited.clone(),
            receiving: sums.receiving.clone(),
            receive_limited: sums.receive_limited.clone(),
            idle_restarts: sums.idle_restarts.clone(),
        }
    }

    /// What happened between this pass and a later one. A share over some time is at
    /// least reached in one part of it, and by the connections of one path and algorithm.
    fn compare(&self, later: &Self, now: Instant, names: &Names<'_>, signs: &mut Signs) {
        let share =
            |time: Duration, of: Duration| (!time.is_zero() && time * SHARE >= of).then(|| percent(time, of));
        for ((limit, cause, path, algorithm), time) in &later.limited {
            let sign = match (limit, cause) {
                (Limit::SendBuffer, Cause::WmemMax) => Sign::SendBufferAtMaximum,
                (Limit::SendBuffer, Cause::SndbufClamped) => Sign::SendBufferClamped,
                (Limit::SendBuffer, Cause::NotsentLowat) => Sign::SendBufferWithheld,
                (Limit::SendBuffer, Cause::Memory) => Sign::TcpMemoryShort,
                (Limit::Network, Cause::PathLoss) if names.is_long(*path) && !names.is_bbr(*algorithm) => {
                    Sign::LossOnLongPath
                }
                _ => continue,
            };
            let before = self.limited.get(&(*limit, *cause, *path, *algorithm));
            let key = (*path, *algorithm);
            let busy = rise(later.busy.get(&key), self.busy.get(&key));
            let Some(share) = share(rise(Some(time), before), busy) else { continue };
            let why = match sign {
                Sign::LossOnLongPath => "held back by losses that no queue explains",
                _ => "held back by their send buffers",
            };
            let what = format!(
                "connections of path {} were {why} for {share} % of their busy time",
                names.path(*path)
            );
            signs.note(now, sign, if sign == Sign::TcpMemoryShort { Key::default() } else { key }, what);
        }
        for ((cause, path), time) in &later.receive_limited {
            let sign = match cause {
                ReceiveCause::RmemMax => Sign::ReceiveBufferAtMaximum,
                ReceiveCause::RcvbufClamped => Sign::ReceiveBufferClamped,
                ReceiveCause::RcvbufFixed | ReceiveCause::Unread => continue,
            };
            let receiving = rise(later.receiving.get(path), self.receiving.get(path));
            let time = rise(Some(time), self.receive_limited.get(&(*cause, *path)));
            let Some(share) = share(time, receiving) else { continue };
            let what = format!(
                "our receive buffers held connections of path {} back for {share} % of the time they received",
                names.path(*path)
            );
            signs.note(now, sign, (*path, 0), what);
        }
        for (path, count) in later.idle_restarts.iter().filter(|(path, _)| names.is_long(**path)) {
            let new = count.saturating_sub(self.idle_restarts.get(path).copied().unwrap_or(0));
            if new > 0 {
                let what = format!(
                    "{new} congestion windows of path {} began anew after idle time",
                    names.path(*path)
                );
                signs.note(now, Sign::IdleRestart, (*path, 0), what);
            }
        }
        for (key, busy) in later.busy.iter().filter(|((_, algorithm), _)| names.is_bbr(*algorithm)) {
            if !rise(Some(busy), self.busy.get(key)).is_zero() {
                signs.note(now, Sign::BbrInUse, Key::default(), "connections use bbr".into());
            }
        }
    }
}

/// By how much a sum rose; it has none before its first time.
fn rise(later: Option<&Duration>, before: Option<&Duration>) -> Duration {
    let [later, before] = [later, before].map(|time| time.copied().unwrap_or_default());
    later.saturating_sub(before)
}

fn percent(time: Duration, of: Duration) -> u64 {
    (100.0 * time.as_secs_f64() / of.as_secs_f64().max(time.as_secs_f64())).round() as u64
}

#[cfg(test)]
impl Sockets {
    /// Figures of these sizes.
    pub(super) fn fill(&mut self, now: Instant, sizes: [u64; 4]) {
        let all =
            [&mut self.half_open, &mut self.established, &mut self.keepalive, &mut self.of_default_size];
        all.into_iter().zip(sizes).for_each(|(highest, size)| highest.observe(now, size));
        self.at_maximum.iter_mut().zip(sizes).for_each(|(highest, size)| highest.observe(now, size));
        self.witnessed.entry(0).or_default().observe(now, sizes[0]);
        self.listening = Some(Arc::new(sizes.into_iter().map(|size| size as u16).collect()));
    }
}
