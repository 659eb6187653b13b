//! TCP connections by sock_diag: every state but LISTEN. Those in TIME_WAIT, whose
//! number sockstat tells for nothing, only where they are asked for. A FIN_WAIT2
//! that no program holds is, in the kernel, one of those too, and is counted as both.

use std::net::IpAddr;

use super::{Family, sockstat};
use crate::kernel::netlink::messages;
use crate::kernel::sock_diag::{Attributes, Scope, Socket};
use crate::kernel::{Kernel, Malformed, Request, Result};

/// State of a connection (include/net/tcp_states.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kernel's names")]
pub enum State {
    Established,
    SynSent,
    SynRecv,
    FinWait1,
    FinWait2,
    CloseWait,
    LastAck,
    Closing,
    TimeWait,
}

impl State {
    /// All that are counted here.
    pub const ALL: [Self; 8] = [
        Self::Established,
        Self::SynSent,
        Self::SynRecv,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
        Self::LastAck,
        Self::Closing,
    ];

    /// The kernel's name in lower case, without `TCP_`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::SynSent => "syn_sent",
            Self::SynRecv => "syn_recv",
            Self::FinWait1 => "fin_wait1",
            Self::FinWait2 => "fin_wait2",
            Self::CloseWait => "close_wait",
            Self::LastAck => "last_ack",
            Self::Closing => "closing",
            Self::TimeWait => "time_wait",
        }
    }

    /// From `idiag_state`.
    fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Established),
            2 => Some(Self::SynSent),
            // Half-open requests (TCP_NEW_SYN_RECV, 12) are sent as 3
            // (net/ipv4/inet_diag.c:inet_req_diag_fill).
            3 => Some(Self::SynRecv),
            4 => Some(Self::FinWait1),
            5 => Some(Self::FinWait2),
            6 => Some(Self::TimeWait),
            8 => Some(Self::CloseWait),
            9 => Some(Self::LastAck),
            11 => Some(Self::Closing),
            _ => None,
        }
    }
}

/// What a connection waits for until its timer expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// An acknowledgement; else it sends again.
    Retransmission,
    /// A sign of life, or the end of FIN_WAIT2.
    Keepalive,
    /// The end of TIME_WAIT.
    TimeWait,
    /// The peer's window to open.
    WindowProbe,
}

impl Timer {
    /// From `idiag_timer`.
    fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Retransmission),
            2 => Some(Self::Keepalive),
            3 => Some(Self::TimeWait),
            4 => Some(Self::WindowProbe),
            _ => None,
        }
    }
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its state.
    pub state: State,
    /// The timer that runs, and the milliseconds until it expires.
    pub timer: Option<(Timer, u32)>,
    /// Local address.
    pub address: IpAddr,
    /// Local port.
    pub port: u16,
    /// The peer's address.
    pub peer_address: IpAddr,
    /// The peer's port.
    pub peer_port: u16,
    /// Number that no other connection ever has.
    pub cookie: u64,
    /// Whether a program holds it: not before accept(), nor after close().
    pub has_owner: bool,
    /// Bytes that wait to be read.
    pub receive_queue: u32,
    /// Bytes written and not yet acknowledged.
    pub send_queue: u32,
    /// What the kernel knows of it beyond.
    pub attributes: Attributes,
}

/// Gives each connection in messages to `each`; states that a later kernel may
/// know are passed over.
///
/// # Errors
/// A message that is cut, or of another family.
pub fn walk(bytes: &[u8], mut each: impl FnMut(&Connection)) -> std::result::Result<(), Malformed> {
    for (index, message) in messages(bytes).enumerate() {
        let socket = Socket::parse(index + 1, message?)?;
        let Some(state) = State::from_number(socket.state) else { continue };
        each(&Connection {
            state,
            timer: Timer::from_number(socket.timer).map(|timer| (timer, socket.expires)),
            address: socket.address,
            port: socket.port,
            peer_address: socket.peer_address,
            peer_port: socket.peer_port,
            cookie: socket.cookie,
            has_owner: socket.inode != 0,
            receive_queue: socket.receive_queue,
            send_queue: socket.send_queue,
            attributes: socket.attributes(),
        });
    }
    Ok(())
}

