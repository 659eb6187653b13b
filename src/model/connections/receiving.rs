//! What of ours holds back a connection that mostly receives. The kernel keeps no
//! clock of that side, so each term must hold on its own.

use super::table::{Known, folded};
use crate::kernel::sock_diag::{Memory, TcpInfo};
use crate::read::connections::Connection;
use crate::read::tcp_limits::TcpLimits;

/// Why our side holds a sender back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReceiveCause {
    /// The receive buffer is as large as `net.ipv4.tcp_rmem` allows.
    RmemMax,
    /// The program set its size, and `net.core.rmem_max` cut that, or it asked for
    /// exactly as much.
    RcvbufClamped,
    /// The program set its size.
    RcvbufFixed,
    /// The program does not read: the buffer was half full in two passes.
    Unread,
}

impl ReceiveCause {
    /// As in the `cause` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::RmemMax => "rmem_max",
            Self::RcvbufClamped => "rcvbuf_clamped",
            Self::RcvbufFixed => "rcvbuf_fixed",
            Self::Unread => "unread",
        }
    }
}

/// Whether half of the receive buffer waits to be read, or a quarter of it in small
/// segments, whose overhead fills it. What came out of order waits for nobody.
pub fn is_unread(connection: &Connection, memory: &Memory) -> bool {
    let (waits, rcvbuf) = (u64::from(connection.receive_queue), u64::from(memory.rcvbuf));
    waits > 0 && (waits * 2 >= rcvbuf || waits * 4 >= rcvbuf && u64::from(memory.rmem_alloc) * 2 >= rcvbuf)
}

/// Of what a program reads in a pass so many buffers are proof that it reads: a pass
/// that finds one full twice met it by chance.
const READS: u64 = 20;

/// Whether the program left the buffer unread from one pass to the next.
pub fn does_not_read(connection: &Connection, known: &Known, was_unread: bool) -> bool {
    let Some(memory) = &connection.attributes.memory else { return false };
    let reads = known.change.received >= READS * u64::from(memory.rcvbuf);
    was_unread && is_unread(connection, memory) && !reads
}

/// Whether a connection mostly received since it was last seen, and enough to say
/// more: twenty full segments.
pub fn mostly_receives(known: &Known, info: &TcpInfo) -> bool {
    let change = &known.change;
    change.received > change.sent && change.received >= 20 * u64::from(info.snd_mss)
}

/// What is known besides what a connection says of itself.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// Bounds of buffers.
    pub limits: TcpLimits,
    /// Least round trip time of the path, microseconds.
    pub least_rtt: Option<u32>,
    /// What it received, bytes a second.
    pub rate: f64,
    /// What the path is declared to carry, bytes a second.
    pub declared: Option<u64>,
}

/// Why our side held a connection back whose buffer is not left unread; `None` where it
/// did not, or that cannot be told.
pub fn receive_cause(
    connection: &Connection,
    info: &TcpInfo,
    known: &Known,
    sight: &Sight,
) -> Option<ReceiveCause> {
    let memory = connection.attributes.memory?;
    // A program that leaves data lying about may be what the sender waits for.
    let reads = u64::from(connection.receive_queue) * 8 < u64::from(memory.rcvbuf);
    let is_full = sight.declared.is_some_and(|declared| sight.rate >= 0.85 * declared as f64);
    if !reads || is_full || !fills_window(info, sight) {
        return None;
    }
    let rcvbuf = u64::from(memory.rcvbuf);
    if sight.limits.rmem_max == Some(rcvbuf) {
        Some(ReceiveCause::RmemMax)
    } else if sight.limits.core_rmem_max.map(|most| most.saturating_mul(2)) == Some(rcvbuf) {
        Some(ReceiveCause::RcvbufClamped)
    } else {
        (known.before.rcvbuf == folded(memory.rcvbuf)).then_some(ReceiveCause::RcvbufFixed)
    }
}

