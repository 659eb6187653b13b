//! What one pass over all connections adds up to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::histogram::RttHistogram;
use crate::read::connections::{Connection, State};
use crate::read::listeners::Listener;

/// Which end of a connection is ours.
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

/// Half-open connections (SYN_RECV) by local port and address.
pub type HalfOpen = BTreeMap<(u16, IpAddr), u64>;

/// Round trip times by path, in the order of [`Path::NAMES`].
pub type ByPath = [RttHistogram; Path::NAMES.len()];

/// What a pass found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pass {
    /// Connections by state, in the order of [`State::ALL`], and role, in the
    /// order of [`Role::NAMES`].
    pub connections: [[u64; 2]; State::ALL.len()],
    /// Half-open connections.
    pub half_open: HalfOpen,
    /// Smoothed round trip times of connections that heard from their peer since
    /// the last pass.
    pub rtt: ByPath,
    /// Their least round trip times.
    pub min_rtt: ByPath,
}

impl Pass {
    /// Takes in a connection. `since` is the time since the last pass: what did
    /// not hear from its peer meanwhile has nothing new to say of the path.
    pub fn observe(&mut self, connection: &Connection, listening: &BTreeSet<u16>, since: Duration) {
        let role = if listening.contains(&connection.port) { Role::Server } else { Role::Client };
        self.connections[connection.state as usize][role as usize] += 1;
        if connection.state == State::SynRecv {
            *self.half_open.entry((connection.port, connection.address.to_canonical())).or_default() += 1;
        }
        let heard = connection.last_ack_received.is_some_and(|ago| Duration::from_millis(ago.into()) < since);
        if let (true, Some(rtt), Some(min_rtt)) = (heard, connection.rtt, connection.min_rtt) {
            let path = Path::of(min_rtt) as usize;
            self.rtt[path].observe(f64::from(rtt) / 1e6);
            self.min_rtt[path].observe(f64::from(min_rtt) / 1e6);
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
        self.add_times(other);
    }

    /// Adds only what is counted since the start: times.
    pub fn add_times(&mut self, other: &Self) {
        let histograms = self.rtt.iter_mut().chain(&mut self.min_rtt);
        for (histogram, more) in histograms.zip(other.rtt.iter().chain(&other.min_rtt)) {
            histogram.add(more);
        }
    }
}

/// Ports that something listens on.
pub fn ports(listeners: &[Listener]) -> BTreeSet<u16> {
    listeners.iter().map(|listener| listener.port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(state: State, port: u16, times: Option<(u32, u32)>, heard: u32) -> Connection {
        Connection {
            state,
            address: "::ffff:192.0.2.1".parse().unwrap(),
            port,
            rtt: times.map(|(rtt, _)| rtt),
            min_rtt: times.map(|(_, least)| least),
            last_ack_received: Some(heard),
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
        assert_eq!(pass.half_open, HalfOpen::from([((443, "192.0.2.1".parse().unwrap()), 2)]));
        let mut sum = pass.clone();
        sum.add(&pass);
        assert_eq!(sum.connections[State::SynRecv as usize], [4, 0]);
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
        assert_eq!(pass.rtt.map(|histogram| histogram.count()), [1, 1, 1]);
        assert_eq!(pass.min_rtt.map(|histogram| histogram.sum), [0.0008, 0.001, 0.02]);
        assert_eq!(pass.rtt[Path::Region as usize].sum, 0.03);
    }
}
