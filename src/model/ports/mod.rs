//! Local ports that connections of ours take up, by what they are connected to:
//! no counter of the kernel tells that they run out.

mod bound;
mod set;

use std::net::IpAddr;

pub use bound::Bound;
use bound::Sources;
use hashbrown::HashMap;
pub use set::PortSet;

use crate::read::connections::{Connection, State, Timer};
use crate::read::ports::Parameters;

/// Most destination ports that are shown.
pub const NAMED: usize = 5;
/// A destination port is shown from this share of the ports on. Without it, names
/// would change all the time on a host that connects to many ports a little.
const LEAST: f64 = 0.01;
/// Most pairs of addresses with a destination port that are counted at a time,
/// some 2 MB.
const TUPLES: usize = 16_384;
/// TIME_WAIT lasts this long, milliseconds (TCP_TIMEWAIT_LEN in
/// include/net/tcp.h, 2.6-6.18).
const TIME_WAIT: u32 = 60_000;
/// `net.ipv4.tcp_tw_reuse_delay` where the kernel does not have it, milliseconds.
const REUSE_DELAY: u64 = 1_000;

/// What ports are taken up by, at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Ports that the kernel may give to one pair of addresses and destination
    /// port: the range without reserved ones.
    pub available: u64,
    /// The destination ports that take up most, at least 1 in 100, in descending
    /// order.
    pub destinations: Vec<Destination>,
    /// Those that programs bound before they connected.
    pub bound: Bound,
}

/// A destination port, and its pair of addresses that takes up most local ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// The destination port.
    pub port: u16,
    /// Local ports that cannot be given again: of live connections, and of those in
    /// TIME_WAIT that may not be reused.
    pub in_use: u64,
    /// Of those the ones in TIME_WAIT; `None` where these were not looked at.
    pub unreusable_time_wait: Option<u64>,
}

/// Whether those in TIME_WAIT could matter: with what is in use they would have to
/// take up half of the ports. They are as many as the host closed in a minute.
pub fn time_wait_matters(time_wait: u64, in_use: u64, available: u64) -> bool {
    time_wait > 0 && 2 * (time_wait + in_use) >= available
}

/// When the port of a connection in TIME_WAIT may be used again
/// (net/ipv4/tcp_ipv4.c:tcp_twsk_unique). Not told to us: that the peer sends no
/// timestamps, which forbids it, and that a socket is bound to `lo`, which for 2
/// allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Never,
    OverLoopback,
    Always,
}

/// Counts connections while a pass goes on. Memory is kept from pass to pass.
#[derive(Debug, Default)]
pub struct Ports {
    /// What the kernel gives.
    given: PortSet,
    /// `None` where those in TIME_WAIT are not looked at.
    reuse: Option<Reuse>,
    /// Milliseconds.
    reuse_delay: u64,
    tuples: HashMap<Tuple, Count>,
    /// How often every count was lowered by one, to make room: no count is further
    /// below the truth than this (Misra and Gries, 1982), which is at most the
    /// number of connections over `TUPLES`. A tuple that has more is never lost.
    lowered: u32,
    sources: Sources,
}

/// Local address, peer's address and port.
type Tuple = (IpAddr, IpAddr, u16);

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    used: u32,
    /// Of those in TIME_WAIT.
    time_wait: u32,
    /// Of those without IP_BIND_ADDRESS_NO_PORT.
    unflagged: u32,
}

impl Ports {
    /// Starts anew; gives the ports available, 0 where the range is not known.
    pub fn begin(&mut self, parameters: &Parameters) -> u64 {
        self.given.clear();
        self.tuples.clear();
        self.lowered = 0;
        self.sources.clear();
        self.reuse = None;
        let port = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
        for port in parameters.range.iter().flat_map(|[first, last]| port(*first)..=port(*last)) {
            self.given.insert(port);
        }
        for port in parameters.reserved.iter().flat_map(|[first, last]| *first..=*last) {
            self.given.remove(port);
        }
        self.given.len()
    }

