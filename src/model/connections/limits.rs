//! What holds a sender back, and why: one connection at a time, since sums of
//! many say nothing of what any of them waits for.

use super::table::{Counters, Known, Notes, folded, octave};
use crate::kernel::sock_diag::{Memory, TcpInfo};
use crate::read::connections::{Connection, Timer};
use crate::read::tcp_limits::TcpLimits;

/// What a connection with something to send waits for (kernel's `enum tcp_chrono`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The peer's window.
    ReceiveWindow,
    /// Room in our send buffer.
    SendBuffer,
    /// The congestion window, pacing or an acknowledgement.
    Network,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ReceiveWindow, Self::SendBuffer, Self::Network];

    /// As in the `limit` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReceiveWindow => "receive_window",
            Self::SendBuffer => "send_buffer",
            Self::Network => "network",
        }
    }
}

/// Why it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Not enough was seen to tell.
    Unknown,
    /// The round trip time is half as much again as the least one: the link or path
    /// is full, and more buffer would only make it fuller.
    StandingQueue,
    /// The send buffer is as large as `net.ipv4.tcp_wmem` allows.
    WmemMax,
    /// The program set its size, and `net.core.wmem_max` cut that, or it asked for
    /// exactly as much.
    SndbufClamped,
    /// The program set its size.
    SndbufFixed,
    /// It is far from full: what may be written and not yet sent is bounded.
    NotsentLowat,
    /// It does not grow since TCP as a whole holds more memory than the low mark of
    /// `net.ipv4.tcp_mem`.
    Memory,
    /// The peer's window is as large as it gets, and in use.
    PeerWindow,
    /// The peer's program does not read.
    PeerClosed,
    /// Window scaling was not agreed on.
    NoScaling,
    /// Data is lost though no queue stands.
    PathLoss,
    /// A window or buffer is still growing.
    Growing,
}

impl Cause {
    const ALL: [Self; 12] = [
        Self::Unknown,
        Self::StandingQueue,
        Self::WmemMax,
        Self::SndbufClamped,
        Self::SndbufFixed,
        Self::NotsentLowat,
        Self::Memory,
        Self::PeerWindow,
        Self::PeerClosed,
        Self::NoScaling,
        Self::PathLoss,
        Self::Growing,
    ];

    /// As in the `cause` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::StandingQueue => "standing_queue",
            Self::WmemMax => "wmem_max",
            Self::SndbufClamped => "sndbuf_clamped",
            Self::SndbufFixed => "sndbuf_fixed",
            Self::NotsentLowat => "notsent_lowat",
            Self::Memory => "memory",
            Self::PeerWindow => "peer_window",
            Self::PeerClosed => "peer_closed",
            Self::NoScaling => "no_scaling",
            Self::PathLoss => "path_loss",
            Self::Growing => "growing",
        }
    }
}

/// Causes of the three limits, in the order of [`Limit::ALL`], and which of them
/// binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The limit that took the most time, where it took more than a tenth.
    pub limit: Limit,
    /// Of each limit, for the time it took.
    pub causes: [Cause; 3],
}

impl Verdict {
    /// Nothing but the limit is known.
    pub fn undecided(limit: Limit) -> Self {
        Self { limit, causes: [Cause::Unknown; 3] }
    }

    /// The limit that binds and its cause, in a byte.
    pub fn note(self) -> u8 {
        self.limit as u8 * Cause::ALL.len() as u8 + self.causes[self.limit as usize] as u8
    }

    /// From [`Verdict::note`]: of the limit that did not bind then, no cause is known.
    pub fn from_note(note: u8) -> Self {
        let place = usize::from(note);
        let limit = Limit::ALL.get(place / Cause::ALL.len()).copied().unwrap_or(Limit::Network);
        let mut verdict = Self::undecided(limit);
        verdict.causes[limit as usize] = Cause::ALL[place % Cause::ALL.len()];
        verdict
    }
}

/// Busy time in the order of [`Limit::ALL`], microseconds.
pub fn times(change: &Counters) -> [u64; 3] {
    let others = change.receive_window.saturating_add(change.send_buffer);
    [change.receive_window, change.send_buffer, change.busy.saturating_sub(others)]
}

/// The limit that binds: that of a window or buffer counts from a tenth of the time.
pub fn binding(change: &Counters) -> Limit {
    let [window, buffer, _] = times(change);
    let counts = |time: u64| time.saturating_mul(10) > change.busy;
    if counts(window) && window >= buffer {
        Limit::ReceiveWindow
    } else if counts(buffer) {
        Limit::SendBuffer
    } else {
        Limit::Network
    }
}

