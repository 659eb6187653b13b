//! The parameters of the namespace that say which local ports connections get,
//! and when a port in TIME_WAIT may be used again
//! (net/ipv4/inet_hashtables.c:__inet_hash_connect,
//! net/ipv4/tcp_ipv4.c:tcp_twsk_unique, 5.10-6.18).

use super::listeners::parse_ports;
use super::sysctl;
use crate::kernel::{Kernel, Result};

/// `None` where the key is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// `net.ipv4.ip_local_port_range`: first and last.
    pub range: Option<[u64; 2]>,
    /// `net.ipv4.ip_local_reserved_ports`: first and last of each range.
    pub reserved: Vec<[u16; 2]>,
    /// `net.ipv4.tcp_tw_reuse`: 0 never, 1 for all, 2 over loopback.
    pub tw_reuse: Option<u64>,
    /// `net.ipv4.tcp_tw_reuse_delay`, milliseconds (6.14).
    pub tw_reuse_delay: Option<u64>,
    /// `net.ipv4.tcp_timestamps`: 0 off.
    pub timestamps: Option<u64>,
}

/// Each on its own: one key that is absent or cannot be understood hides no other.
///
/// # Errors
/// The first key that exists and cannot be read or understood.
pub fn read(kernel: &mut Kernel) -> (Parameters, Result<()>) {
    let mut found = Parameters::default();
    let range = sysctl::read_unsigned(kernel, "net/ipv4/ip_local_port_range");
    let mut result = range.map(|value| found.range = value);
    let reserved = kernel.parse_value("net/ipv4/ip_local_reserved_ports", |bytes, _| parse_ports(bytes));
    result = match reserved {
        Err(error) if error.is_absent() => result,
        other => result.and(other.map(|ports| found.reserved = ports)),
    };
    for (path, place) in [
        ("net/ipv4/tcp_tw_reuse", &mut found.tw_reuse),
        ("net/ipv4/tcp_tw_reuse_delay", &mut found.tw_reuse_delay),
        ("net/ipv4/tcp_timestamps", &mut found.timestamps),
    ] {
        let read = sysctl::read_unsigned(kernel, path);
        result = result.and(read.map(|value| *place = value.map(|[value]| value)));
    }
    (found, result)
}
