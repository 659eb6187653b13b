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

/// Whether it was busy for long enough to tell more than the limit: a second and twenty
/// round trips of an empty path. A queue that stands must not put off what shows it.
fn is_busy(change: &Counters, info: &TcpInfo) -> bool {
    let rtt = info.min_rtt.or(info.rtt).unwrap_or(u32::MAX);
    change.busy >= (20 * u64::from(rtt)).max(1_000_000)
}

/// Whether enough was seen besides: twenty full segments.
pub fn is_evidence(change: &Counters, info: &TcpInfo) -> bool {
    is_busy(change, info) && change.sent >= 20 * u64::from(info.snd_mss)
}

/// The round trip time is half as much again as the least one.
pub fn has_standing_queue(info: &TcpInfo) -> bool {
    is_inflated(info, 1.5)
}

fn is_inflated(info: &TcpInfo, factor: f64) -> bool {
    matches!((info.rtt, info.min_rtt), (Some(rtt), Some(least)) if f64::from(rtt) >= factor * f64::from(least))
}

/// Bytes in flight that would fill the path, where that is known.
pub type Bdp = Option<f64>;

/// What limited a connection since it was last seen. `rate` is what it sent, bytes a
/// second of the time; `bdp` what the path is known to hold.
pub fn verdict(
    connection: &Connection,
    info: &TcpInfo,
    known: &Known,
    limits: &TcpLimits,
    rate: f64,
    bdp: Bdp,
) -> Verdict {
    let change = &known.change;
    let limit = binding(change);
    if limit == Limit::ReceiveWindow && is_busy(change, info) && is_shut(connection, info) {
        // Nothing is sent, and no round trip time measured.
        return Verdict { limit, causes: [Cause::PeerClosed, Cause::Unknown, Cause::Unknown] };
    }
    if !is_evidence(change, info) {
        // What was seen before is the best guess.
        let before = Verdict::from_note(known.before.verdict);
        return if before.limit == limit { before } else { Verdict::undecided(limit) };
    }
    if has_standing_queue(info) {
        return Verdict { limit, causes: [Cause::StandingQueue; 3] };
    }
    let memory = connection.attributes.memory;
    let send_buffer =
        memory.map_or(Cause::Unknown, |memory| send_buffer_cause(info, &memory, &known.before, limits));
    let causes =
        [receive_window_cause(info, &known.before, rate), send_buffer, network_cause(change, info, bdp)];
    Verdict { limit, causes }
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
    } else if octave(window) > before.window.saturating_add(2) {
        Cause::Growing
    } else {
        Cause::PeerWindow
    }
}

/// A thousandth of what was sent.
const LOSS: f64 = 0.001;

fn network_cause(change: &Counters, info: &TcpInfo, bdp: Bdp) -> Cause {
    let spurious = u64::from(change.spurious) * u64::from(info.snd_mss);
    let lost = change.retransmitted.saturating_sub(spurious) as f64;
    let window = f64::from(info.snd_cwnd) * f64::from(info.snd_mss);
    let is_lossy = lost >= LOSS * change.sent as f64;
    if is_lossy {
        // Between the two marks a queue may be the reason for the loss, or not.
        let fills_path = bdp.is_some_and(|bdp| window >= 0.9 * bdp);
        return if is_inflated(info, 1.25) || fills_path { Cause::Unknown } else { Cause::PathLoss };
    }
    let in_flight =
        info.unacked.saturating_add(info.retrans).saturating_sub(info.sacked.saturating_add(info.lost));
    // A burst of segmentation offload is held back until all of it fits.
    let burst = 65_536 / info.snd_mss.max(1);
    let is_full = in_flight.saturating_add(burst) >= info.snd_cwnd;
    if is_full && info.notsent_bytes.is_some_and(|bytes| bytes > 0) { Cause::Growing } else { Cause::Unknown }
}

#[cfg(test)]
mod tests;
