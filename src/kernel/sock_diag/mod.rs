//! sock_diag (include/uapi/linux/inet_diag.h, sock_diag.h, 5.10-6.18): requests,
//! and a borrowed view of `struct inet_diag_msg`.

mod attributes;
mod closes;
mod filter;

use std::net::{IpAddr, Ipv6Addr};

use netlink_packet_core::Emitable;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, SOCK_DIAG_BY_FAMILY};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};

use super::netlink::{Message, array_at, u32_at, u64_at};
use super::{Malformed, Request};

pub use attributes::{BbrInfo, Memory, TcpInfo};
pub use closes::CloseEvents;
pub use filter::PortFilter;

/// What a dump shall give beyond, or less than, all there is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'a> {
    /// Those in TIME_WAIT as well, of which there may be hundreds of thousands.
    pub time_wait: bool,
    /// Only those whose ports pass.
    pub filter: Option<&'a PortFilter>,
    /// No more than as many messages as this and what comes in one piece with the last.
    pub most: Option<usize>,
}

/// Message type and payload of a request to sock_diag; `None` for others.
pub(super) fn dump(request: Request, scope: Scope<'_>) -> Option<(u16, Vec<u8>)> {
    let (family, socket_id) = match request {
        Request::TcpListeners | Request::TcpChosenPorts | Request::TcpConnections | Request::UdpSockets => {
            (AF_INET, SocketId::new_v4())
        }
        Request::TcpListeners6
        | Request::TcpChosenPorts6
        | Request::TcpConnections6
        | Request::UdpSockets6 => (AF_INET6, SocketId::new_v6()),
        _ => return None,
    };
    let (protocol, states, extensions) = match request {
        Request::TcpListeners | Request::TcpListeners6 => {
            (IPPROTO_TCP, StateFlags::LISTEN, ExtensionFlags::SKMEMINFO)
        }
        Request::TcpChosenPorts | Request::TcpChosenPorts6 => {
            (IPPROTO_TCP, StateFlags::LISTEN, ExtensionFlags::empty())
        }
        Request::UdpSockets | Request::UdpSockets6 => {
            (IPPROTO_UDP, StateFlags::all(), ExtensionFlags::SKMEMINFO)
        }
        // BBR answers in place of Vegas.
        _ => (
            IPPROTO_TCP,
            connected(scope.time_wait),
            ExtensionFlags::INFO
                | ExtensionFlags::VEGASINFO
                | ExtensionFlags::CONG
                | ExtensionFlags::SKMEMINFO,
        ),
    };
    let message = InetRequest { family, protocol, extensions, states, socket_id };
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload);
    if matches!(request, Request::TcpChosenPorts | Request::TcpChosenPorts6) {
        filter::emit_chosen(&mut payload);
    }
    if let Some(filter) = scope.filter {
        filter.emit(&mut payload);
    }
    Some((SOCK_DIAG_BY_FAMILY, payload))
}

/// Every state of a connection; TIME_WAIT holds nothing but its ports.
fn connected(time_wait: bool) -> StateFlags {
    let states = StateFlags::all() - StateFlags::LISTEN - StateFlags::CLOSE;
    if time_wait { states } else { states - StateFlags::TIME_WAIT }
}

/// Size of `struct inet_diag_msg`.
const INET_DIAG_MSG: usize = 72;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_BBRINFO: u16 = 16;
const INET_DIAG_CGROUP_ID: u16 = 21;
const INET_DIAG_SOCKOPT: u16 = 22;

/// Name of a congestion control algorithm, filled up with NUL (`TCP_CA_NAME_MAX`).
pub type AlgorithmName = [u8; 16];

/// One socket, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Socket<'a> {
    /// `idiag_state`, as in include/net/tcp_states.h.
    pub state: u8,
    /// What `expires` is about, `idiag_timer`: 0 nothing, 1 retransmission, 2
    /// keepalive or close, 3 TIME_WAIT, 4 window probe
    /// (net/ipv4/inet_diag.c:inet_sk_diag_fill).
    pub timer: u8,
    /// Milliseconds until the timer expires, `idiag_expires`.
    pub expires: u32,
    /// Local address, `idiag_src`.
    pub address: IpAddr,
    /// Local port, `idiag_sport`.
    pub port: u16,
    /// The peer's address, `idiag_dst`.
    pub peer_address: IpAddr,
    /// The peer's port, `idiag_dport`.
    pub peer_port: u16,
    /// Number that no other socket ever has, `idiag_cookie`; half-open ones have
    /// one too.
    pub cookie: u64,
    /// `idiag_rqueue`: connections that wait for accept() where the socket
    /// listens, else bytes that wait to be read.
    pub receive_queue: u32,
    /// `idiag_wqueue`: most that may wait for accept() where the socket listens,
    /// else bytes not yet acknowledged.
    pub send_queue: u32,
    /// `idiag_inode`: that of the file, 0 before accept() and after close().
    pub inode: u32,
    message: Message<'a>,
}

