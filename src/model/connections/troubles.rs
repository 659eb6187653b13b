//! Connections in a state that somebody may have to look at, as one pass finds them.

use super::receiving::is_unread;
use crate::kernel::sock_diag::{Memory, TcpInfo};
use crate::read::connections::{Connection, State, Timer};
use crate::read::tcp_limits::TcpLimits;

/// Retransmission timeouts in a row after which the peer is hardly there.
const DEAD: u8 = 6;

/// Numbers of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Troubles {
    /// The send buffer is as large as `net.ipv4.tcp_wmem` allows.
    pub send_buffer_at_maximum: u64,
    /// The receive buffer is as large as `net.ipv4.tcp_rmem` allows.
    pub receive_buffer_at_maximum: u64,
    /// The receive buffer is full to nine tenths, overhead included.
    pub receive_buffer_full: u64,
    /// Half of the receive buffer waits to be read.
    pub unread: u64,
    /// At least one retransmission timeout, nothing heard since.
    pub in_backoff: u64,
    /// Six in a row or more, with data that is not acknowledged.
    pub peer_gone: u64,
    /// At least two in a row, with segments in flight that are all full, and none like
    /// them ever delivered.
    pub stalled_full_size: u64,
    /// The same, where such segments were delivered before.
    pub stalled_delivered_before: u64,
    /// The same with smaller ones.
    pub stalled_small: u64,
    /// Full segments have become less than half of what the path is believed to carry.
    pub small_mss: u64,
    /// They are, and also less than half of those to other peers nearby.
    pub smaller_mss_than_peers: u64,
    /// A keepalive timer runs.
    pub keepalive: u64,
    /// FIN_WAIT2 that no program holds.
    pub orphaned_fin_wait2: u64,
}

impl Troubles {
    /// Takes in a connection that stands for `weight` of them. `had_full_mss` tells that
    /// it sent larger segments when it was seen before. `mss_nearby` gives
    /// the largest that was seen to peers nearby.
    pub fn observe(
        &mut self,
        connection: &Connection,
        limits: &TcpLimits,
        had_full_mss: bool,
        mss_nearby: impl FnOnce() -> Option<u32>,
        weight: u64,
    ) {
        let mut count = |figure: fn(&mut Self) -> &mut u64, is_so: bool| {
            if is_so {
                *figure(self) += weight;
            }
        };
        count(
            |all| &mut all.orphaned_fin_wait2,
            connection.state == State::FinWait2 && !connection.has_owner,
        );
        if let Some(memory) = &connection.attributes.memory {
            let at = |size: u32, most: Option<u64>| most.is_some_and(|most| u64::from(size) >= most);
            count(|all| &mut all.send_buffer_at_maximum, at(memory.sndbuf, limits.wmem_max));
            count(|all| &mut all.receive_buffer_at_maximum, at(memory.rcvbuf, limits.rmem_max));
            count(|all| &mut all.receive_buffer_full, is_full(memory));
            count(|all| &mut all.unread, is_unread(connection, memory));
        }
        let Some(info) = &connection.attributes.info else { return };
        let established = connection.state == State::Established;
        let waits = matches!(connection.timer, Some((Timer::Retransmission, _)));
        let unacknowledged = connection.send_queue > info.notsent_bytes.unwrap_or(0);
        count(
            |all| &mut all.keepalive,
            established && matches!(connection.timer, Some((Timer::Keepalive, _))),
        );
        count(|all| &mut all.in_backoff, waits && info.backoff > 0);
        count(|all| &mut all.peer_gone, waits && info.backoff >= DEAD && unacknowledged);
        let stalled = established && waits && info.backoff >= 2 && unacknowledged;
        let is_full_size = in_flight_is_full_size(connection, info);
        let worked = delivered_full_size(info);
        count(|all| &mut all.stalled_full_size, stalled && is_full_size && worked == Some(false));
        count(|all| &mut all.stalled_delivered_before, stalled && is_full_size && worked != Some(false));
        count(|all| &mut all.stalled_small, stalled && !is_full_size);
        if had_full_mss && established && has_small_mss(info) {
            let than_nearby = mss_nearby().is_some_and(|nearby| info.snd_mss < nearby / 2);
            count(|all| &mut all.small_mss, true);
            count(|all| &mut all.smaller_mss_than_peers, than_nearby);
        }
    }
}

fn is_full(memory: &Memory) -> bool {
    u64::from(memory.rmem_alloc) * 10 >= u64::from(memory.rcvbuf) * 9
}

/// Whether full segments are less than half of what the path is believed to carry. A
/// segment is at most half of the peer's window, whatever the path carries
/// (include/net/tcp.h:tcp_bound_to_half_wnd); on loopback that is what bounds it.
pub fn has_small_mss(info: &TcpInfo) -> bool {
    let by_path = info.snd_wnd.is_some_and(|window| info.snd_mss < window / 4);
    by_path && info.snd_mss > 0 && info.snd_mss < info.pmtu / 2
}

