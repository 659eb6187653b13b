use crate::kernel::netlink::{u32_at, u64_at};

/// Bytes of `struct tcp_info` that every kernel sends.
const LEAST: usize = 104;

/// `struct tcp_info` (include/uapi/linux/tcp.h, 4.18-6.18), as long as the kernel
/// sent it: 104 bytes in old kernels, 280 in 6.18. What a kernel before the one
/// that is named does not send is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Retransmission timeouts in a row, `tcpi_backoff`.
    pub backoff: u8,
    /// What was agreed on: [`TcpInfo::WSCALE`] and others, `tcpi_options`.
    pub options: u8,
    /// Congestion state: 0 open to 4 loss, `tcpi_ca_state`.
    pub ca_state: u8,
    /// The last sample of the delivery rate was limited by the application,
    /// `tcpi_delivery_rate_app_limited` (4.9).
    pub app_limited: bool,
    /// Retransmission timeout, microseconds, `tcpi_rto`.
    pub rto: u32,
    /// Payload of a full segment that we send, bytes, `tcpi_snd_mss`.
    pub snd_mss: u32,
    /// Segments sent and not acknowledged, `tcpi_unacked`.
    pub unacked: u32,
    /// Of those the ones that selective acknowledgements name, `tcpi_sacked`.
    pub sacked: u32,
    /// Of those the ones taken for lost, `tcpi_lost`.
    pub lost: u32,
    /// Retransmissions not yet acknowledged, segments, `tcpi_retrans`.
    pub retrans: u32,
    /// Milliseconds since data was last sent, or the connection made,
    /// `tcpi_last_data_sent`.
    pub last_data_sent: u32,
    /// Milliseconds since the last acknowledgement came, `tcpi_last_ack_recv`.
    pub last_ack_recv: u32,
    /// Largest packet the path is believed to carry, bytes, `tcpi_pmtu`.
    pub pmtu: u32,
    /// What our window may grow to, bytes, `tcpi_rcv_ssthresh`.
    pub rcv_ssthresh: u32,
    /// Smoothed round trip time in microseconds, `tcpi_rtt`; `None` before the
    /// first measurement.
    pub rtt: Option<u32>,
    /// Its mean deviation, microseconds, `tcpi_rttvar`.
    pub rttvar: u32,
    /// Congestion window, segments, `tcpi_snd_cwnd`.
    pub snd_cwnd: u32,
    /// Round trip time as the receiving side measures it, microseconds,
    /// `tcpi_rcv_rtt`; `None` before the first measurement.
    pub rcv_rtt: Option<u32>,
    /// Payload acknowledged by the peer, with SYN and FIN, `tcpi_bytes_acked` (4.1).
    pub bytes_acked: Option<u64>,
    /// Payload received, `tcpi_bytes_received` (4.1).
    pub bytes_received: Option<u64>,
    /// Bytes written and not yet sent, `tcpi_notsent_bytes` (4.6).
    pub notsent_bytes: Option<u32>,
    /// Least round trip time of the last minutes in microseconds,
    /// `tcpi_min_rtt` (4.6); `None` before the first measurement, where the kernel
    /// sends all ones (net/ipv4/tcp.c:tcp_init_sock).
    pub min_rtt: Option<u32>,
    /// Microseconds with something to send or not yet acknowledged,
    /// `tcpi_busy_time` (4.10).
    pub busy_time: Option<u64>,
    /// Microseconds of those stopped by the peer's window, `tcpi_rwnd_limited` (4.10).
    pub rwnd_limited: Option<u64>,
    /// Microseconds of those waiting for send buffer, `tcpi_sndbuf_limited` (4.10).
    pub sndbuf_limited: Option<u64>,
    /// Segments that arrived, as far as acknowledgements tell, `tcpi_delivered` (4.18).
    pub delivered: Option<u32>,
    /// Payload sent, retransmissions as well, `tcpi_bytes_sent` (4.19).
    pub bytes_sent: Option<u64>,
    /// Payload sent again, `tcpi_bytes_retrans` (4.19).
    pub bytes_retrans: Option<u64>,
    /// Segments that the peer reported to have come twice, `tcpi_dsack_dups` (4.19).
    pub dsack_dups: Option<u32>,
    /// The peer's window, bytes, `tcpi_snd_wnd` (5.4).
    pub snd_wnd: Option<u32>,
    /// Our window as last told to the peer, bytes, `tcpi_rcv_wnd` (6.2).
    pub rcv_wnd: Option<u32>,
}

impl TcpInfo {
    /// Window scaling was agreed on, `TCPI_OPT_WSCALE`.
    pub const WSCALE: u8 = 4;
    /// Explicit congestion notification was, `TCPI_OPT_ECN`.
    pub const ECN: u8 = 8;