/// What is known besides what a connection says of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ground {
    /// Bounds of buffers.
    pub limits: TcpLimits,
    /// Least round trip time of the path, microseconds: the connection's own may have
    /// been measured behind a queue.
    pub least_rtt: Option<u32>,
    /// What it delivered, bytes a second of its busy time, at least.
    pub rate: f64,
    /// Bytes in flight that would fill the path, where that is known.
    pub bdp: Option<f64>,
    /// All connections to the peer's neighbourhood together may fill the path.
    pub is_crowded: bool,
}

impl Ground {
    /// Whether it was busy for long enough to tell more than the limit: a second and
    /// twenty round trips of an empty path. A queue that stands must not put off what
    /// shows it.
    fn is_long(&self, change: &Counters) -> bool {
        change.busy >= (20 * u64::from(self.least_rtt.unwrap_or(u32::MAX))).max(1_000_000)
    }

    /// Whether enough was seen besides: twenty full segments.
    pub fn is_evidence(&self, change: &Counters, info: &TcpInfo) -> bool {
        self.is_long(change) && change.sent >= 20 * u64::from(info.snd_mss)
    }

    /// Whether the round trip time is so many times the least one, or more.
    fn is_inflated(&self, info: &TcpInfo, factor: f64) -> bool {
        let times = info.rtt.zip(self.least_rtt);
        times.is_some_and(|(rtt, least)| f64::from(rtt) >= factor * f64::from(least))
    }

    /// Whether the congestion window is in use: of what a program sends at its own pace
    /// little is on the way at a time. The kernel's own mark (`app_limited`) stays where
    /// it was while a program that was fast is slow. BBR's window is twice what it uses.
    pub fn uses_window(&self, connection: &Connection, info: &TcpInfo) -> bool {
        let share = if connection.attributes.bbr.is_some() { 0.3 } else { 0.5 };
        !info.app_limited && self.on_the_way(info) >= share * window(info)
    }

    /// Bytes that it delivers in a round trip.
    fn on_the_way(&self, info: &TcpInfo) -> f64 {
        self.rate * f64::from(info.rtt.unwrap_or(0)) / 1e6
    }
}

/// Congestion window, bytes.
pub fn window(info: &TcpInfo) -> f64 {
    f64::from(info.snd_cwnd) * f64::from(info.snd_mss)
}

/// What limited a connection since it was last seen.
pub fn verdict(connection: &Connection, info: &TcpInfo, known: &Known, ground: &Ground) -> Verdict {
    let change = &known.change;
    let limit = binding(change);
    if limit == Limit::ReceiveWindow && ground.is_long(change) && is_shut(connection, info) {
        // Nothing is sent, and no round trip time measured.
        return Verdict { limit, causes: [Cause::PeerClosed, Cause::Unknown, Cause::Unknown] };
    }
    if !ground.is_evidence(change, info) {
        // What was seen before is the best guess, but for one that gets no answer.
        let before = Verdict::from_note(known.before.verdict);
        let goes_on = before.limit == limit && change.sent > 0 && info.backoff == 0;
        return if goes_on { before } else { Verdict::undecided(limit) };
    }
    let network = network_cause(connection, info, change, ground);
    if ground.is_inflated(info, 1.5) {
        return Verdict { limit, causes: [Cause::StandingQueue, Cause::StandingQueue, network] };
    }
    let memory = connection.attributes.memory;
    let send_buffer = memory
        .map_or(Cause::Unknown, |memory| send_buffer_cause(info, &memory, &known.before, &ground.limits));
    Verdict { limit, causes: [receive_window_cause(info, &known.before, ground.rate), send_buffer, network] }
}

fn send_buffer_cause(info: &TcpInfo, memory: &Memory, before: &Notes, limits: &TcpLimits) -> Cause {
    let sndbuf = u64::from(memory.sndbuf);
    let grew = folded(memory.sndbuf) != before.sndbuf;
    if u64::from(memory.wmem_queued) * 2 < sndbuf {
        // Or the program has nothing more to write, and what it wrote is on its way.
        let sends = u64::from(info.last_data_sent) * 4_000 <= u64::from(info.rtt.unwrap_or(0));
        if sends && info.unacked > 0 { Cause::NotsentLowat } else { Cause::Unknown }
    } else if limits.wmem_max == Some(sndbuf) {
        Cause::WmemMax
    } else if limits.core_wmem_max.map(|most| most.saturating_mul(2)) == Some(sndbuf) {
        Cause::SndbufClamped
    } else if before.sndbuf == 0 {
        // Seen for the first time.
        Cause::Unknown
    } else if grew {
        Cause::Growing
    } else {
        match limits.is_memory_low() {
            Some(true) if limits.wmem_max.is_some_and(|most| sndbuf < most) => Cause::Memory,
            Some(_) => Cause::SndbufFixed,
            None => Cause::Unknown,
        }
    }
}