/// Whether segments that arrived were full on the whole: then the path carries them, or
/// did. `None` where the kernel does not tell.
fn delivered_full_size(info: &TcpInfo) -> Option<bool> {
    let (bytes, segments) = (info.bytes_acked?, info.delivered?);
    Some(segments > 3 && bytes.saturating_mul(2) >= u64::from(segments) * u64::from(info.snd_mss))
}

/// Whether what was sent and not acknowledged is full segments.
fn in_flight_is_full_size(connection: &Connection, info: &TcpInfo) -> bool {
    let bytes = connection.send_queue.saturating_sub(info.notsent_bytes.unwrap_or(0));
    let full = u64::from(info.unacked) * u64::from(info.snd_mss);
    info.unacked > 0 && u64::from(bytes) * 10 >= full.saturating_mul(9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::connections::tests::connection;

    fn observed(connection: &Connection, nearby: Option<u32>) -> Troubles {
        let limits = TcpLimits { wmem_max: Some(4000), rmem_max: Some(6000), ..TcpLimits::default() };
        let mut troubles = Troubles::default();
        troubles.observe(connection, &limits, true, || nearby, 3);
        troubles
    }

    #[test]
    fn buffers_are_judged_by_size_and_fill() {
        let mut full = connection(State::Established, 1);
        full.receive_queue = 3000;
        full.attributes.memory =
            Some(Memory { rmem_alloc: 5400, rcvbuf: 6000, sndbuf: 4000, ..Memory::default() });
        let expected = Troubles {
            send_buffer_at_maximum: 3,
            receive_buffer_at_maximum: 3,
            receive_buffer_full: 3,
            unread: 3,
            ..Troubles::default()
        };
        assert_eq!(observed(&full, None), expected);
        full.receive_queue = 2999;
        full.attributes.memory =
            Some(Memory { rmem_alloc: 2999, rcvbuf: 5999, sndbuf: 3999, ..Memory::default() });
        assert_eq!(observed(&full, None), Troubles::default());
    }

    #[test]
    fn timeouts_count_while_the_timer_runs() {
        let mut stalled = connection(State::Established, 1);
        stalled.timer = Some((Timer::Retransmission, 100));
        stalled.send_queue = 4000;
        stalled.attributes.info = Some(TcpInfo {
            backoff: 2,
            unacked: 2,
            snd_mss: 1400,
            notsent_bytes: Some(1200),
            bytes_acked: Some(100),
            delivered: Some(2),
            ..TcpInfo::default()
        });
        let backoff = Troubles { in_backoff: 3, ..Troubles::default() };
        assert_eq!(observed(&stalled, None), Troubles { stalled_full_size: 3, ..backoff });
        stalled.send_queue = 3000;
        assert_eq!(observed(&stalled, None), Troubles { stalled_small: 3, ..backoff });
        stalled.attributes.info.as_mut().unwrap().backoff = 6;
        assert_eq!(observed(&stalled, None), Troubles { stalled_small: 3, peer_gone: 3, ..backoff });
        // All of it waits to be sent.
        stalled.send_queue = 1200;
        assert_eq!(observed(&stalled, None), backoff);
        stalled.timer = Some((Timer::Keepalive, 100));
        assert_eq!(observed(&stalled, None), Troubles { keepalive: 3, ..Troubles::default() });
    }

    #[test]
    fn small_segments_are_compared_with_the_path_and_with_others() {
        let mut small = connection(State::Established, 1);
        small.attributes.info =
            Some(TcpInfo { snd_mss: 749, pmtu: 1500, snd_wnd: Some(3000), ..TcpInfo::default() });
        let of = |nearby| {
            let found = observed(&small, nearby);
            (found.small_mss, found.smaller_mss_than_peers)
        };
        assert_eq!((of(None), of(Some(1448)), of(Some(1500))), ((3, 0), (3, 0), (3, 3)));
        // A window of four of them is what bounds segments.
        small.attributes.info.as_mut().unwrap().snd_wnd = Some(2999);
        assert_eq!(observed(&small, Some(9000)), Troubles::default());
        small.attributes.info =
            Some(TcpInfo { snd_mss: 750, pmtu: 1500, snd_wnd: Some(9000), ..TcpInfo::default() });
        assert_eq!(observed(&small, Some(9000)), Troubles::default());
    }

    #[test]
    fn an_orphan_in_fin_wait2_has_no_owner() {
        let mut waiting = connection(State::FinWait2, 1);
        assert_eq!(observed(&waiting, None), Troubles::default());
        waiting.has_owner = false;
        assert_eq!(observed(&waiting, None).orphaned_fin_wait2, 3);
    }
}
