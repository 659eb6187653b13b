//! Connections that a listener has and its program not yet.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::Pass;
use crate::kernel::sock_diag::PortFilter;

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

/// A connection that waits for accept().
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unaccepted {
    /// Local port and address.
    pub place: (u16, IpAddr),
    /// The peer's port.
    pub peer_port: u16,
}

/// Connections that wait for accept(), by cookie, and when they were first seen.
/// Accept queues bound how many there can be.
#[derive(Debug, Default)]
pub struct Waiters(HashMap<u64, (Instant, Unaccepted)>);

impl Waiters {
    /// Takes in a pass over those whose ports pass the filter.
    pub fn observe(&mut self, now: Instant, pass: &Pass, filter: Option<&PortFilter>) -> WaitingBy {
        let mut waiting = WaitingBy::new();
        for (place, count) in &pass.half_open {
            waiting.entry(*place).or_default().half_open = *count;
        }
        self.0.retain(|cookie, (_, unaccepted)| {
            let (port, peer) = (unaccepted.place.0, unaccepted.peer_port);
            pass.unaccepted.contains_key(cookie) || filter.is_some_and(|filter| !filter.passes(port, peer))
        });
        for (cookie, unaccepted) in &pass.unaccepted {
            self.0.entry(*cookie).or_insert((now, *unaccepted));
        }
        for (first_seen, unaccepted) in self.0.values() {
            let oldest_unaccepted = now.saturating_duration_since(*first_seen);
            let older = Waiting { half_open: 0, oldest_unaccepted };
            waiting.entry(unaccepted.place).or_default().add(&older);
        }
        waiting
    }
}

/// What waits, by the listener that has it: the one of the local address, else
/// the one of all addresses. An IPv4 connection may be that of an IPv6 listener.
pub fn by_listener<T>(found: &WaitingBy, listeners: &BTreeMap<(u16, IpAddr), T>) -> WaitingBy {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_connection_ends_with_accept() {
        let start = Instant::now();
        let place = (443, "192.0.2.1".parse().unwrap());
        let mut waiters = Waiters::default();
        let mut look = |seconds: u64, unaccepted: &[(u64, u16)], filter: Option<&PortFilter>| {
            let mut pass = Pass::default();
            let found = unaccepted
                .iter()
                .map(|(cookie, peer_port)| (*cookie, Unaccepted { place, peer_port: *peer_port }));
            pass.unaccepted.extend(found);
            let waiting = waiters.observe(start + Duration::from_secs(seconds), &pass, filter);
            waiting.get(&place).map(|waiting| waiting.oldest_unaccepted.as_secs())
        };
        assert_eq!(look(0, &[(1, 50_000)], None), Some(0));
        assert_eq!(look(15, &[(1, 50_000), (2, 60_000)], None), Some(15));
        // Who is not in the filter's part is thought to wait on.
        let upper = PortFilter { ephemeral: None, listening: vec![], own: 0..=0, peer: 55_000..=65_535 };
        assert_eq!(look(30, &[(2, 60_000)], Some(&upper)), Some(30));
        assert_eq!(look(45, &[(2, 60_000)], None), Some(30));
        assert_eq!(look(60, &[], Some(&upper)), None);
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
}
