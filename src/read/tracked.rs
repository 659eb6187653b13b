//! Tracked flows by state, over ctnetlink (include/uapi/linux/netfilter/nfnetlink_conntrack.h,
//! nf_conntrack_tcp.h and nf_conntrack_common.h, 5.10-6.18).

use super::sysctl;
use crate::kernel::netlink::{Attribute, be32_at, messages};
use crate::kernel::sock_diag::Scope;
use crate::kernel::{Kernel, Malformed, Request, Result};

/// States by the names that the parameters of their timeouts have: those of TCP, then
/// what other protocols have.
pub const STATES: [&str; 12] = [
    "syn_sent",
    "syn_recv",
    "established",
    "fin_wait",
    "close_wait",
    "last_ack",
    "time_wait",
    "close",
    "udp",
    "udp_stream",
    "icmp",
    "other",
];
const ESTABLISHED: usize = 2;
const UDP: usize = 8;
const UDP_STREAM: usize = 9;
const ICMP: usize = 10;
const OTHER: usize = 11;

/// An established flow without a packet for this long is idle, seconds. Keepalive probes
/// come after two hours.
pub const IDLE: u64 = 86_400;
/// What is left to a flow whose packets are not acknowledged is no more than this,
/// whenever the last came, seconds (net/netfilter/nf_conntrack_proto_tcp.c:tcp_timeouts).
const UNANSWERED: u64 = 300;

/// Entries that are looked at. They lie in the order of a hash with a secret key
/// (nf_conntrack_core.c:hash_conntrack_raw), so that the first are like the others.
const MOST: usize = 65_536;

/// What a look found of the table, or of as much of it as was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Entries that were looked at.
    pub looked_at: u64,
    /// Of those how many are in which state, in the order of [`STATES`].
    pub states: [u64; STATES.len()],
    /// Of those the established ones that are idle; `None` where the timeout is not known.
    pub idle: Option<u64>,
}

impl Tracked {
    /// Adds IPCTNL_MSG_CT_NEW messages, one a flow. `timeout` is that of established ones.
    ///
    /// # Errors
    /// A message that is cut.
    pub fn add(&mut self, bytes: &[u8], timeout: Option<u64>) -> std::result::Result<(), Malformed> {
        for message in messages(bytes) {
            // struct nfgenmsg is 4 bytes.
            let flow = Flow::of(message?.attributes(4));
            let state = flow.state();
            self.looked_at += 1;
            self.states[state] += 1;
            if let (Some(timeout), ESTABLISHED) = (timeout, state) {
                let idle = flow.left.is_some_and(|left| left > UNANSWERED && left + IDLE <= timeout);
                *self.idle.get_or_insert(0) += u64::from(idle);
            }
        }
        Ok(())
    }
}

/// What is of interest in one entry.
#[derive(Default)]
struct Flow {
    protocol: Option<u8>,
    tcp_state: Option<u8>,
    status: u32,
    /// Seconds until it is forgotten.
    left: Option<u64>,
}

impl Flow {
    fn of<'a>(attributes: impl Iterator<Item = Attribute<'a>>) -> Self {
        const CTA_TUPLE_ORIG: u16 = 1;
        const CTA_STATUS: u16 = 3;
        const CTA_PROTOINFO: u16 = 4;
        const CTA_TIMEOUT: u16 = 7;
        const CTA_TUPLE_PROTO: u16 = 2;
        const CTA_PROTO_NUM: u16 = 1;
        const CTA_PROTOINFO_TCP: u16 = 1;
        const CTA_PROTOINFO_TCP_STATE: u16 = 1;
        let mut flow = Self::default();
        for attribute in attributes {
            match attribute.kind {
                CTA_TUPLE_ORIG => flow.protocol = byte_in(attribute, CTA_TUPLE_PROTO, CTA_PROTO_NUM),
                CTA_PROTOINFO => {
                    flow.tcp_state = byte_in(attribute, CTA_PROTOINFO_TCP, CTA_PROTOINFO_TCP_STATE);
                }
                CTA_STATUS => flow.status = be32_at(attribute.value, 0).unwrap_or_default(),
                CTA_TIMEOUT => flow.left = be32_at(attribute.value, 0).map(u64::from),
                _ => {}
            }
        }
        flow
    }

    /// Its place in [`STATES`].
    fn state(&self) -> usize {
        const IPPROTO_ICMP: u8 = 1;
        const IPPROTO_TCP: u8 = 6;
        const IPPROTO_UDP: u8 = 17;
        const IPPROTO_ICMPV6: u8 = 58;
        /// UDP has the longer timeout from then on (nf_conntrack_proto_udp.c).
        const IPS_ASSURED: u32 = 1 << 2;
        match self.protocol {
            // enum tcp_conntrack: TCP_CONNTRACK_SYN_SENT is 1. What is offloaded has no state.
            Some(IPPROTO_TCP) => match self.tcp_state {
                Some(state @ 1..=8) => usize::from(state) - 1,
                _ => OTHER,
            },
            Some(IPPROTO_UDP) if self.status & IPS_ASSURED != 0 => UDP_STREAM,
            Some(IPPROTO_UDP) => UDP,
            Some(IPPROTO_ICMP | IPPROTO_ICMPV6) => ICMP,
            _ => OTHER,
        }
    }
}

