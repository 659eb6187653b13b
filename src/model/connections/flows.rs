//! What connections did, summed up: counters of each since it was last seen, what
//! limited it meanwhile, and what it says of its path.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::{Cause, Limit, Verdict, binding, is_evidence, verdict};
use super::paths::{PathId, Paths};
use super::ratios::{self, Basis};
use super::receiving::{is_unread, mostly_receives, receive_cause};
use super::sums::{Algorithms, Sums};
use super::table::{Counters, Known, Notes, Table, folded, octave};
use super::witness::Witness;
use crate::kernel::sock_diag::TcpInfo;
use crate::read::closes::Closed;
use crate::read::connections::Connection;
use crate::read::tcp_limits::TcpLimits;

/// The rate of a connection is far below that of its path at a quarter.
const FAR_BELOW: f64 = 0.25;
/// A path of which this much is in use is shared, not slow.
const IN_USE: f64 = 0.75;

/// Of the notes: nothing was in flight, and had not been for a timeout.
const IDLE: u8 = 1;
/// Half of the receive buffer waited to be read.
const UNREAD: u8 = 2;

/// Follows connections from pass to pass.
#[derive(Debug)]
pub struct Flows {
    paths: Arc<Paths>,
    table: Table,
    algorithms: Algorithms,
    witness: Witness,
    /// Numbers of the last passes and when they began.
    passes: VecDeque<(u16, Instant)>,
    turn: Turn,
    /// Everything was seen once: what is not known is new.
    complete: bool,
    /// First pass of this round and of the one before.
    rounds: [u16; 2],
    sums: Sums,
}

/// A pass over all connections, or those whose turn it is.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// When it began.
    pub started: Instant,
    /// Time since it was the turn of the same connections.
    pub since: Duration,
    /// How many connections one of this pass stands for.
    pub weight: u64,
    /// Bounds of buffers.
    pub limits: TcpLimits,
}

impl Flows {
    /// Follows at most `most` connections.
    pub fn new(now: Instant, paths: Arc<Paths>, most: usize) -> Self {
        let sums = Sums::new(paths.count());
        let turn = Turn { started: now, since: Duration::ZERO, weight: 1, limits: TcpLimits::default() };
        Self {
            paths,
            table: Table::new(most),
            algorithms: Algorithms::default(),
            witness: Witness::new(now),
            passes: VecDeque::with_capacity(KEPT),
            turn,
            complete: false,
            rounds: [0; 2],
            sums,
        }
    }

    /// What was summed up since the start.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Names of algorithms, by number.
    pub fn algorithms(&self) -> impl Iterator<Item = String> {
        self.algorithms.names()
    }

    /// What paths were seen to carry, the best neighbourhood of each, bytes a second.
    pub fn witnessed(&self) -> BTreeMap<PathId, f64> {
        let mut best = BTreeMap::new();
        for (path, rate) in self.witness.rates() {
            let most = best.entry(path).or_insert(0.0);
            *most = rate.max(*most);
        }
        best
    }

    /// How many connections are followed.
    pub fn followed(&self) -> usize {
        self.table.count()
    }

    /// The largest segments seen to peers nearby.
    pub fn mss_nearby(&self, peer: IpAddr) -> Option<u32> {
        self.witness.of(peer).map(|seen| seen.mss)
    }

    /// Begins a pass.
    pub fn begin(&mut self, turn: Turn) {
        let number = self.passes.back().map_or(1, |(last, _)| last.wrapping_add(1));
        if self.passes.len() == KEPT {
            self.passes.pop_front();
        }
        self.passes.push_back((number, turn.started));
        self.turn = turn;
    }

    /// Ends a pass; `round` tells that everything has had its turn now.
    pub fn finish(&mut self, now: Instant, round: bool) {
        self.witness.close(now);
        if !round {
            return;
        }
        self.complete = true;
        // What closed while nobody was told goes after a second round without it: a walk
        // beside connections that come and go may miss one that is alive.
        let [first, before] = self.rounds;
        let number = self.number();
        self.table.retain(|pass| number.wrapping_sub(pass) <= number.wrapping_sub(before));
        self.rounds = [number.wrapping_add(1), first];
    }

    fn number(&self) -> u16 {
        self.passes.back().map_or(0, |(number, _)| *number)
    }

    /// Time since that pass began, at the beginning of this one.
    fn since(&self, pass: u16) -> Option<Duration> {
        let ago = usize::from(self.number().wrapping_sub(pass));
        let (_, then) = self.passes.get(self.passes.len().checked_sub(1 + ago)?)?;
        Some(self.turn.started.saturating_duration_since(*then))
    }

