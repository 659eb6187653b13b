//! Listening TCP sockets by sock_diag, and the parameters of the namespace that
//! bound them.

use std::collections::HashSet;
use std::net::IpAddr;

use super::sysctl;
use crate::kernel::netlink::messages;
use crate::kernel::sock_diag::Socket;
use crate::kernel::{Kernel, Malformed, Request, Result};

/// One listening socket. Several may share address and port (`SO_REUSEPORT`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Local address; unspecified for all.
    pub address: IpAddr,
    /// Local port.
    pub port: u16,
    /// Number that no other socket ever has.
    pub cookie: u64,
    /// Connections that wait for accept() (`sk_ack_backlog`).
    pub queue: u32,
    /// What listen() was given, at most somaxconn of that moment
    /// (`sk_max_ack_backlog`). One more may wait: the queue is full when it is
    /// longer (include/net/sock.h:sk_acceptq_is_full).
    pub limit: u32,
    /// Connection attempts and stray packets dropped here (`sk_drops`).
    pub drops: Option<u32>,
    /// Inode number of the cgroup v2 folder it was made in.
    pub cgroup: Option<u64>,
    /// Inode number of the socket's file; 0 where no program holds it.
    pub inode: u32,
    /// Nobody named its port to bind(): the next socket gets another one. Known of those
    /// in the range that connections get theirs from.
    pub port_was_chosen: bool,
}

/// What bounds listeners in this namespace; `None` where the key is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// `net.core.somaxconn`
    pub somaxconn: Option<u64>,
    /// The same before its last change, where that came before the exporter; the kernel
    /// does not tell it.
    pub earlier_somaxconn: Option<u64>,
    /// `net.ipv4.ip_local_port_range`: first and last.
    pub port_range: Option<[u64; 2]>,
    /// `net.ipv4.ip_local_reserved_ports`: first and last of each range.
    pub reserved: Vec<[u16; 2]>,
}

impl Bounds {
    /// Whether the kernel gives this port to connections; `None` where the range is
    /// unknown.
    pub fn gives(&self, port: u16) -> Option<bool> {
        let [first, last] = self.port_range?;
        let reserved = self.reserved.iter().any(|[first, last]| (first..=last).contains(&&port));
        Some((first..=last).contains(&port.into()) && !reserved)
    }
}

/// Adds the sockets of messages to `found`.
///
/// # Errors
/// A message that is cut, or of another family.
pub fn parse(found: &mut Vec<Listener>, bytes: &[u8]) -> std::result::Result<(), Malformed> {
    for (index, message) in messages(bytes).enumerate() {
        let socket = Socket::parse(index + 1, message?)?;
        let attributes = socket.attributes();
        found.push(Listener {
            address: socket.address,
            port: socket.port,
            cookie: socket.cookie,
            queue: socket.receive_queue,
            limit: socket.send_queue,
            drops: attributes.memory.and_then(|memory| memory.drops),
            cgroup: attributes.cgroup,
            inode: socket.inode,
            port_was_chosen: false,
        });
    }
    Ok(())
}

/// Parses a list of ports and ranges of them: `8080,9148-9150`
/// (kernel/sysctl.c:proc_do_large_bitmap).
///
/// # Errors
/// Anything that is not a port.
pub fn parse_ports(bytes: &[u8]) -> std::result::Result<Vec<[u16; 2]>, Malformed> {
    let text = sysctl::parse_text(bytes)?;
    let ranges = text.split(',').filter(|range| !range.is_empty()).map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) => Ok([first, last]),
            _ => Err(Malformed::new(1, "ports", "a port, or two with a dash between", range.as_bytes())),
        }
    });
    ranges.collect()
}

