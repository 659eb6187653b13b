//! `/proc/net/sockstat` and `sockstat6` (net/ipv4/proc.c:sockstat_seq_show,
//! net/ipv6/proc.c:sockstat6_seq_show, 2.6-6.18), and the limits they are
//! judged by.

use super::text::{columns, expect_decimal, expect_name, lines};
use super::{Family, sysctl};
use crate::kernel::{Kernel, Malformed, Result, Root};

/// Figures by protocol (`TCP`, `UDP6`, `FRAG`, …) and name (`inuse`, `mem`, …).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sockstat(Vec<(String, String, u64)>);

impl Sockstat {
    /// The figure, if this kernel prints it.
    pub fn get(&self, protocol: &str, name: &str) -> Option<u64> {
        let found = self.0.iter().find(|(group, key, _)| group == protocol && key == name);
        found.map(|(_, _, value)| *value)
    }

    /// Every figure as (protocol, name, value), in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.0.iter().map(|(protocol, name, value)| (protocol.as_str(), name.as_str(), *value))
    }
}

/// The kernel's limits on what sockstat counts; `None` where the key does not
/// exist, which is normal in a network namespace of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// `tcp_mem`: low, pressure and high mark, pages.
    pub tcp_memory_pages: Option<[u64; 3]>,
    /// `udp_mem`: low, pressure and high mark, pages.
    pub udp_memory_pages: Option<[u64; 3]>,
    /// `tcp_max_orphans`, sockets.
    pub orphans: Option<u64>,
    /// `tcp_max_tw_buckets`, sockets.
    pub time_wait: Option<u64>,
}

/// Parses lines `PROTOCOL: name value name value …`.
///
/// # Errors
/// A name without its value, or a value that is no number.
pub fn parse(bytes: &[u8]) -> std::result::Result<Sockstat, Malformed> {
    let mut figures = Vec::new();
    for (number, line) in lines(bytes) {
        let mut parts = columns(line);
        let protocol = parts.next().and_then(|column| column.strip_suffix(b":"));
        let protocol =
            protocol.ok_or_else(|| Malformed::new(number, "protocol", "a line `PROTOCOL: …`", line))?;
        let protocol = expect_name(number, "protocol", protocol)?;
        while let Some(name) = parts.next() {
            let name = expect_name(number, protocol, name)?;
            let value = expect_decimal(number, name, parts.next().unwrap_or_default())?;
            figures.push((protocol.to_owned(), name.to_owned(), value));
        }
    }
    if figures.is_empty() {
        return Err(Malformed::new(1, "sockstat", "a line `PROTOCOL: …`", b"nothing"));
    }
    Ok(Sockstat(figures))
}

/// `/proc/net/sockstat`
pub fn read(kernel: &mut Kernel) -> Result<Sockstat> {
    kernel.parse(Root::Net, "sockstat", parse)
}

/// `/proc/net/sockstat6`
pub fn read6(kernel: &mut Kernel) -> Result<Sockstat> {
    kernel.parse(Root::Net, "sockstat6", parse)
}

/// Whether a network namespace certainly has no socket of `protocol`, `TCP` or
/// `UDP`, of this family, so that nobody need walk a table that may be the whole
/// kernel's. What is left of TCP sockets over IPv4, of which some may be in FIN_WAIT2,
/// is not in use and counts too.
pub fn has_none(kernel: &mut Kernel, protocol: &str, family: Family) -> bool {
    let (found, name) = match family {
        Family::V4 => (read(kernel), protocol.to_owned()),
        Family::V6 => (read6(kernel), format!("{protocol}6")),
    };
    match found {
        Ok(found) => found.get(&name, "inuse") == Some(0) && found.get(&name, "tw").unwrap_or(0) == 0,
        // A kernel without IPv6. What else is not known is looked at.
        Err(error) => error.is_absent() && family == Family::V6,
    }
}

/// The limits, each on its own: one key that is absent or cannot be understood
/// hides no other.
///
/// # Errors
/// The first key that exists and cannot be read or understood.
pub fn read_limits(kernel: &mut Kernel) -> (Limits, Result<()>) {
    let mut limits = Limits::default();
    let mut result = Ok(());
    let mut note = |outcome: Result<()>| {
        if result.is_ok() {
            result = outcome;
        }
    };
    for (path, marks) in [
        ("net/ipv4/tcp_mem", &mut limits.tcp_memory_pages),
        ("net/ipv4/udp_mem", &mut limits.udp_memory_pages),
    ] {
        note(sysctl::read_unsigned(kernel, path).map(|value| *marks = value));
    }
    for (path, limit) in [
        ("net/ipv4/tcp_max_orphans", &mut limits.orphans),
        ("net/ipv4/tcp_max_tw_buckets", &mut limits.time_wait),
    ] {
        note(sysctl::read_unsigned(kernel, path).map(|value| *limit = value.map(|[value]| value)));
    }
    (limits, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_protocol_and_name() {
        let text = b"sockets: used 290\nTCP: inuse 27 orphan 1 tw 23 alloc 31 mem 3\nRAW: inuse 0\n";
        let sockstat = parse(text).unwrap();
        assert_eq!(sockstat.get("TCP", "orphan"), Some(1));
        assert_eq!(sockstat.get("sockets", "used"), Some(290));
        assert_eq!(sockstat.get("TCP", "no"), None);
        assert_eq!(sockstat.iter().count(), 7);
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(parse(b"").unwrap_err().item, "sockstat");
        assert_eq!(parse(b"TCP: inuse\n").unwrap_err().item, "inuse");
        assert_eq!(parse(b"sockets: used 1\nTCP inuse 1\n").unwrap_err().line, 2);
    }
}