/// Whether the peer's window is closed now.
fn is_shut(connection: &Connection, info: &TcpInfo) -> bool {
    let probing = matches!(connection.timer, Some((Timer::WindowProbe, _)));
    probing || info.snd_wnd.is_some_and(|window| u64::from(window) < 2 * u64::from(info.snd_mss))
}

fn receive_window_cause(info: &TcpInfo, before: &Notes, rate: f64) -> Cause {
    let Some(window) = info.snd_wnd else { return Cause::Unknown };
    // What a window that stands open lets through in a round trip is the window.
    let used = rate * f64::from(info.rtt.unwrap_or(0)) / 1e6;
    if used * 4.0 < f64::from(window) {
        Cause::PeerClosed
    } else if info.options & TcpInfo::WSCALE == 0 && window <= u32::from(u16::MAX) {
        Cause::NoScaling
    } else if before.window == 0 {
        // Seen for the first time.
        Cause::Unknown
    } else if octave(window) > before.window.saturating_add(2) {
        Cause::Growing
    } else {
        Cause::PeerWindow
    }
}

/// Bytes that arrived, at least: what is on its way now may all have been sent since.
pub fn delivered(change: &Counters, info: &TcpInfo) -> f64 {
    let on_the_way = u64::from(info.unacked) * u64::from(info.snd_mss);
    change.sent.saturating_sub(change.retransmitted).saturating_sub(on_the_way) as f64
}

/// A thousandth of what was sent.
const LOSS: f64 = 0.001;

/// Whether data was lost: sent again for another reason than that the first was late.
pub fn is_lossy(change: &Counters, info: &TcpInfo) -> bool {
    let spurious = u64::from(change.spurious) * u64::from(info.snd_mss);
    was_sent_again(change, change.retransmitted.saturating_sub(spurious))
}

fn was_sent_again(change: &Counters, bytes: u64) -> bool {
    bytes > 0 && bytes as f64 >= LOSS * change.sent as f64
}

fn network_cause(connection: &Connection, info: &TcpInfo, change: &Counters, ground: &Ground) -> Cause {
    // Of requests and answers hardly anything is on the way; a buffer may be what keeps
    // the congestion window from use.
    let is_stream = ground.on_the_way(info) >= 10.0 * f64::from(info.snd_mss);
    if is_stream && ground.is_inflated(info, 1.5) && adds_delay(info, ground) {
        return Cause::StandingQueue;
    }
    if !ground.uses_window(connection, info) {
        return Cause::Unknown;
    }
    if is_lossy(change, info) {
        // With a queue that is short, or full at times only, others or this one may be
        // the reason for the loss.
        let fills_path = ground.bdp.is_some_and(|bdp| window(info) >= 0.9 * bdp);
        let is_decided = !ground.is_inflated(info, 1.25) && !fills_path && !ground.is_crowded;
        return if is_decided { Cause::PathLoss } else { Cause::Unknown };
    }
    let in_flight =
        info.unacked.saturating_add(info.retrans).saturating_sub(info.sacked.saturating_add(info.lost));
    // A burst of segmentation offload is held back until all of it fits.
    let burst = 65_536 / info.snd_mss.max(1);
    let is_full = in_flight.saturating_add(burst) >= info.snd_cwnd;
    let waits = info.notsent_bytes.is_some_and(|bytes| bytes > 0);
    // Late packets make the window smaller as lost ones do.
    let is_growing = is_full && waits && !was_sent_again(change, change.retransmitted);
    if is_growing { Cause::Growing } else { Cause::Unknown }
}

/// Whether a queue adds more to the round trip time than delayed acknowledgements and
/// a busy neighbourhood do, of which measurements that scatter are a sign.
fn adds_delay(info: &TcpInfo, ground: &Ground) -> bool {
    let Some((rtt, least)) = info.rtt.zip(ground.least_rtt) else { return false };
    let floor = if info.rttvar > rtt / 2 { 5_000 } else { 2_000 };
    rtt.saturating_sub(least) >= floor
}

#[cfg(test)]
mod tests;
