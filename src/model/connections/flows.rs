//! What connections did, summed up: counters of each since it was last seen, what
//! limited it meanwhile, and what it says of its path.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::{Cause, Ground, Limit, Verdict, binding, delivered, is_lossy, verdict, window};
use super::marks::{FULL_MSS, SLOW, UNREAD, is_idle_restart, marks};
use super::paths::{PathId, Paths};
use super::ratios::{self, Basis};
use super::receiving::{ReceiveCause, Sight, does_not_read, mostly_receives, receive_cause};
use super::sums::{Algorithms, Sums, lengthen};
use super::table::{Counters, Known, NONE, Notes, Table, folded, octave};
use super::witness::{Place, Seen, Shown, Witness};
use crate::kernel::sock_diag::TcpInfo;
use crate::read::closes::Closed;
use crate::read::connections::Connection;
use crate::read::tcp_limits::TcpLimits;

/// The rate of a connection is far below that of its path at a quarter.
const FAR_BELOW: f64 = 0.25;

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
    /// Of this pass.
    slow: Vec<Slow>,
    /// Everything was seen once: what is not known is new.
    complete: bool,
    /// In this round not everything found room.
    is_short_of_room: bool,
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
            slow: Vec::new(),
            complete: false,
            is_short_of_room: false,
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
        self.best(|seen| seen.rate)
    }

    /// What fills paths that carry what they were seen to, the best neighbourhood of each,
    /// bytes.
    pub fn witnessed_in_flight(&self) -> BTreeMap<PathId, f64> {
        self.best(Seen::bdp)
    }

    fn best(&self, of: impl Fn(&Seen) -> f64) -> BTreeMap<PathId, f64> {
        let mut best = BTreeMap::new();
        for (path, seen) in self.witness.places() {
            let most = best.entry(path).or_insert(0.0);
            *most = of(&seen).max(*most);
        }
        best
    }

    /// How many connections are followed.
    pub fn followed(&self) -> usize {
        self.table.count()
    }

    /// The largest segments seen to peers near that of a connection.
    pub fn mss_nearby(&self, connection: &Connection) -> Option<u32> {
        let info = connection.attributes.info.as_ref()?;
        self.way(connection.peer_address, info).seen.map(|seen| seen.mss)
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
        for Slow { limit, cause, way, rate, busy } in self.slow.drain(..) {
            // Where the network limits, others may have what it lacks.
            let is_free = limit != Limit::Network || self.witness.has_room(&way.place);
            let best = self.witness.of(&way.place).map_or(0.0, |seen| seen.rate);
            if is_free && rate <= FAR_BELOW * best {
                lengthen(self.sums.below_witness.entry((limit, cause, way.path)).or_default(), busy);
            }
        }
        if !round {
            return;
        }
        // What found no room in the first round is older than that.
        self.complete |= !std::mem::take(&mut self.is_short_of_room);
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

    /// Takes in a connection of this pass. One without a cookie would be new each time.
    /// True where its full segments were seen to be what its path carries.
    pub fn observe(&mut self, connection: &Connection) -> bool {
        let info = connection.attributes.info.as_ref().filter(|_| connection.cookie != NONE);
        let Some(info) = info else { return false };
        let now = Counters::of(info);
        let number = self.number();
        let (known, elapsed) = match self.table.get(connection.cookie, &now) {
            // A walk may give one twice.
            Some(known) if known.before.pass == number => return known.before.flags & FULL_MSS != 0,
            Some(known) => (known, self.since(known.before.pass)),
            None if self.table.is_full() => {
                self.sums.not_followed += self.turn.weight;
                self.is_short_of_room = true;
                return false;
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
            flags: marks(connection, info) | known.before.flags & FULL_MSS,
        };
        if known.change != Counters::default() || notes.flags & known.before.flags & UNREAD != 0 {
            let way = self.way(connection.peer_address, info);
            if known.change.sent > 0 || known.change.busy > 0 {
                let (verdict, is_slow) = self.sent(connection, info, &known, &notes, elapsed, &way);
                notes.verdict = verdict;
                notes.flags |= u8::from(is_slow) * SLOW;
            }
            if let Some(elapsed) = elapsed {
                self.received(connection, info, &known, elapsed, &way);
            }
        }
        self.table.put(connection.cookie, &now, notes);
        known.before.flags & FULL_MSS != 0
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

    /// Takes in what a connection sent; what limited it comes back as a note, and whether
    /// it was far slower than its path.
    fn sent(
        &mut self,
        connection: &Connection,
        info: &TcpInfo,
        known: &Known,
        notes: &Notes,
        elapsed: Option<Duration>,
        way: &Way,
    ) -> (u8, bool) {
        let change = &known.change;
        let delivered = delivered(change, info);
        let busy = Duration::from_micros(change.busy);
        let rate = delivered / busy.as_secs_f64().max(1e-3);
        let declared = self.paths.declared(way.path);
        let declared_bdp = declared.map(|path| path.bandwidth as f64 * path.rtt.as_secs_f64());
        let witnessed_bdp = way.seen.filter(|seen| seen.rate > 0.0).map(|seen| seen.bdp());
        let ground = Ground {
            limits: self.turn.limits,
            least_rtt: way.least_rtt,
            rate,
            bdp: declared_bdp.or(witnessed_bdp),
            is_crowded: way.seen.is_some_and(|seen| match declared {
                Some(path) => seen.last_sum >= 0.7 * path.bandwidth as f64,
                None => seen.last_lossy > 1 && seen.last_sum > 0.5 * seen.rate,
            }),
        };
        let verdict = verdict(connection, info, known, &ground);
        self.sums.add(change, verdict, way.path, notes.algorithm);
        if let (Some(elapsed), Some(rtt)) = (elapsed, info.min_rtt) {
            let rate = delivered / elapsed.as_secs_f64().max(1e-3);
            let lossy = is_lossy(change, info);
            self.witness.observe(way.place, &Shown { rate, rtt, mss: info.snd_mss, lossy });
        }
        if self.turn.limits.slow_start_after_idle != Some(0)
            && is_idle_restart(connection, info, known, notes)
        {
            *self.sums.idle_restarts.entry(way.path).or_default() += 1;
        }
        let uses_window = verdict.limit != Limit::Network || ground.uses_window(connection, info);
        if !ground.is_evidence(change, info) || !uses_window {
            return (verdict.note(), false);
        }
        let cause = verdict.causes[verdict.limit as usize];
        let is_slow =
            cause != Cause::StandingQueue && way.seen.is_some_and(|seen| rate <= FAR_BELOW * seen.rate);
        if is_slow && known.before.flags & SLOW != 0 {
            self.slow.push(Slow { limit: verdict.limit, cause, way: *way, rate, busy });
        }
        if elapsed.is_some_and(|elapsed| busy.as_secs_f64() >= 0.2 * elapsed.as_secs_f64()) {
            let product = |rate: f64, rtt: u32| rate * f64::from(rtt) / 1e6;
            let bbr = connection.attributes.bbr.map(|bbr| product(bbr.bandwidth as f64, bbr.min_rtt));
            // A window that does not limit is no sign of a queue.
            let own = info.min_rtt.filter(|_| verdict.limit == Limit::Network).map(|rtt| product(rate, rtt));
            let products = [
                (Basis::Delivered, own),
                (Basis::Bbr, bbr),
                (Basis::Witnessed, witnessed_bdp),
                (Basis::Declared, declared_bdp),
            ];
            let weight = self.turn.weight;
            if info.min_rtt.is_some_and(|rtt| rtt >= NEAREST) {
                ratios::observe(
                    &mut self.sums.ratios,
                    window(info),
                    products,
                    (verdict.limit, way.path),
                    weight,
                );
            }
            self.sums.rate(way.path, rate, weight);
        }
        (verdict.note(), is_slow)
    }

    /// Takes in what a connection received.
    fn received(
        &mut self,
        connection: &Connection,
        info: &TcpInfo,
        known: &Known,
        elapsed: Duration,
        way: &Way,
    ) {
        let is_left = does_not_read(connection, known, known.before.flags & UNREAD != 0);
        if !mostly_receives(known, info) && !is_left {
            return;
        }
        lengthen(self.sums.receiving.entry(way.path).or_default(), elapsed);
        let sight = Sight {
            limits: self.turn.limits,
            least_rtt: way.least_rtt,
            rate: known.change.received as f64 / elapsed.as_secs_f64().max(1e-3),
            declared: self.paths.declared(way.path).map(|path| path.bandwidth),
        };
        let cause =
            if is_left { Some(ReceiveCause::Unread) } else { receive_cause(connection, info, known, &sight) };
        if let Some(cause) = cause {
            lengthen(self.sums.receive_limited.entry((cause, way.path)).or_default(), elapsed);
        }
    }

    /// The way to a peer, whose connection had this least round trip time.
    fn way(&self, peer: IpAddr, info: &TcpInfo) -> Way {
        let peer = peer.to_canonical();
        let own = info.min_rtt.or(info.rtt);
        let path = self.paths.of(peer, own).unwrap_or_default();
        let place = Place::of(peer, path, own);
        let seen = self.witness.of(&place);
        let declared = self.paths.declared(path).and_then(|path| u32::try_from(path.rtt.as_micros()).ok());
        let times = [own, seen.map(|seen| seen.rtt), declared];
        Way { path, place, seen, least_rtt: times.into_iter().flatten().min() }
    }

    /// Takes in a connection that closed: what it did since it was last seen, or all it
    /// did where it came and went between two passes.
    pub fn close(&mut self, closed: &Closed) {
        let info = &closed.info;
        let now = Counters::of(info);
        let known = match self.table.take(closed.cookie, &now) {
            Some(known) => known,
            None if self.complete && closed.cookie != NONE => Known { change: now, before: Notes::default() },
            None => return,
        };
        if known.change.busy == 0 && known.change.sent == 0 {
            return;
        }
        let way = self.way(closed.peer_address, info);
        let limit = binding(&known.change);
        // No sizes of buffers come with the notification. One that got no answer waited
        // for that.
        let before = Verdict::from_note(known.before.verdict);
        let goes_on = before.limit == limit && info.backoff == 0;
        let verdict = if goes_on { before } else { Verdict::undecided(limit) };
        self.sums.add(&known.change, verdict, way.path, known.before.algorithm);
        if let Some(rtt) = info.min_rtt {
            let rate = delivered(&known.change, info) / self.turn.since.as_secs_f64().max(1e-3);
            let lossy = is_lossy(&known.change, info);
            self.witness.observe(way.place, &Shown { rate, rtt, mss: info.snd_mss, lossy });
        }
    }
}

/// The way to a peer.
#[derive(Debug, Clone, Copy)]
struct Way {
    path: PathId,
    place: Place,
    seen: Option<Seen>,
    /// Microseconds: that of the connection, of others to the same place, or declared.
    least_rtt: Option<u32>,
}

/// A connection that was far slower than its path in two passes.
#[derive(Debug, Clone, Copy)]
struct Slow {
    limit: Limit,
    cause: Cause,
    way: Way,
    /// Bytes a second.
    rate: f64,
    busy: Duration,
}

/// Passes of which the time is remembered: two rounds of the most slices, and some.
const KEPT: usize = 64;
/// Below 100 microseconds both ends are on one host, and a window says nothing.
const NEAREST: u32 = 100;
/// Busy time is counted in ticks, and a pass takes its time.
fn longest(elapsed: Duration) -> Duration {
    elapsed.mul_f64(1.25) + Duration::from_secs(1)
}

#[cfg(test)]
mod tests;
