//! TCP connections by sock_diag: every state but LISTEN, and TIME_WAIT, whose
//! number sockstat tells for nothing. A FIN_WAIT2 that no program holds is, in
//! the kernel, one of those too, and is counted as both.

use std::net::IpAddr;

use super::{Family, sockstat};
use crate::kernel::netlink::messages;
use crate::kernel::sock_diag::Socket;
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
}

impl State {
    /// All of them.
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
            8 => Some(Self::CloseWait),
            9 => Some(Self::LastAck),
            11 => Some(Self::Closing),
            _ => None,
        }
    }
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its state.
    pub state: State,
    /// Local address.
    pub address: IpAddr,
    /// Local port.
    pub port: u16,
    /// Number that no other connection ever has.
    pub cookie: u64,
    /// Whether a program holds it: not before accept(), nor after close().
    pub has_owner: bool,
    /// Smoothed round trip time, microseconds.
    pub rtt: Option<u32>,
    /// Least round trip time of the last minutes, microseconds.
    pub min_rtt: Option<u32>,
    /// Milliseconds since data was last sent, or the connection made.
    pub last_data_sent: Option<u32>,
    /// Milliseconds since the last acknowledgement came.
    pub last_ack_received: Option<u32>,
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
        let info = socket.tcp_info();
        each(&Connection {
            state,
            address: socket.address,
            port: socket.port,
            cookie: socket.cookie,
            has_owner: socket.inode != 0,
            rtt: info.and_then(|info| info.rtt()),
            min_rtt: info.and_then(|info| info.min_rtt()),
            last_data_sent: info.and_then(|info| info.last_data_sent()),
            last_ack_received: info.and_then(|info| info.last_ack_received()),
        });
    }
    Ok(())
}

/// Folds every connection of the namespace and one family into a value. Where
/// sockstat counts no socket of the family there is no walk: it would pass every
/// socket of the whole kernel.
pub fn read<T: Default>(
    kernel: &mut Kernel,
    family: Family,
    mut each: impl FnMut(&mut T, &Connection),
) -> Result<T> {
    let (request, in_use) = match family {
        Family::V4 => {
            (Request::TcpConnections, sockstat::read(kernel).map(|found| found.get("TCP", "inuse")))
        }
        Family::V6 => {
            (Request::TcpConnections6, sockstat::read6(kernel).map(|found| found.get("TCP6", "inuse")))
        }
    };
    match in_use {
        Ok(Some(0)) => return Ok(T::default()),
        // A kernel without IPv6.
        Err(error) if error.is_absent() && family == Family::V6 => return Ok(T::default()),
        // What is not known is looked at.
        Ok(_) | Err(_) => {}
    }
    kernel.ask(request, |value: &mut T, bytes| walk(bytes, |connection| each(value, connection)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel lays it out: 192.0.2.1:40000 in this state.
    fn message(state: u8, tcp_info: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 16 + 72];
        bytes[16..18].copy_from_slice(&[2, state]);
        bytes[20..22].copy_from_slice(&40_000u16.to_be_bytes());
        bytes[24..28].copy_from_slice(&[192, 0, 2, 1]);
        bytes[60..68].copy_from_slice(&77u64.to_ne_bytes());
        bytes[84..88].copy_from_slice(&5u32.to_ne_bytes());
        bytes.extend((4 + tcp_info.len() as u16).to_ne_bytes());
        bytes.extend(2u16.to_ne_bytes());
        bytes.extend(tcp_info);
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
        let bytes = [message(1, &info), message(10, &[]), message(13, &[]), message(3, &[])].concat();
        let found = found(&bytes);
        assert_eq!(found.len(), 2);
        let expected = Connection {
            state: State::Established,
            address: "192.0.2.1".parse().unwrap(),
            port: 40_000,
            cookie: 77,
            has_owner: true,
            rtt: Some(1500),
            min_rtt: Some(900),
            last_data_sent: Some(0),
            last_ack_received: Some(0),
        };
        assert_eq!(found[0], expected);
        assert_eq!((found[1].state, found[1].rtt), (State::SynRecv, None));
    }

    #[test]
    fn a_short_tcp_info_loses_no_connection() {
        let mut info = [0; 104];
        info[68..72].copy_from_slice(&1500u32.to_ne_bytes());
        let found = found(&message(1, &info));
        assert_eq!((found[0].rtt, found[0].min_rtt), (Some(1500), None));
    }
}
