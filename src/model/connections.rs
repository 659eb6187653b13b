//! What one pass over all connections adds up to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use crate::read::connections::{Connection, State};
use crate::read::listeners::Listener;

/// Which end of a connection is ours, as far as the port tells: a client may have
/// one that a program listens on at another address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Something listens on the local port.
    Server,
    /// Nothing does.
    Client,
}

impl Role {
    /// As in the `role` label.
    pub const NAMES: [&str; 2] = ["server", "client"];
}

/// How far away the peer is, by the least round trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Below 1 ms: this host or its neighbourhood.
    Local,
    /// Below 20 ms.
    Region,
    /// 20 ms and more.
    Long,
}

impl Path {
    /// As in the `path` label.
    pub const NAMES: [&str; 3] = ["local", "region", "long"];

    fn of(min_rtt_microseconds: u32) -> Self {
        match min_rtt_microseconds {
            0..1_000 => Self::Local,
            1_000..20_000 => Self::Region,
            _ => Self::Long,
        }
    }
}

/// Connections that a listener has and its program not yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Half-open ones (SYN_RECV).
    pub half_open: u64,
    /// Time since the oldest one that waits for accept() was first seen.
    pub oldest_unaccepted: Duration,
}

impl Waiting {
    /// Takes in those of another address.
    pub fn add(&mut self, other: &Self) {
        self.half_open += other.half_open;
        self.oldest_unaccepted = self.oldest_unaccepted.max(other.oldest_unaccepted);
    }
}

/// By local port and address.
pub type WaitingBy = BTreeMap<(u16, IpAddr), Waiting>;

/// Upper bounds of round trip times, seconds.
pub const RTT_BOUNDS: [f64; 13] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5];

/// Round trip times by path, in the order of [`Path::NAMES`].
pub type ByPath = [Histogram; Path::NAMES.len()];

/// Round trip times, of one pass or of all.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Smoothed round trip times of connections that sent data and heard from
    /// their peer since the last pass.
    pub rtt: ByPath,
    /// Their least round trip times.
    pub min_rtt: ByPath,
}

impl Default for Times {
    fn default() -> Self {
        let by_path = || std::array::from_fn(|_| Histogram::new(&RTT_BOUNDS));
        Self { rtt: by_path(), min_rtt: by_path() }
    }
}

impl Times {
    /// Adds those of another pass or family.
    pub fn add(&mut self, other: &Self) {
        let histograms = self.rtt.iter_mut().chain(&mut self.min_rtt);
        for (histogram, more) in histograms.zip(other.rtt.iter().chain(&other.min_rtt)) {
            histogram.add(more);
        }
    }
}

/// What a pass found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pass {
    /// Connections by state, in the order of [`State::ALL`], and role, in the
    /// order of [`Role::NAMES`].
    pub connections: [[u64; 2]; State::ALL.len()],
    /// Local port and address of half-open connections, and how many.
    pub half_open: BTreeMap<(u16, IpAddr), u64>,
    /// Connections that wait for accept(), by cookie, with local port and
    /// address. Accept queues bound how many there can be.
    pub unaccepted: BTreeMap<u64, (u16, IpAddr)>,
    /// Round trip times.
    pub times: Times,
}

impl Pass {
    /// Takes in a connection. `since` is the time since the last pass: what did
    /// not send and hear from its peer meanwhile has nothing new to say of the path.
    pub fn observe(&mut self, connection: &Connection, listening: &BTreeSet<u16>, since: Duration) {
        let role = if listening.contains(&connection.port) { Role::Server } else { Role::Client };
        self.connections[connection.state as usize][role as usize] += 1;
        let place = (connection.port, connection.address.to_canonical());
        match connection.state {
            State::SynRecv => *self.half_open.entry(place).or_default() += 1,
            // The peer may have closed already.
            State::Established | State::CloseWait if role == Role::Server && !connection.has_owner => {
                self.unaccepted.insert(connection.cookie, place);
            }
            _ => {}
        }
        // Who only receives measures nothing: what the peer sends acknowledges as well.
        let recently = |ago: u32| Duration::from_millis(ago.into()) < since;
        let Some(info) = connection.attributes.info else { return };
        let measured = recently(info.last_data_sent) && recently(info.last_ack_recv);
        if let (true, Some(rtt), Some(min_rtt)) = (measured, info.rtt, info.min_rtt) {
            let path = Path::of(min_rtt) as usize;
            self.times.rtt[path].observe(f64::from(rtt) / 1e6);
            self.times.min_rtt[path].observe(f64::from(min_rtt) / 1e6);
        }
    }

