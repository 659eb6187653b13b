//! sock_diag (include/uapi/linux/inet_diag.h, sock_diag.h, 5.10-6.18): requests,
//! and a borrowed view of `struct inet_diag_msg`.

mod tcp_info;

use std::net::{IpAddr, Ipv6Addr};

use netlink_packet_core::Emitable;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, SOCK_DIAG_BY_FAMILY};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};

use super::netlink::{Attribute, Message, array_at, u32_at, u64_at};
use super::{Malformed, Request};

pub use tcp_info::TcpInfo;

/// Message type and payload of a request to sock_diag; `None` for others.
pub(super) fn dump(request: Request) -> Option<(u16, Vec<u8>)> {
    let (family, socket_id) = match request {
        Request::TcpListeners | Request::TcpConnections => (AF_INET, SocketId::new_v4()),
        Request::TcpListeners6 | Request::TcpConnections6 => (AF_INET6, SocketId::new_v6()),
        _ => return None,
    };
    let (states, extensions) = match request {
        Request::TcpListeners | Request::TcpListeners6 => (StateFlags::LISTEN, ExtensionFlags::SKMEMINFO),
        _ => (connected(), ExtensionFlags::INFO),
    };
    let request = InetRequest { family, protocol: IPPROTO_TCP, extensions, states, socket_id };
    let mut payload = vec![0; request.buffer_len()];
    request.emit(&mut payload);
    Some((SOCK_DIAG_BY_FAMILY, payload))
}

/// Every state of a connection but TIME_WAIT, of which there may be hundreds of
/// thousands and which holds nothing but its ports.
fn connected() -> StateFlags {
    StateFlags::all() - StateFlags::LISTEN - StateFlags::TIME_WAIT - StateFlags::CLOSE
}

/// Size of `struct inet_diag_msg`.
const INET_DIAG_MSG: usize = 72;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// Index into the numbers of INET_DIAG_SKMEMINFO (enum in sock_diag.h).
const SK_MEMINFO_DROPS: usize = 8;

/// One socket, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Socket<'a> {
    /// `idiag_state`, as in include/net/tcp_states.h.
    pub state: u8,
    /// Local address, `idiag_src`.
    pub address: IpAddr,
    /// Local port, `idiag_sport`.
    pub port: u16,
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

impl<'a> Socket<'a> {
    /// `number` counts the messages of a dump, for the error.
    ///
    /// # Errors
    /// Less bytes than the struct has, or a family other than IPv4 and IPv6.
    pub fn parse(number: usize, message: Message<'a>) -> Result<Self, Malformed> {
        // struct inet_diag_msg { u8 family, state, timer, retrans;
        //   struct inet_diag_sockid { be16 sport, dport; be32 src[4], dst[4]; u32 if, cookie[2]; } id;
        //   u32 expires, rqueue, wqueue, uid, inode; }
        let bytes = message.payload;
        let parse = || {
            let source: [u8; 16] = array_at(bytes, 8)?;
            let [a, b, c, d, ..] = source;
            let address = match *bytes.first()? {
                AF_INET => IpAddr::from([a, b, c, d]),
                AF_INET6 => Ipv6Addr::from(source).into(),
                _ => return None,
            };
            Some(Self {
                state: *bytes.get(1)?,
                address,
                port: u16::from_be_bytes(array_at(bytes, 4)?),
                cookie: u64_at(bytes, 44)?,
                receive_queue: u32_at(bytes, 56)?,
                send_queue: u32_at(bytes, 60)?,
                inode: u32_at(bytes, 68)?,
                message,
            })
        };
        parse()
            .filter(|_| bytes.len() >= INET_DIAG_MSG)
            .ok_or_else(|| Malformed::new(number, "struct inet_diag_msg", "72 bytes of IPv4 or IPv6", bytes))
    }

    /// Packets dropped at the socket (`sk_drops`), of a listener connection
    /// attempts and stray packets; `None` where the kernel does not send it (before 4.7).
    pub fn drops(&self) -> Option<u32> {
        let memory = self.attributes().find(|attribute| attribute.kind == INET_DIAG_SKMEMINFO)?;
        u32_at(memory.value, 4 * SK_MEMINFO_DROPS)
    }

    /// What TCP knows of the connection; `None` for half-open ones.
    pub fn tcp_info(&self) -> Option<TcpInfo<'a>> {
        let info = self.attributes().find(|attribute| attribute.kind == INET_DIAG_INFO)?;
        Some(TcpInfo::new(info.value))
    }

    fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        self.message.attributes(INET_DIAG_MSG)
    }
}
