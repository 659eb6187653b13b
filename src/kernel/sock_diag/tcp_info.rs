use crate::kernel::netlink::u32_at;

/// `struct tcp_info` (include/uapi/linux/tcp.h, 4.18-6.18), as long as the kernel
/// sent it: 104 bytes in old kernels, 280 in 6.18. A field beyond is `None`.
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo<'a>(&'a [u8]);

impl<'a> TcpInfo<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Milliseconds since data was last sent, or the connection made,
    /// `tcpi_last_data_sent`.
    pub fn last_data_sent(&self) -> Option<u32> {
        u32_at(self.0, 44)
    }

    /// Milliseconds since the last acknowledgement came, `tcpi_last_ack_recv`.
    pub fn last_ack_received(&self) -> Option<u32> {
        u32_at(self.0, 56)
    }

    /// Smoothed round trip time in microseconds, `tcpi_rtt`; `None` before the
    /// first measurement.
    pub fn rtt(&self) -> Option<u32> {
        u32_at(self.0, 68).filter(|rtt| *rtt > 0)
    }

    /// Least round trip time of the last minutes in microseconds (4.6),
    /// `tcpi_min_rtt`; `None` before the first measurement, where the kernel
    /// sends all ones (net/ipv4/tcp.c:tcp_init_sock).
    pub fn min_rtt(&self) -> Option<u32> {
        u32_at(self.0, 148).filter(|rtt| *rtt != u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_was_not_sent_is_not_zero() {
        let mut bytes = [0; 280];
        bytes[44..48].copy_from_slice(&9u32.to_ne_bytes());
        bytes[56..60].copy_from_slice(&7u32.to_ne_bytes());
        bytes[68..72].copy_from_slice(&1500u32.to_ne_bytes());
        bytes[148..152].copy_from_slice(&900u32.to_ne_bytes());
        let fields = |info: TcpInfo<'_>| (info.last_ack_received(), info.rtt(), info.min_rtt());
        assert_eq!(fields(TcpInfo::new(&bytes)), (Some(7), Some(1500), Some(900)));
        assert_eq!(fields(TcpInfo::new(&bytes[..104])), (Some(7), Some(1500), None));
        assert_eq!(fields(TcpInfo::new(&[])), (None, None, None));
        assert_eq!(TcpInfo::new(&bytes).last_data_sent(), Some(9));
    }

    #[test]
    fn what_was_never_measured_is_no_time() {
        let mut bytes = [0; 280];
        bytes[148..152].fill(0xff);
        assert_eq!((TcpInfo::new(&bytes).rtt(), TcpInfo::new(&bytes).min_rtt()), (None, None));
    }
}