    /// Adds what a pass over the other family found.
    pub fn add(&mut self, other: &Self) {
        for (counts, more) in self.connections.iter_mut().flatten().zip(other.connections.iter().flatten()) {
            *counts += more;
        }
        for (key, count) in &other.half_open {
            *self.half_open.entry(*key).or_default() += count;
        }
        self.unaccepted.extend(&other.unaccepted);
        self.times.add(&other.times);
    }
}

/// When connections that wait for accept() were first seen.
#[derive(Debug, Default)]
pub struct Unaccepted(HashMap<u64, Instant>);

impl Unaccepted {
    /// Takes in a pass.
    pub fn observe(&mut self, now: Instant, pass: &Pass) -> WaitingBy {
        let mut waiting = WaitingBy::new();
        for (place, count) in &pass.half_open {
            waiting.entry(*place).or_default().half_open = *count;
        }
        self.0.retain(|cookie, _| pass.unaccepted.contains_key(cookie));
        for (cookie, place) in &pass.unaccepted {
            let first_seen = *self.0.entry(*cookie).or_insert(now);
            let oldest_unaccepted = now.saturating_duration_since(first_seen);
            waiting.entry(*place).or_default().add(&Waiting { half_open: 0, oldest_unaccepted });
        }
        waiting
    }
}

/// What waits, by the listener that has it: the one of the local address, else
/// the one of all addresses. An IPv4 connection may be that of an IPv6 listener.
pub(super) fn by_listener<T>(found: &WaitingBy, listeners: &BTreeMap<(u16, IpAddr), T>) -> WaitingBy {
    let mut sums = WaitingBy::new();
    for ((port, address), waiting) in found {
        let owners: &[IpAddr] = match address {
            IpAddr::V4(four) => &[
                *address,
                four.to_ipv6_mapped().into(),
                Ipv4Addr::UNSPECIFIED.into(),
                Ipv6Addr::UNSPECIFIED.into(),
            ],
            IpAddr::V6(_) => &[*address, Ipv6Addr::UNSPECIFIED.into()],
        };
        let keys = owners.iter().map(|owner| (*port, *owner));
        if let Some(key) = keys.into_iter().find(|key| listeners.contains_key(key)) {
            sums.entry(key).or_default().add(waiting);
        }
    }
    sums
}