/// What the kernel adds to a socket; what it does not send is `None`. Half-open
/// connections and those in TIME_WAIT have none of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// INET_DIAG_INFO
    pub info: Option<TcpInfo>,
    /// INET_DIAG_SKMEMINFO
    pub memory: Option<Memory>,
    /// INET_DIAG_CONG
    pub algorithm: Option<AlgorithmName>,
    /// INET_DIAG_BBRINFO
    pub bbr: Option<BbrInfo>,
    /// Inode of the socket's cgroup v2 folder, INET_DIAG_CGROUP_ID (5.8).
    pub cgroup: Option<u64>,
    /// `IP_BIND_ADDRESS_NO_PORT` was set, INET_DIAG_SOCKOPT (5.10).
    pub bind_address_no_port: Option<bool>,
}

impl<'a> Socket<'a> {
    /// `number` counts the messages of a dump, for the error.
    ///
    /// # Errors
    /// Less bytes than the struct has, or a family other than IPv4 and IPv6.
    pub fn parse(number: usize, message: Message<'a>) -> Result<Self, Malformed> {
        // struct inet_diag_msg { u8 family, state, timer, retrans;
        //   struct inet_diag_sockid { be16 sport, dport; be32 src[4], dst[4]; u32 if, cookie[2]; } id;
        //   u32 expires, rqueue, wqueue, uid, inode; }
        let malformed =
            || Malformed::new(number, "struct inet_diag_msg", "72 bytes of IPv4 or IPv6", message.payload);
        // Its length known, no field needs a look whether it is there.
        let bytes: &[u8; INET_DIAG_MSG] = message.payload.first_chunk().ok_or_else(malformed)?;
        let number_at = |offset: usize| u32_at(bytes, offset).unwrap_or_default();
        let port_at = |offset: usize| u16::from_be_bytes([bytes[offset], bytes[offset + 1]]);
        let address_at = |offset: usize| address_at(bytes[0], bytes, offset).ok_or_else(malformed);
        Ok(Self {
            state: bytes[1],
            timer: bytes[2],
            expires: number_at(52),
            address: address_at(8)?,
            port: port_at(4),
            peer_address: address_at(24)?,
            peer_port: port_at(6),
            cookie: u64_at(bytes, 44).unwrap_or_default(),
            receive_queue: number_at(56),
            send_queue: number_at(60),
            inode: number_at(68),
            message,
        })
    }

    /// What follows the struct.
    #[inline(always)]
    pub fn attributes(&self) -> Attributes {
        let mut found = Attributes::default();
        for attribute in self.message.attributes(INET_DIAG_MSG) {
            let value = attribute.value;
            match attribute.kind {
                INET_DIAG_INFO => found.info = TcpInfo::parse(value),
                INET_DIAG_SKMEMINFO => found.memory = Memory::parse(value),
                INET_DIAG_CONG => found.algorithm = Some(algorithm(value)),
                INET_DIAG_BBRINFO => found.bbr = BbrInfo::parse(value),
                INET_DIAG_CGROUP_ID => found.cgroup = u64_at(value, 0),
                INET_DIAG_SOCKOPT => {
                    found.bind_address_no_port = value.get(1).map(|bits| bits & BIND_ADDRESS_NO_PORT != 0);
                }
                _ => {}
            }
        }
        found
    }
}

/// The first of the bit fields in the second byte of `struct inet_diag_sockopt`.
const BIND_ADDRESS_NO_PORT: u8 = if cfg!(target_endian = "big") { 0x80 } else { 1 };

fn address_at(family: u8, bytes: &[u8], offset: usize) -> Option<IpAddr> {
    let all: [u8; 16] = array_at(bytes, offset)?;
    match family {
        AF_INET => Some(IpAddr::from([all[0], all[1], all[2], all[3]])),
        AF_INET6 => Some(Ipv6Addr::from(all).into()),
        _ => None,
    }
}

fn algorithm(value: &[u8]) -> AlgorithmName {
    let mut name = AlgorithmName::default();
    let end = value.iter().take(name.len()).position(|byte| *byte == 0);
    let end = end.unwrap_or(value.len().min(name.len()));
    name[..end].copy_from_slice(&value[..end]);
    name
}