/// Whether the peer sends a window in each round trip, and no queue stands: the round
/// trip time is near the least one.
fn fills_window(info: &TcpInfo, sight: &Sight) -> bool {
    let (Some(rtt), Some(least)) = (info.rcv_rtt, sight.least_rtt) else { return false };
    // Before 6.2 the kernel tells only what the window may grow to.
    let window = f64::from(info.rcv_wnd.unwrap_or(info.rcv_ssthresh));
    let in_flight = sight.rate * f64::from(least) / 1e6;
    f64::from(rtt) <= 1.25 * f64::from(least) && in_flight >= 0.8 * window
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::connections::table::{Counters, Notes};
    use crate::model::connections::tests::connection;
    use crate::read::connections::State;

    const MIB: u32 = 1 << 20;

    /// 500 KB in a round trip of 100 ms into a window of 600 KB, a buffer of 1 MiB of
    /// which hardly anything waits.
    fn case() -> (Connection, TcpInfo, TcpLimits) {
        let mut connection = connection(State::Established, 1);
        connection.receive_queue = 1000;
        connection.attributes.memory = Some(Memory { rmem_alloc: 2000, rcvbuf: MIB, ..Memory::default() });
        let info = TcpInfo {
            snd_mss: 1000,
            min_rtt: Some(100_000),
            rcv_rtt: Some(100_000),
            rcv_wnd: Some(600_000),
            ..TcpInfo::default()
        };
        let limits =
            TcpLimits { rmem_max: Some(1 << 20), core_rmem_max: Some(1 << 18), ..TcpLimits::default() };
        (connection, info, limits)
    }

    fn known(rcvbuf: u32) -> Known {
        let before = Notes { rcvbuf: folded(rcvbuf), ..Notes::default() };
        Known { change: Counters { received: 75_000_000, sent: 10, ..Counters::default() }, before }
    }

    const RATE: f64 = 5e6;

    fn sight(limits: TcpLimits) -> Sight {
        Sight { limits, least_rtt: Some(100_000), rate: RATE, declared: None }
    }

    #[test]
    fn a_buffer_that_is_filled_each_round_trip_limits() {
        let (mut connection, info, limits) = case();
        let cause = |connection: &Connection, limits: &TcpLimits, before| {
            receive_cause(connection, &info, &known(before), &sight(*limits))
        };
        assert_eq!(cause(&connection, &limits, MIB), Some(ReceiveCause::RmemMax));
        connection.attributes.memory.as_mut().unwrap().rcvbuf = MIB / 2;
        assert_eq!(cause(&connection, &limits, MIB / 2), Some(ReceiveCause::RcvbufClamped));
        let other = TcpLimits { core_rmem_max: Some(1), ..limits };
        assert_eq!(cause(&connection, &other, MIB / 2), Some(ReceiveCause::RcvbufFixed));
        // It still grows.
        assert_eq!(cause(&connection, &other, MIB / 4), None);
    }

    #[test]
    fn each_term_of_the_proof_is_needed() {
        let (connection, info, limits) = case();
        let cause = |connection: &Connection, info: &TcpInfo, sight: Sight| {
            receive_cause(connection, info, &known(MIB), &sight)
        };
        let seen = sight(limits);
        assert_eq!(cause(&connection, &info, seen), Some(ReceiveCause::RmemMax));
        // The sender fills less than 0.8 of the window, so something else holds it back.
        assert_eq!(cause(&connection, &info, Sight { rate: 4.7e6, ..seen }), None);
        let queue = TcpInfo { rcv_rtt: Some(125_001), ..info };
        assert_eq!(cause(&connection, &queue, seen), None);
        // Others to the same place tell that the queue was there from the beginning.
        assert_eq!(cause(&connection, &info, Sight { least_rtt: Some(79_999), ..seen }), None);
        assert_eq!(cause(&connection, &info, Sight { least_rtt: None, ..seen }), None);
        let unmeasured = TcpInfo { rcv_rtt: None, ..info };
        assert_eq!(cause(&connection, &unmeasured, seen), None);
        let lazy = Connection { receive_queue: MIB / 8, ..connection.clone() };
        assert_eq!(cause(&lazy, &info, seen), None);
        assert_eq!(cause(&connection, &info, Sight { declared: Some(5_800_000), ..seen }), None);
        let wide = Sight { declared: Some(6_000_000), ..seen };
        assert_eq!(cause(&connection, &info, wide), Some(ReceiveCause::RmemMax));
        // Before 6.2 what the window may grow to stands for it.
        let old = TcpInfo { rcv_wnd: None, rcv_ssthresh: 600_000, ..info };
        assert_eq!(cause(&connection, &old, seen), Some(ReceiveCause::RmemMax));
    }

    #[test]
    fn a_program_that_does_not_read_is_seen_in_two_passes() {
        let (mut connection, ..) = case();
        connection.receive_queue = MIB / 2;
        let idle = Known { change: Counters { received: 20 << 20, ..Counters::default() }, ..known(MIB) };
        let stuck = Known { change: Counters { received: (20 << 20) - 1, ..Counters::default() }, ..idle };
        assert!(does_not_read(&connection, &stuck, true) && !does_not_read(&connection, &stuck, false));
        // Twenty buffers a pass: it was met full by chance.
        assert!(!does_not_read(&connection, &idle, true));
        // A quarter is enough where overhead fills the rest, and not where nothing does.
        connection.receive_queue = MIB / 4;
        assert!(!does_not_read(&connection, &stuck, true));
        connection.attributes.memory.as_mut().unwrap().rmem_alloc = MIB / 2;
        assert!(does_not_read(&connection, &stuck, true));
        // Out of order, nothing of it can be read.
        connection.receive_queue = 0;
        assert!(!does_not_read(&connection, &stuck, true));
    }

    #[test]
    fn mostly_is_more_than_sent_and_twenty_segments() {
        let (_, info, _) = case();
        let of = |received, sent| {
            mostly_receives(
                &Known { change: Counters { received, sent, ..Counters::default() }, ..Known::default() },
                &info,
            )
        };
        assert!(of(20_000, 19_999));
        assert!(!of(20_000, 20_000) && !of(19_999, 0));
    }
}
