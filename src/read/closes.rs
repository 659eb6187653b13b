//! Connections that are gone, as the notifications of sock_diag tell
//! (net/core/sock_diag.c:sock_diag_broadcast_destroy_work, 5.10-6.18): addresses,
//! cookie and the last tcp_info, without name of the algorithm, memory or inode.

use std::net::IpAddr;

use crate::kernel::Malformed;
use crate::kernel::netlink::messages;
use crate::kernel::sock_diag::{Socket, TcpInfo};

/// A connection that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// Local address.
    pub address: IpAddr,
    /// Local port.
    pub port: u16,
    /// The peer's address.
    pub peer_address: IpAddr,
    /// The peer's port.
    pub peer_port: u16,
    /// Number that no other connection ever has; the dumps' one.
    pub cookie: u64,
    /// Its counters at the end.
    pub info: TcpInfo,
}

/// Gives each connection in notifications to `each`.
///
/// Without a peer's port are listeners, sockets that never connected, and
/// connections that we ended by a reset of SO_LINGER 0, of which the kernel has
/// cleared all counters already (net/ipv4/tcp.c:tcp_disconnect). They are passed
/// over, as is what has no tcp_info.
///
/// # Errors
/// A message that is cut, or of another family.
pub fn walk(bytes: &[u8], mut each: impl FnMut(Closed)) -> Result<(), Malformed> {
    for (index, message) in messages(bytes).enumerate() {
        let socket = Socket::parse(index + 1, message?)?;
        if socket.peer_port == 0 {
            continue;
        }
        let Some(info) = socket.attributes().info else { continue };
        each(Closed {
            address: socket.address,
            port: socket.port,
            peer_address: socket.peer_address,
            peer_port: socket.peer_port,
            cookie: socket.cookie,
            info,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A notification as 6.18 sends it: [2001:db8::1]:443 to [2001:db8::2]:40000,
    /// 7,000 bytes sent.
    fn notification() -> Vec<u8> {
        let mut bytes = vec![0; 16 + 72];
        bytes[4] = 20;
        bytes[16..18].copy_from_slice(&[10, 7]);
        bytes[20..22].copy_from_slice(&443u16.to_be_bytes());
        bytes[22..24].copy_from_slice(&40_000u16.to_be_bytes());
        for (start, last) in [(24, 1), (40, 2)] {
            bytes[start..start + 4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
            bytes[start + 15] = last;
        }
        bytes[60..68].copy_from_slice(&(1u64 << 40).to_ne_bytes());
        // INET_DIAG_PROTOCOL, then INET_DIAG_INFO
        bytes.extend(5u16.to_ne_bytes());
        bytes.extend(10u16.to_ne_bytes());
        bytes.extend([6, 0, 0, 0]);
        let mut info = [0; 280];
        info[200..208].copy_from_slice(&7000u64.to_ne_bytes());
        bytes.extend(284u16.to_ne_bytes());
        bytes.extend(2u16.to_ne_bytes());
        bytes.extend(info);
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    fn found(bytes: &[u8]) -> Vec<Closed> {
        let mut found = Vec::new();
        walk(bytes, |closed| found.push(closed)).unwrap();
        found
    }

    #[test]
    fn a_notification_is_read_by_offset() {
        assert_eq!(notification().len(), 380);
        let [closed] = found(&notification())[..] else { panic!("one") };
        assert_eq!((closed.address, closed.port), ("2001:db8::1".parse().unwrap(), 443));
        assert_eq!((closed.peer_address, closed.peer_port), ("2001:db8::2".parse().unwrap(), 40_000));
        assert_eq!((closed.cookie, closed.info.bytes_sent), (1 << 40, Some(7000)));
    }

    #[test]
    fn what_is_no_connection_is_passed_over_and_what_is_cut_is_not() {
        let mut listener = notification();
        listener[22..24].fill(0);
        assert_eq!(found(&[listener, notification()].concat()).len(), 1);
        let mut short = notification()[..88].to_vec();
        short[..4].copy_from_slice(&88u32.to_ne_bytes());
        assert_eq!(found(&short), []);
        short.truncate(84);
        short[..4].copy_from_slice(&84u32.to_ne_bytes());
        assert_eq!(walk(&short, |_| ()).unwrap_err().item, "struct inet_diag_msg");
    }
}