/// Gives every connection of the namespace, of one family and within `scope`, to
/// `each`. Where sockstat counts no socket of the family there is no walk: it
/// would pass every socket of the whole kernel.
pub fn read(
    kernel: &mut Kernel,
    family: Family,
    scope: Scope<'_>,
    mut each: impl FnMut(&Connection),
) -> Result<()> {
    // Those in TIME_WAIT over IPv6 are nowhere in sockstat6.
    if !scope.time_wait && sockstat::has_none(kernel, "TCP", family) {
        return Ok(());
    }
    let request = match family {
        Family::V4 => Request::TcpConnections,
        Family::V6 => Request::TcpConnections6,
    };
    // A recording, or a kernel that knows no filter, answers with more.
    let wanted = |connection: &Connection| {
        (scope.time_wait || connection.state != State::TimeWait)
            && scope.filter.is_none_or(|filter| filter.passes(connection.port, connection.peer_port))
    };
    let walked = kernel.walk(request, scope, |bytes| {
        walk(bytes, |connection| {
            if wanted(connection) {
                each(connection);
            }
        })
    });
    match walked {
        // A kernel without IPv6.
        Err(error) if error.is_absent() && family == Family::V6 => Ok(()),
        walked => walked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel lays it out: 192.0.2.1:40000 to 192.0.2.2:443 in
    /// this state, with a retransmission in 9 ms.
    fn message(state: u8, tcp_info: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 16 + 72];
        bytes[16..19].copy_from_slice(&[2, state, 1]);
        bytes[20..22].copy_from_slice(&40_000u16.to_be_bytes());
        bytes[22..24].copy_from_slice(&443u16.to_be_bytes());
        bytes[24..28].copy_from_slice(&[192, 0, 2, 1]);
        bytes[40..44].copy_from_slice(&[192, 0, 2, 2]);
        bytes[60..68].copy_from_slice(&77u64.to_ne_bytes());
        bytes[68..72].copy_from_slice(&9u32.to_ne_bytes());
        bytes[72..76].copy_from_slice(&11u32.to_ne_bytes());
        bytes[76..80].copy_from_slice(&12u32.to_ne_bytes());
        bytes[84..88].copy_from_slice(&5u32.to_ne_bytes());
        for (kind, value) in [(2u16, tcp_info), (4, b"cubic\0"), (22, &[0, 1]), (21, &8u64.to_ne_bytes())] {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    fn found(bytes: &[u8]) -> Vec<Connection> {
        let mut found = Vec::new();
        walk(bytes, |connection| found.push(connection.clone())).unwrap();
        found
    }

    #[test]
    fn connections_are_walked_and_strange_states_passed_over() {
        let mut info = [0; 232];
        info[68..72].copy_from_slice(&1500u32.to_ne_bytes());
        info[148..152].copy_from_slice(&900u32.to_ne_bytes());
        let bytes = [message(1, &info), message(10, &[]), message(13, &[]), message(6, &[])].concat();
        let found = found(&bytes);
        assert_eq!(found.len(), 2);
        let connection = Connection { attributes: Attributes::default(), ..found[0].clone() };
        let expected = Connection {
            state: State::Established,
            timer: Some((Timer::Retransmission, 9)),
            address: "192.0.2.1".parse().unwrap(),
            port: 40_000,
            peer_address: "192.0.2.2".parse().unwrap(),
            peer_port: 443,
            cookie: 77,
            has_owner: true,
            receive_queue: 11,
            send_queue: 12,
            attributes: Attributes::default(),
        };
        assert_eq!(connection, expected);
        let Attributes { info, algorithm, memory, cgroup, bind_address_no_port, .. } = found[0].attributes;
        assert_eq!(info.map(|info| (info.rtt, info.min_rtt)), Some((Some(1500), Some(900))));
        assert_eq!(algorithm, Some(*b"cubic\0\0\0\0\0\0\0\0\0\0\0"));
        assert_eq!((memory, cgroup, bind_address_no_port), (None, Some(8), Some(true)));
        assert_eq!((found[1].state, found[1].attributes.info), (State::TimeWait, None));
    }

    #[test]
    fn a_short_tcp_info_loses_no_connection() {
        let mut info = [0; 104];
        info[68..72].copy_from_slice(&1500u32.to_ne_bytes());
        let info = found(&message(1, &info))[0].attributes.info.unwrap();
        assert_eq!((info.rtt, info.min_rtt), (Some(1500), None));
        assert_eq!(found(&message(1, &[0; 103]))[0].attributes.info, None);
    }
}