    /// Takes in a connection of this pass.
    pub fn observe(&mut self, connection: &Connection) {
        let Some(info) = &connection.attributes.info else { return };
        let now = Counters::of(info);
        let number = self.number();
        let (known, elapsed) = match self.table.get(connection.cookie, &now) {
            // A walk may give one twice.
            Some(known) if known.before.pass == number => return,
            Some(known) => (known, self.since(known.before.pass)),
            None if self.table.is_full() => {
                self.sums.not_followed += self.turn.weight;
                return;
            }
            // What was busy for longer was missed, and is not new.
            None if self.complete && Duration::from_micros(now.busy) < longest(self.turn.since) => {
                (Known { change: now, before: Notes::default() }, Some(self.turn.since))
            }
            None => (Known::default(), None),
        };
        self.measured(connection, info);
        let mut notes = Notes {
            pass: number,
            cwnd: info.snd_cwnd.min(u32::from(u16::MAX)) as u16,
            sndbuf: connection.attributes.memory.map_or(0, |memory| folded(memory.sndbuf)),
            rcvbuf: connection.attributes.memory.map_or(0, |memory| folded(memory.rcvbuf)),
            window: octave(info.snd_wnd.unwrap_or(0)),
            algorithm: self.algorithms.number(connection.attributes.algorithm),
            verdict: known.before.verdict,
            flags: flags(connection, info),
        };
        if known.change != Counters::default() || notes.flags & known.before.flags & UNREAD != 0 {
            let peer = connection.peer_address.to_canonical();
            let path = self.paths.of(peer, info.min_rtt.or(info.rtt)).unwrap_or_default();
            if known.change.sent > 0 || known.change.busy > 0 {
                notes.verdict = self.sent(connection, info, &known, &notes, elapsed, (peer, path));
            }
            if let Some(elapsed) = elapsed {
                self.received(connection, info, &known, elapsed, path);
            }
        }
        self.table.put(connection.cookie, &now, notes);
    }

    /// Takes in round trip times. What did not send and hear from its peer since its
    /// last turn has nothing new to say: what the peer sends acknowledges as well.
    fn measured(&mut self, connection: &Connection, info: &TcpInfo) {
        let recently = |ago: u32| Duration::from_millis(ago.into()) < self.turn.since;
        let (Some(rtt), Some(least)) = (info.rtt, info.min_rtt) else { return };
        if !recently(info.last_data_sent) || !recently(info.last_ack_recv) {
            return;
        }
        let path = self.paths.of(connection.peer_address.to_canonical(), Some(least)).unwrap_or_default();
        self.sums.time(path, rtt, least, self.turn.weight);
    }

    /// Takes in what a connection sent; what limited it comes back as a note.
    fn sent(
        &mut self,
        connection: &Connection,
        info: &TcpInfo,
        known: &Known,
        notes: &Notes,
        elapsed: Option<Duration>,
        (peer, path): (IpAddr, PathId),
    ) -> u8 {
        let change = &known.change;
        let delivered = change.sent.saturating_sub(change.retransmitted) as f64;
        let seen = self.witness.of(peer);
        let declared = self.paths.declared(path).map(|path| path.bandwidth as f64 * path.rtt.as_secs_f64());
        let witnessed = seen.map(|seen| seen.bdp());
        let rate = elapsed.map_or(0.0, |elapsed| delivered / elapsed.as_secs_f64().max(1e-3));
        let verdict = verdict(connection, info, known, &self.turn.limits, rate, declared.or(witnessed));
        self.sums.add(change, verdict, path, notes.algorithm);
        if let (Some(_), Some(least)) = (elapsed, info.min_rtt) {
            self.witness.observe((peer, path), rate, least, info.snd_mss);
        }
        if is_idle_restart(connection, info, known, notes) {
            *self.sums.idle_restarts.entry(path).or_default() += 1;
        }
        let by_application = verdict.limit == Limit::Network && info.app_limited;
        if !is_evidence(change, info) || by_application {
            return verdict.note();
        }
        let busy_rate = delivered / (change.busy as f64 / 1e6);
        let shared = verdict.limit == Limit::Network && self.witness.use_before(peer).unwrap_or(1.0) > IN_USE;
        let queued = verdict.causes[verdict.limit as usize] == Cause::StandingQueue;
        if !shared && !queued && seen.is_some_and(|seen| busy_rate <= FAR_BELOW * seen.rate) {
            *self.sums.below_witness.entry((verdict.limit, path)).or_default() +=
                Duration::from_micros(change.busy);
        }
        let busy = elapsed.is_some_and(|elapsed| change.busy as f64 / 1e6 >= 0.2 * elapsed.as_secs_f64());
        if busy && let Some(least) = info.min_rtt.filter(|least| *least >= NEAREST) {
            let window = f64::from(info.snd_cwnd) * f64::from(info.snd_mss);
            let seconds = f64::from(least) / 1e6;
            let own = info.delivery_rate.map(|rate| rate as f64 * seconds);
            let bbr =
                connection.attributes.bbr.map(|bbr| bbr.bandwidth as f64 * f64::from(bbr.min_rtt) / 1e6);
            let products = [
                (Basis::Delivered, own),
                (Basis::Bbr, bbr),
                (Basis::Witnessed, witnessed),
                (Basis::Declared, declared),
            ];
            ratios::observe(&mut self.sums.ratios, window, products, (verdict.limit, path), self.turn.weight);
            if let Some(rate) = info.delivery_rate {
                self.sums.rate(path, rate, self.turn.weight);
            }
        }
        verdict.note()
    }

