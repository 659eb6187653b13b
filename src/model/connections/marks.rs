//! What is marked of a connection in one pass, to be asked for in the next.

use super::receiving::is_unread;
use super::table::{Known, Notes};
use crate::kernel::sock_diag::TcpInfo;
use crate::read::connections::Connection;

/// Nothing was in flight, and had not been for a timeout.
const IDLE: u8 = 1;
/// Half of the receive buffer waited to be read.
pub(super) const UNREAD: u8 = 2;
/// Full segments were at least half of what the path is believed to carry, once.
pub(super) const FULL_MSS: u8 = 4;
/// It was far slower than its path was seen to be.
pub(super) const SLOW: u8 = 8;

/// What a pass marks of a connection, but for [`SLOW`].
pub(super) fn marks(connection: &Connection, info: &TcpInfo) -> u8 {
    let idle = info.unacked == 0 && u64::from(info.last_data_sent) * 1000 > u64::from(info.rto);
    let unread = connection.attributes.memory.is_some_and(|memory| is_unread(connection, &memory));
    let full_mss = info.snd_mss >= info.pmtu / 2;
    u8::from(idle) * IDLE + u8::from(unread) * UNREAD + u8::from(full_mss) * FULL_MSS
}

/// What a connection may send at once after a restart, segments (TCP_INIT_CWND of
/// include/net/tcp.h, 6.18), where no route has an `initcwnd`.
const INITIAL_WINDOW: u16 = 10;

/// Whether the kernel reset the congestion window because the connection was idle
/// (net/ipv4/tcp_output.c:tcp_cwnd_restart) and that cost round trips: it was idle at the
/// last pass, sent since, and nothing else can have made the window smaller. BBR makes its
/// own. What fits into the initial window waits for nothing; a window opens to twice of
/// what is sent at once (include/net/tcp.h:tcp_is_cwnd_limited).
pub(super) fn is_idle_restart(connection: &Connection, info: &TcpInfo, known: &Known, notes: &Notes) -> bool {
    let other_reasons = known.change.retransmitted > 0
        || info.ca_state != 0
        || info.options & TcpInfo::ECN != 0
        || connection.attributes.bbr.is_some();
    known.before.flags & IDLE != 0
        && known.change.sent > u64::from(INITIAL_WINDOW) * u64::from(info.snd_mss)
        && known.before.cwnd > 2 * INITIAL_WINDOW
        && notes.cwnd < known.before.cwnd
        && !other_reasons
}
