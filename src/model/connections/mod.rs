//! TCP connections: how many there are, what they wait for, and what they say of
//! their paths.

pub mod flows;
pub mod limits;
mod marks;
pub mod paths;
pub mod ratios;
pub mod receiving;
pub mod sums;
pub mod table;
pub mod troubles;
pub mod waiting;
pub mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::model::units::SocketMemory;
use crate::read::connections::{Connection, State};
use crate::read::listeners::Listener;
use crate::read::tcp_limits::TcpLimits;

pub use flows::{Flows, Turn};
pub use paths::Paths;
pub use sums::Sums;
use troubles::Troubles;
use waiting::Unaccepted;

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

/// What a pass found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pass {
    /// Connections by state, in the order of [`State::ALL`], and role, in the
    /// order of [`Role::NAMES`].
    pub connections: [[u64; 2]; State::ALL.len()],
    /// Local port and address of half-open connections, and how many.
    pub half_open: BTreeMap<(u16, IpAddr), u64>,
    /// Connections that wait for accept(), by cookie.
    pub unaccepted: BTreeMap<u64, Unaccepted>,
    /// Connections that somebody may have to look at.
    pub troubles: Troubles,
    /// Their memory by cgroup.
    pub memory: SocketMemory,
    /// Connections met, each by itself.
    pub walked: u64,
}

impl Pass {
    /// Takes in a connection that stands for `weight` of them. `had_full_mss` tells that
    /// its full segments were what its path carries, and `mss_nearby` gives
    /// the largest segment seen to peers nearby.
    pub fn observe(
        &mut self,
        connection: &Connection,
        role: Role,
        limits: &TcpLimits,
        had_full_mss: bool,
        mss_nearby: impl FnOnce() -> Option<u32>,
        weight: u64,
    ) {
        self.walked += 1;
        if let Some(counts) = self.connections.get_mut(connection.state as usize) {
            counts[role as usize] += weight;
        }
        let place = || (connection.port, connection.address.to_canonical());
        match connection.state {
            State::SynRecv => *self.half_open.entry(place()).or_default() += weight,
            // The peer may have closed already.
            State::Established | State::CloseWait if role == Role::Server && !connection.has_owner => {
                let unaccepted = Unaccepted { place: place(), peer_port: connection.peer_port };
                self.unaccepted.insert(connection.cookie, unaccepted);
            }
            _ => {}
        }
        self.troubles.observe(connection, limits, had_full_mss, mss_nearby, weight);
        if let Some(memory) = &connection.attributes.memory {
            self.memory.add(connection.attributes.cgroup, weight * SocketMemory::held(memory));
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
    use crate::kernel::sock_diag::Attributes;

    /// A connection of ours to 192.0.2.2:9.
    pub(super) fn connection(state: State, port: u16) -> Connection {
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
            attributes: Attributes::default(),
        }
    }

    fn observed(connections: &[Connection], weight: u64) -> Pass {
        let mut pass = Pass::default();
        for one in connections {
            let role = if one.port == 443 { Role::Server } else { Role::Client };
            pass.observe(one, role, &TcpLimits::default(), false, || None, weight);
        }
        pass
    }

    #[test]
    fn the_listening_end_is_the_server() {
        let found = [
            (State::Established, 443),
            (State::Established, 40_000),
            (State::SynRecv, 443),
            (State::SynRecv, 443),
            (State::TimeWait, 443),
        ];
        let pass = observed(&found.map(|(state, port)| connection(state, port)), 1);
        assert_eq!(pass.connections[State::Established as usize], [1, 1]);
        assert_eq!(pass.connections[State::SynRecv as usize], [2, 0]);
        assert_eq!(pass.connections.iter().flatten().sum::<u64>(), 4);
        // A mapped address is that of IPv4.
        assert_eq!(pass.half_open, BTreeMap::from([((443, "192.0.2.1".parse().unwrap()), 2)]));
        // One in a part of three stands for three.
        let part = observed(&[connection(State::Established, 443)], 3);
        assert_eq!((part.connections[State::Established as usize], part.walked), ([3, 0], 1));
    }

    #[test]
    fn only_servers_wait_for_accept() {
        let orphan =
            |cookie, port| Connection { cookie, has_owner: false, ..connection(State::Established, port) };
        // A client of ours that is closing has no owner either, and waits for nobody.
        let pass = observed(&[orphan(1, 443), orphan(2, 80), connection(State::Established, 443)], 1);
        assert_eq!(pass.unaccepted.keys().collect::<Vec<_>>(), [&1]);
    }

    #[test]
    fn states_are_counted_at_their_place() {
        for (place, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, place, "{state:?}");
        }
    }
}
