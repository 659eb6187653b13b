//! What is said of the listeners of one address and port.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use super::{Seen, Totals};
use crate::model::connections::waiting::Waiting;
use crate::read::listeners::{Bounds, Listener};

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
    /// The longest queue seen in the last five minutes.
    pub queue_peak: u64,
    /// What may wait, of all sockets.
    pub limit: u64,
    /// Queue over limit + 1 of the fullest socket; 1 is full.
    pub fill: f64,
    /// Limit of the fullest socket; of the least one where none is fuller.
    pub socket_limit: u64,
    /// Where the limits come from; `None` without `net.core.somaxconn`.
    pub limited_by: Option<Causes>,
    /// Whether the kernel may give the port to an outgoing connection and the program
    /// would miss it; `None` for `other` and where the range is unknown.
    pub in_port_range: Option<bool>,
    /// Time during which a socket was seen full.
    pub full: Duration,
    /// Packets dropped, since the first of these sockets was made or we
    /// started; `None` where the kernel does not tell.
    pub drops: Option<u64>,
    /// Connections not yet with the program; `None` before the first pass over
    /// connections.
    pub waiting: Option<Waiting>,
    /// Units or processes that the sockets belong to, as far as they are known; none
    /// of `other`.
    pub units: Vec<String>,
}

impl Group {
    /// Both as one: figures summed, of the fullest socket the fuller one's.
    pub(super) fn merged(self, other: Self) -> Self {
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
                above_somaxconn: one.above_somaxconn + two.above_somaxconn,
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
    /// first saw the socket and nobody wrote down what it was.
    pub application: u64,
    /// It is less, and the somaxconn of the time when this limit was first seen, or of one
    /// that was there when we started the somaxconn before the last change: listen() was
    /// called under another setting. The kernel tells no age of a socket: a program that
    /// started between that change and us, and asked for just as much, is taken for an
    /// older one.
    pub older_somaxconn: u64,
    /// It is more: listen() was called while somaxconn was larger, and what it asked for
    /// is not known.
    pub above_somaxconn: u64,
}

/// All of these sockets, which share address and port.
pub(super) fn group(
    (port, address): (u16, IpAddr),
    sockets: &[&Listener],
    totals: &Totals,
    bounds: &Bounds,
    waiting: Option<Waiting>,
) -> Group {
    let worst =
        sockets.iter().max_by(|one, two| fill(one).total_cmp(&fill(two)).then(two.limit.cmp(&one.limit)));
    let queue = queue(sockets);
    // The queue is looked at more often than connections are; an empty one holds
    // none that waits.
    let accepted = |waiting: Waiting| Waiting { oldest_unaccepted: Duration::ZERO, ..waiting };
    Group {
        address: address.to_string(),
        port: port.to_string(),
        sockets: sockets.len() as u64,
        queue,
        queue_peak: totals.queue.largest(),
        limit: sockets.iter().map(|socket| u64::from(socket.limit)).sum(),
        fill: worst.map_or(0.0, |socket| fill(socket)),
        socket_limit: worst.map_or(0, |socket| socket.limit.into()),
        limited_by: bounds.somaxconn.map(|somaxconn| causes(sockets, &totals.sockets, somaxconn)),
        in_port_range: bounds
            .gives(port)
            .map(|gives| gives && sockets.iter().any(|one| !one.port_was_chosen)),
        full: totals.full,
        drops: sockets.iter().any(|socket| socket.drops.is_some()).then_some(totals.drops),
        waiting: if queue == 0 { waiting.map(accepted) } else { waiting },
        units: Vec::new(),
    }
}

/// Connections that wait for accept(), of all these sockets.
pub(super) fn queue(sockets: &[&Listener]) -> u64 {
    sockets.iter().map(|socket| u64::from(socket.queue)).sum()
}

/// The queue is longer than its limit: the next attempt is dropped.
pub(super) fn is_full(socket: &Listener) -> bool {
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
        } else if limit > somaxconn {
            &mut causes.above_somaxconn
        } else if then == Some(limit) {
            &mut causes.older_somaxconn
        } else {
            &mut causes.application
        } += 1;
    }
    causes
}