/// Ports that something listens on.
pub fn ports(listeners: &[Listener]) -> BTreeSet<u16> {
    listeners.iter().map(|listener| listener.port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::sock_diag::{Attributes, TcpInfo};

    fn connection(state: State, port: u16, times: Option<(u32, u32)>, heard: u32) -> Connection {
        Connection {
            state,
            timer: None,
            address: "::ffff:192.0.2.1".parse().unwrap(),
            port,
            peer_address: "::ffff:192.0.2.2".parse().unwrap(),
            peer_port: 9,
            cookie: 1,
            has_owner: true,
            receive_queue: 0,
            send_queue: 0,
            attributes: Attributes {
                info: Some(TcpInfo {
                    rtt: times.map(|(rtt, _)| rtt),
                    min_rtt: times.map(|(_, least)| least),
                    last_data_sent: heard,
                    last_ack_recv: heard,
                    ..TcpInfo::default()
                }),
                ..Attributes::default()
            },
        }
    }

    #[test]
    fn the_listening_end_is_the_server() {
        let (listening, since) = (BTreeSet::from([443]), Duration::from_secs(15));
        let mut pass = Pass::default();
        for (state, port) in [
            (State::Established, 443),
            (State::Established, 40_000),
            (State::SynRecv, 443),
            (State::SynRecv, 443),
        ] {
            pass.observe(&connection(state, port, None, 0), &listening, since);
        }
        assert_eq!(pass.connections[State::Established as usize], [1, 1]);
        assert_eq!(pass.connections[State::SynRecv as usize], [2, 0]);
        // A mapped address is that of IPv4.
        assert_eq!(pass.half_open, BTreeMap::from([((443, "192.0.2.1".parse().unwrap()), 2)]));
        let mut sum = pass.clone();
        sum.add(&pass);
        assert_eq!(sum.connections[State::SynRecv as usize], [4, 0]);
    }

    #[test]
    fn the_age_of_a_connection_ends_with_accept() {
        let since = Duration::from_secs(15);
        let start = Instant::now();
        let mut unaccepted = Unaccepted::default();
        let mut look = |seconds: u64, connections: &[(u64, u16, bool)]| {
            let mut pass = Pass::default();
            for (cookie, port, has_owner) in connections {
                let found = connection(State::Established, *port, None, 0);
                let found = Connection { cookie: *cookie, has_owner: *has_owner, ..found };
                pass.observe(&found, &BTreeSet::from([443]), since);
            }
            let waiting = unaccepted.observe(start + Duration::from_secs(seconds), &pass);
            waiting
                .get(&(443, "192.0.2.1".parse().unwrap()))
                .map(|waiting| waiting.oldest_unaccepted.as_secs())
        };
        assert_eq!(look(0, &[(1, 443, false)]), Some(0));
        // A client of ours that is closing has no owner either, and waits for nobody.
        assert_eq!(look(15, &[(1, 443, false), (2, 443, false), (3, 80, false)]), Some(15));
        assert_eq!(look(30, &[(1, 443, true), (2, 443, false)]), Some(15));
        assert_eq!(look(45, &[(1, 443, true), (2, 443, true)]), None);
    }

    #[test]
    fn what_waits_belongs_to_the_listener_of_its_family() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let owner = |listeners: &[&str], local: &str| {
            let present = listeners.iter().map(|listener| ((80, address(listener)), ())).collect();
            let waiting = Waiting { half_open: 1, ..Waiting::default() };
            let found = by_listener(&WaitingBy::from([((80, address(local)), waiting)]), &present);
            found.keys().next().map(|(_, address)| address.to_string())
        };
        let both = ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.2"];
        assert_eq!(owner(&both, "2001:db8::1").as_deref(), Some("::"));
        assert_eq!(owner(&both, "192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(owner(&both, "192.0.2.2").as_deref(), Some("::ffff:192.0.2.2"));
        assert_eq!(owner(&both, "192.0.2.3").as_deref(), Some("0.0.0.0"));
        assert_eq!(owner(&["::"], "192.0.2.3").as_deref(), Some("::"));
        assert_eq!(owner(&["0.0.0.0"], "2001:db8::1"), None);
    }

    #[test]
    fn states_are_counted_at_their_place() {
        for (place, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, place, "{state:?}");
        }
    }

    #[test]
    fn only_those_that_heard_from_their_peer_have_a_time() {
        let mut pass = Pass::default();
        let since = Duration::from_secs(15);
        for (times, heard) in [
            ((900, 800), 10),
            ((30_000, 1_000), 10),
            ((30_000, 20_000), 10),
            ((5, 5), 15_000),
            ((5, 5), 99_999),
        ] {
            pass.observe(&connection(State::Established, 1, Some(times), heard), &BTreeSet::new(), since);
        }
        let mut receiver = connection(State::Established, 1, Some((5, 5)), 10);
        receiver.attributes.info =
            receiver.attributes.info.map(|info| TcpInfo { last_data_sent: 99_999, ..info });
        pass.observe(&receiver, &BTreeSet::new(), since);
        assert_eq!(pass.times.rtt.each_ref().map(Histogram::count), [1, 1, 1]);
        assert_eq!(pass.times.min_rtt.each_ref().map(|histogram| histogram.sum), [0.0008, 0.001, 0.02]);
        assert_eq!(pass.times.rtt[Path::Region as usize].sum, 0.03);
    }
}