    /// Takes in what a connection received.
    fn received(
        &mut self,
        connection: &Connection,
        info: &TcpInfo,
        known: &Known,
        elapsed: Duration,
        path: PathId,
    ) {
        let was_unread = known.before.flags & UNREAD != 0;
        let is_unread = flags(connection, info) & UNREAD != 0;
        if !(mostly_receives(known, info) || was_unread && is_unread) {
            return;
        }
        *self.sums.receiving.entry(path).or_default() += elapsed;
        let rate = known.change.received as f64 / elapsed.as_secs_f64().max(1e-3);
        if let Some(cause) = receive_cause(connection, info, known, &self.turn.limits, rate, was_unread) {
            *self.sums.receive_limited.entry((cause, path)).or_default() += elapsed;
        }
    }

    /// Takes in a connection that closed: what it did since it was last seen, or all it
    /// did where it came and went between two passes.
    pub fn close(&mut self, closed: &Closed) {
        let info = &closed.info;
        let now = Counters::of(info);
        let known = match self.table.take(closed.cookie, &now) {
            Some(known) => known,
            None if self.complete => Known { change: now, before: Notes::default() },
            None => return,
        };
        if known.change.busy == 0 && known.change.sent == 0 {
            return;
        }
        let path = self.paths.of(closed.peer_address.to_canonical(), info.min_rtt.or(info.rtt));
        let limit = binding(&known.change);
        // No sizes of buffers come with the notification.
        let before = Verdict::from_note(known.before.verdict);
        let verdict = if before.limit == limit { before } else { Verdict::undecided(limit) };
        self.sums.add(&known.change, verdict, path.unwrap_or_default(), known.before.algorithm);
    }
}

/// Passes of which the time is remembered: two rounds of the most slices, and some.
const KEPT: usize = 64;
/// Below 100 microseconds both ends are on one host, and a window says nothing.
const NEAREST: u32 = 100;
/// Busy time is counted in ticks, and a pass takes its time.
fn longest(elapsed: Duration) -> Duration {
    elapsed.mul_f64(1.25) + Duration::from_secs(1)
}

fn flags(connection: &Connection, info: &TcpInfo) -> u8 {
    let idle = info.unacked == 0 && u64::from(info.last_data_sent) * 1000 > u64::from(info.rto);
    let unread = connection.attributes.memory.is_some_and(|memory| is_unread(connection, &memory));
    u8::from(idle) * IDLE + u8::from(unread) * UNREAD
}

/// Whether the kernel reset the congestion window because the connection was idle
/// (net/ipv4/tcp_output.c:tcp_cwnd_restart): it was idle at the last pass, sent since,
/// and nothing else can have made the window smaller. BBR makes its own.
fn is_idle_restart(connection: &Connection, info: &TcpInfo, known: &Known, notes: &Notes) -> bool {
    let other_reasons = known.change.retransmitted > 0
        || info.ca_state != 0
        || info.options & TcpInfo::ECN != 0
        || connection.attributes.bbr.is_some();
    known.before.flags & IDLE != 0
        && known.change.sent > 0
        && notes.cwnd < known.before.cwnd
        && !other_reasons
}

#[cfg(test)]
mod tests;