/// A byte in an attribute of an attribute.
fn byte_in(attribute: Attribute<'_>, outer: u16, inner: u16) -> Option<u8> {
    let outer = attribute.nested().find(|nested| nested.kind == outer)?;
    outer.nested().find(|nested| nested.kind == inner)?.value.first().copied()
}

/// Looks at the table of this namespace, at the first of it where it is large.
///
/// # Errors
/// Not permitted without CAP_NET_ADMIN; absent where the kernel has no ctnetlink.
pub fn read(kernel: &mut Kernel) -> Result<Tracked> {
    let timeout = sysctl::read_unsigned(kernel, "net/netfilter/nf_conntrack_tcp_timeout_established")?;
    let timeout = timeout.map(|[seconds]| seconds);
    let mut tracked = Tracked { idle: timeout.map(|_| 0), ..Tracked::default() };
    let scope = Scope { most: Some(MOST), ..Scope::default() };
    kernel.walk(Request::ConntrackEntries, scope, |bytes| tracked.add(bytes, timeout))?;
    Ok(tracked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// NLA_F_NESTED
    const NESTED: u16 = 0x8000;

    /// A flow as the kernel lays it out, without addresses.
    fn flow(protocol: u8, tcp_state: Option<u8>, status: u32, left: u32) -> Vec<u8> {
        let number = attribute(1, &[protocol]);
        let mut body = vec![2, 0, 0, 0];
        body.extend(attribute(NESTED | 1, &attribute(NESTED | 2, &number)));
        body.extend(attribute(3, &status.to_be_bytes()));
        body.extend(attribute(7, &left.to_be_bytes()));
        if let Some(state) = tcp_state {
            let state = attribute(NESTED | 1, &attribute(1, &[state]));
            body.extend(attribute(NESTED | 4, &state));
        }
        let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend([0; 12]);
        message.extend(body);
        message
    }

    fn counts(tracked: &Tracked) -> Vec<(&str, u64)> {
        let all = STATES.into_iter().zip(tracked.states);
        all.filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn flows_are_counted_by_what_their_timeout_goes_by() {
        let bytes = [
            flow(6, Some(3), 0x8e, 100),
            flow(6, Some(3), 0x8e, 100),
            flow(6, Some(5), 0x8e, 3000),
            // Offloaded to a device: no state.
            flow(6, None, 0x40_8e, 0),
            flow(6, Some(9), 0x8, 100),
            flow(17, None, 0x8, 20),
            flow(17, None, 0xe, 100),
            flow(58, None, 0x8, 20),
            flow(47, None, 0x8, 20),
        ]
        .concat();
        let mut tracked = Tracked::default();
        tracked.add(&bytes, None).unwrap();
        let expected =
            [("established", 2), ("close_wait", 1), ("udp", 1), ("udp_stream", 1), ("icmp", 1), ("other", 3)];
        assert_eq!((counts(&tracked), tracked.looked_at), (expected.to_vec(), 9));
        assert_eq!(tracked.idle, None, "the timeout is not known");
        assert!(tracked.add(&bytes[..bytes.len() - 1], None).is_err());
    }

    #[test]
    fn an_established_flow_is_idle_after_a_day_without_a_packet() {
        let idle = |state: u8, left: u32, timeout: u64| {
            let mut tracked = Tracked::default();
            tracked.add(&flow(6, Some(state), 0x8e, left), Some(timeout)).unwrap();
            tracked.idle
        };
        // Five days, of which 345,600 s are left after one.
        assert_eq!(idle(3, 345_600, 432_000), Some(1));
        assert_eq!(idle(3, 345_601, 432_000), Some(0));
        // 300 s are left to one whose packets nobody acknowledges, since just now perhaps.
        assert_eq!(idle(3, 300, 432_000), Some(0));
        assert_eq!(idle(3, 301, 432_000), Some(1));
        // Nothing can be idle for a day and be remembered.
        assert_eq!(idle(3, 1, 3600), Some(0));
        // A timeout that was shortened since.
        assert_eq!(idle(3, 400_000, 86_400), Some(0));
        assert_eq!(idle(5, 1000, 432_000), None, "not established");
    }
}