    /// `None` when these are fewer bytes than any kernel sends.
    #[inline(always)]
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; LEAST] = bytes.first_chunk()?;
        let early = |offset: usize| u32_at(head, offset).unwrap_or_default();
        let known = |value: u32| Some(value).filter(|value| *value > 0);
        Some(Self {
            ca_state: head[1],
            backoff: head[4],
            options: head[5],
            app_limited: head[7] & APP_LIMITED != 0,
            rto: early(8),
            snd_mss: early(16),
            unacked: early(24),
            sacked: early(28),
            lost: early(32),
            retrans: early(36),
            last_data_sent: early(44),
            last_ack_recv: early(56),
            pmtu: early(60),
            rcv_ssthresh: early(64),
            rtt: known(early(68)),
            rttvar: early(72),
            snd_cwnd: early(80),
            rcv_rtt: known(early(92)),
            bytes_acked: u64_at(bytes, 120),
            bytes_received: u64_at(bytes, 128),
            notsent_bytes: u32_at(bytes, 144),
            min_rtt: u32_at(bytes, 148).filter(|rtt| *rtt != u32::MAX),
            busy_time: u64_at(bytes, 168),
            rwnd_limited: u64_at(bytes, 176),
            sndbuf_limited: u64_at(bytes, 184),
            delivered: u32_at(bytes, 192),
            bytes_sent: u64_at(bytes, 200),
            bytes_retrans: u64_at(bytes, 208),
            dsack_dups: u32_at(bytes, 216),
            snd_wnd: u32_at(bytes, 228),
            rcv_wnd: u32_at(bytes, 232),
        })
    }
}

/// The first of the bit fields at offset 7, which compilers lay out by endianness.
const APP_LIMITED: u8 = if cfg!(target_endian = "big") { 0x80 } else { 1 };

/// What BBR believes of the path, `struct tcp_bbr_info` (4.9).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BbrInfo {
    /// Bytes a second, `bbr_bw_lo` and `bbr_bw_hi`.
    pub bandwidth: u64,
    /// Microseconds, `bbr_min_rtt`.
    pub min_rtt: u32,
}

impl BbrInfo {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (low, high) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?);
        Some(Self { bandwidth: u64::from(high) << 32 | u64::from(low), min_rtt: u32_at(bytes, 8)? })
    }
}

/// Memory of a socket, bytes, INET_DIAG_SKMEMINFO (enum in
/// include/uapi/linux/sock_diag.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Taken by what was received, overhead included, `SK_MEMINFO_RMEM_ALLOC`.
    pub rmem_alloc: u32,
    /// Most of it, `SK_MEMINFO_RCVBUF`.
    pub rcvbuf: u32,
    /// Most that may be queued for sending, `SK_MEMINFO_SNDBUF`.
    pub sndbuf: u32,
    /// Reserved and not yet used, `SK_MEMINFO_FWD_ALLOC`.
    pub fwd_alloc: u32,
    /// Queued for sending, overhead included, `SK_MEMINFO_WMEM_QUEUED`.
    pub wmem_queued: u32,
    /// Packets dropped at the socket (`sk_drops`), of a listener connection
    /// attempts and stray packets, `SK_MEMINFO_DROPS` (4.7).
    pub drops: Option<u32>,
}

impl Memory {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        // rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued, optmem,
        // backlog (3.6), drops (4.7)
        let number = |index: usize| u32_at(bytes, 4 * index);
        Some(Self {
            rmem_alloc: number(0)?,
            rcvbuf: number(1)?,
            sndbuf: number(3)?,
            fwd_alloc: number(4)?,
            wmem_queued: number(5)?,
            drops: number(8),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_was_not_sent_is_not_zero() {
        let mut bytes = [0; 280];
        bytes[56..60].copy_from_slice(&7u32.to_ne_bytes());
        bytes[68..72].copy_from_slice(&1500u32.to_ne_bytes());
        bytes[148..152].copy_from_slice(&900u32.to_ne_bytes());
        bytes[200..208].copy_from_slice(&(1u64 << 40).to_ne_bytes());
        let fields = |bytes| {
            TcpInfo::parse(bytes).map(|info| (info.last_ack_recv, info.rtt, info.min_rtt, info.bytes_sent))
        };
        assert_eq!(fields(&bytes), Some((7, Some(1500), Some(900), Some(1 << 40))));
        assert_eq!(fields(&bytes[..207]), Some((7, Some(1500), Some(900), None)));
        assert_eq!(fields(&bytes[..104]), Some((7, Some(1500), None, None)));
        assert_eq!(fields(&bytes[..103]), None);
    }

    #[test]
    fn what_was_never_measured_is_no_time() {
        let mut bytes = [0; 280];
        bytes[148..152].fill(0xff);
        let info = TcpInfo::parse(&bytes).unwrap();
        assert_eq!((info.rtt, info.min_rtt, info.rcv_rtt), (None, None, None));
    }

    #[test]
    fn halves_of_a_bandwidth_are_put_together() {
        let bytes: Vec<u8> = [7u32, 1, 900, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        assert_eq!(BbrInfo::parse(&bytes), Some(BbrInfo { bandwidth: (1 << 32) + 7, min_rtt: 900 }));
        assert_eq!(BbrInfo::parse(&bytes[..11]), None);
    }

    #[test]
    fn memory_is_read_by_place_and_length() {
        let bytes: Vec<u8> = (100..109u32).flat_map(u32::to_ne_bytes).collect();
        let expected = Memory {
            rmem_alloc: 100,
            rcvbuf: 101,
            sndbuf: 103,
            fwd_alloc: 104,
            wmem_queued: 105,
            drops: Some(108),
        };
        assert_eq!(Memory::parse(&bytes), Some(expected));
        assert_eq!(Memory::parse(&bytes[..32]), Some(Memory { drops: None, ..expected }));
        assert_eq!(Memory::parse(&bytes[..23]), None);
    }
}