    /// Those in TIME_WAIT come too.
    pub fn expect_time_wait(&mut self, parameters: &Parameters) {
        self.reuse = match (parameters.timestamps, parameters.tw_reuse) {
            (Some(0), _) | (_, Some(0)) => Some(Reuse::Never),
            (_, Some(2)) => Some(Reuse::OverLoopback),
            (_, Some(_)) => Some(Reuse::Always),
            (_, None) => None,
        };
        self.reuse_delay = parameters.tw_reuse_delay.unwrap_or(REUSE_DELAY);
    }

    /// Takes in a connection of the pass. On a port that something listens on it is
    /// a peer's, which takes up no port of ours.
    pub fn observe(&mut self, connection: &Connection, is_listening: bool) {
        if is_listening || !self.given.contains(connection.port) {
            return;
        }
        let in_time_wait = connection.state == State::TimeWait;
        if in_time_wait && self.may_reuse(connection) {
            return;
        }
        let address = connection.address.to_canonical();
        let flag = connection.attributes.bind_address_no_port;
        // What is left of a socket has no options.
        let is_left_over = connection.timer.is_some_and(|(timer, _)| timer == Timer::TimeWait);
        let unflagged = !is_left_over && self.sources.observe(address, connection.port, flag);
        let tuple = (address, connection.peer_address.to_canonical(), connection.peer_port);
        if self.tuples.len() >= TUPLES && !self.tuples.contains_key(&tuple) {
            return self.lower();
        }
        let count = self.tuples.entry(tuple).or_default();
        count.used += 1;
        count.time_wait += u32::from(in_time_wait);
        count.unflagged += u32::from(unflagged);
    }

    fn may_reuse(&self, connection: &Connection) -> bool {
        let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
        let by_rule = match self.reuse {
            // Not asked for; some came all the same.
            None => return true,
            Some(Reuse::Never) => false,
            Some(Reuse::Always) => true,
            Some(Reuse::OverLoopback) => {
                is_loopback(connection.address) || is_loopback(connection.peer_address)
            }
        };
        let left = connection.timer.map_or(TIME_WAIT, |(_, left)| left);
        by_rule && u64::from(TIME_WAIT.saturating_sub(left)) > self.reuse_delay
    }

    /// Makes room for a new tuple, which is lowered to nothing as well.
    fn lower(&mut self) {
        self.lowered += 1;
        self.tuples.retain(|_, count| {
            count.used -= 1;
            count.time_wait = count.time_wait.min(count.used);
            count.unflagged = count.unflagged.min(count.used);
            count.used > 0
        });
    }

    /// What the pass found; where it saw one in `weight` ports, that many times as
    /// much. `None` where the range is not known.
    pub fn usage(&self, weight: u64) -> Option<Usage> {
        let available = Some(self.given.len()).filter(|available| *available > 0)?;
        let mut worst: HashMap<u16, Count> = HashMap::new();
        for ((_, _, port), count) in &self.tuples {
            let known = worst.entry(*port).or_insert(*count);
            if (count.used, count.time_wait) > (known.used, known.time_wait) {
                *known = *count;
            }
        }
        let in_use = |count: &Count| weight * u64::from(count.used);
        let is_shown = |count: &Count| in_use(count) as f64 >= LEAST * available as f64;
        let mut worst: Vec<_> = worst.into_iter().filter(|(_, count)| is_shown(count)).collect();
        worst.sort_unstable_by_key(|(port, count)| (std::cmp::Reverse(count.used), *port));
        worst.truncate(NAMED);
        let destination = |(port, count): (u16, Count)| Destination {
            port,
            in_use: in_use(&count),
            unreusable_time_wait: self.reuse.map(|_| weight * u64::from(count.time_wait)),
        };
        let unflagged = self.tuples.iter().map(|((address, _, _), count)| (*address, count.unflagged));
        Some(Usage {
            available,
            destinations: worst.into_iter().map(destination).collect(),
            bound: self.sources.bound(unflagged, self.lowered, available, weight),
        })
    }
}

#[cfg(test)]
mod tests;