/// Every listening socket of the namespace. A kernel without IPv6 has none of
/// that family.
pub fn read(kernel: &mut Kernel) -> Result<Vec<Listener>> {
    let mut found = kernel.ask(Request::TcpListeners, parse)?;
    match kernel.ask(Request::TcpListeners6, parse) {
        Ok(mut more) => found.append(&mut more),
        Err(error) if error.is_absent() => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// Marks those whose port the kernel chose, of those whose port it also gives to
/// connections.
///
/// # Errors
/// The kernel does not answer, or not as expected.
pub fn mark_chosen(kernel: &mut Kernel, found: &mut [Listener], bounds: &Bounds) -> Result<()> {
    if !found.iter().any(|listener| bounds.gives(listener.port) == Some(true)) {
        return Ok(());
    }
    for request in [Request::TcpChosenPorts, Request::TcpChosenPorts6] {
        let chosen = match kernel.ask(request, parse) {
            Err(error) if error.is_absent() => continue,
            other => other?,
        };
        let cookies: HashSet<u64> = chosen.iter().map(|listener| listener.cookie).collect();
        for listener in found.iter_mut() {
            listener.port_was_chosen |= cookies.contains(&listener.cookie);
        }
    }
    Ok(())
}

/// `net.ipv4.ip_local_reserved_ports`; none where the key does not exist.
pub fn read_reserved(kernel: &mut Kernel) -> Result<Vec<[u16; 2]>> {
    match kernel.parse_value("net/ipv4/ip_local_reserved_ports", |bytes, _| parse_ports(bytes)) {
        Err(error) if error.is_absent() => Ok(Vec::new()),
        other => other,
    }
}

/// The parameters that bound them, each on its own: one key that is absent or
/// cannot be understood hides no other.
///
/// # Errors
/// The first key that exists and cannot be read or understood.
pub fn read_bounds(kernel: &mut Kernel) -> (Bounds, Result<()>) {
    let mut bounds = Bounds::default();
    let somaxconn = sysctl::read_unsigned(kernel, "net/core/somaxconn");
    let somaxconn = somaxconn.map(|value| bounds.somaxconn = value.map(|[value]| value));
    let range = sysctl::read_unsigned(kernel, "net/ipv4/ip_local_port_range");
    let range = range.map(|value| bounds.port_range = value);
    let reserved = read_reserved(kernel).map(|ports| bounds.reserved = ports);
    (bounds, somaxconn.and(range).and(reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel lays it out: [::1]:443, 3 of 128 waiting.
    fn message() -> Vec<u8> {
        let mut bytes = vec![0; 16 + 72];
        bytes[16] = 10;
        bytes[20..22].copy_from_slice(&443u16.to_be_bytes());
        bytes[39] = 1;
        bytes[60..68].copy_from_slice(&77u64.to_ne_bytes());
        bytes[72..76].copy_from_slice(&3u32.to_ne_bytes());
        bytes[76..80].copy_from_slice(&128u32.to_ne_bytes());
        bytes[84..88].copy_from_slice(&4242u32.to_ne_bytes());
        bytes.extend(12u16.to_ne_bytes());
        bytes.extend(21u16.to_ne_bytes());
        bytes.extend(25u64.to_ne_bytes());
        let numbers: Vec<u8> = (0..9u32).flat_map(|number| (100 + number).to_ne_bytes()).collect();
        bytes.extend((4 + numbers.len() as u16).to_ne_bytes());
        bytes.extend(7u16.to_ne_bytes());
        bytes.extend(numbers);
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_listener_is_read_by_offset() {
        let mut found = Vec::new();
        parse(&mut found, &message()).unwrap();
        let expected = Listener {
            address: "::1".parse().unwrap(),
            port: 443,
            cookie: 77,
            queue: 3,
            limit: 128,
            drops: Some(108),
            cgroup: Some(25),
            inode: 4242,
            port_was_chosen: false,
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn what_the_kernel_does_not_send_is_not_zero() {
        let mut short = message();
        // No drops among the numbers: 8 of 9.
        short.truncate(short.len() - 4);
        short[100..102].copy_from_slice(&36u16.to_ne_bytes());
        short[..4].copy_from_slice(&136u32.to_ne_bytes());
        let mut found = Vec::new();
        parse(&mut found, &short).unwrap();
        assert_eq!(found[0].drops, None);
    }

    #[test]
    fn a_cut_message_or_another_family_says_so() {
        let mut cut = message()[..80].to_vec();
        cut[..4].copy_from_slice(&80u32.to_ne_bytes());
        assert_eq!(parse(&mut Vec::new(), &cut).unwrap_err().item, "struct inet_diag_msg");
        let mut other = message();
        other[16] = 1;
        assert!(parse(&mut Vec::new(), &other).is_err());
    }

    #[test]
    fn reserved_ports_are_not_given_away() {
        let bounds =
            Bounds { port_range: Some([32768, 60999]), reserved: vec![[40000, 40001]], ..Bounds::default() };
        let ports = [80, 32768, 40000, 40002].map(|port| bounds.gives(port));
        assert_eq!(ports, [Some(false), Some(true), Some(false), Some(true)]);
        assert_eq!(Bounds::default().gives(80), None);
    }

    #[test]
    fn ports_are_single_or_ranges() {
        assert_eq!(parse_ports(b"8080,9148-9150\n").unwrap(), [[8080, 8080], [9148, 9150]]);
        assert_eq!(parse_ports(b"\n").unwrap(), [[0; 2]; 0]);
        assert!(parse_ports(b"8080,x\n").is_err());
        assert!(parse_ports(b"70000\n").is_err());
    }
}
