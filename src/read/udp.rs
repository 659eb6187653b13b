//! UDP sockets by sock_diag, and the parameters that give them their buffers.

use std::net::IpAddr;

use super::{Family, listeners, sockstat, sysctl};
use crate::kernel::netlink::messages;
use crate::kernel::sock_diag;
use crate::kernel::{Kernel, Malformed, Request, Result};

/// One bound UDP socket. Several may share address and port (`SO_REUSEPORT`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// Local address; unspecified for all.
    pub address: IpAddr,
    /// Local port.
    pub port: u16,
    /// Number that no other socket ever has.
    pub cookie: u64,
    /// Memory taken by datagrams that wait to be read, bytes, overhead included
    /// (`sk_rmem_alloc`).
    pub rmem_alloc: u32,
    /// Most of it, bytes (`sk_rcvbuf`): what arrives beyond is dropped
    /// (net/ipv4/udp.c:__udp_enqueue_schedule_skb).
    pub rcvbuf: u32,
    /// Datagrams dropped here (`sk_drops`).
    pub drops: Option<u32>,
}

/// What a buffer's size is compared with; `None` where the key is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// `net.core.rmem_default`, bytes: the buffer of a socket that asks for none.
    pub rmem_default: Option<u64>,
    /// `net.core.rmem_max`, bytes: the most that SO_RCVBUF is taken for. The
    /// buffer is twice that (net/core/sock.c:__sock_set_rcvbuf).
    pub rmem_max: Option<u64>,
    /// `net.ipv4.ip_local_port_range`: first and last.
    pub port_range: Option<[u64; 2]>,
    /// `net.ipv4.ip_local_reserved_ports`: first and last of each range.
    pub reserved: Vec<[u16; 2]>,
}

/// Adds the sockets of messages to `found`; those whose memory the kernel does not
/// tell are passed over.
///
/// # Errors
/// A message that is cut, or of another family.
pub fn parse(found: &mut Vec<Socket>, bytes: &[u8]) -> std::result::Result<(), Malformed> {
    for (index, message) in messages(bytes).enumerate() {
        let socket = sock_diag::Socket::parse(index + 1, message?)?;
        let Some(memory) = socket.attributes().memory else { continue };
        found.push(Socket {
            address: socket.address,
            port: socket.port,
            cookie: socket.cookie,
            rmem_alloc: memory.rmem_alloc,
            rcvbuf: memory.rcvbuf,
            drops: memory.drops,
        });
    }
    Ok(())
}

/// Every UDP socket of the namespace. A kernel without IPv6 has none of that
/// family, and where sockstat counts none there is no walk.
pub fn read(kernel: &mut Kernel) -> Result<Vec<Socket>> {
    let mut found = Vec::new();
    for (family, request) in Family::BOTH.into_iter().zip([Request::UdpSockets, Request::UdpSockets6]) {
        if sockstat::has_none(kernel, "UDP", family) {
            continue;
        }
        match kernel.ask(request, parse) {
            Ok(mut more) => found.append(&mut more),
            Err(error) if error.is_absent() && family == Family::V6 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The parameters, each on its own: one key that is absent or cannot be understood
/// hides no other.
///
/// # Errors
/// The first key that exists and cannot be read or understood.
pub fn read_bounds(kernel: &mut Kernel) -> (Bounds, Result<()>) {
    let mut bounds = Bounds::default();
    let default = sysctl::read_unsigned(kernel, "net/core/rmem_default");
    let default = default.map(|value| bounds.rmem_default = value.map(|[value]| value));
    let max = sysctl::read_unsigned(kernel, "net/core/rmem_max");
    let max = max.map(|value| bounds.rmem_max = value.map(|[value]| value));
    let range = sysctl::read_unsigned(kernel, "net/ipv4/ip_local_port_range");
    let range = range.map(|value| bounds.port_range = value);
    let reserved = listeners::read_reserved(kernel).map(|ports| bounds.reserved = ports);
    (bounds, default.and(max).and(range).and(reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel lays it out: [::1]:53, with these memory figures.
    fn message(memory: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 16 + 72];
        bytes[16..18].copy_from_slice(&[10, 7]);
        bytes[20..22].copy_from_slice(&53u16.to_be_bytes());
        bytes[39] = 1;
        bytes[60..68].copy_from_slice(&77u64.to_ne_bytes());
        bytes.extend((4 + 4 * memory.len() as u16).to_ne_bytes());
        bytes.extend(7u16.to_ne_bytes());
        bytes.extend(memory.iter().flat_map(|number| number.to_ne_bytes()));
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_socket_is_read_by_offset() {
        let mut found = Vec::new();
        parse(&mut found, &message(&[211_968, 212_992, 0, 9, 1024, 0, 0, 0, 1908])).unwrap();
        let expected = Socket {
            address: "::1".parse().unwrap(),
            port: 53,
            cookie: 77,
            rmem_alloc: 211_968,
            rcvbuf: 212_992,
            drops: Some(1908),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_not_zero() {
        let mut found = Vec::new();
        parse(&mut found, &message(&[1, 2, 0, 9, 0, 0, 0, 0])).unwrap();
        assert_eq!((found.len(), found[0].drops), (1, None));
        found.clear();
        parse(&mut found, &message(&[1])).unwrap();
        assert_eq!(found, []);
    }

    #[test]
    fn a_cut_message_says_so() {
        let mut cut = message(&[])[..80].to_vec();
        cut[..4].copy_from_slice(&80u32.to_ne_bytes());
        assert_eq!(parse(&mut Vec::new(), &cut).unwrap_err().item, "struct inet_diag_msg");
    }
}
