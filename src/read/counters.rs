//! `/proc/net/snmp`, `/proc/net/netstat` (net/ipv4/proc.c, 2.6-6.18) and
//! `/proc/net/snmp6` (net/ipv6/proc.c): named counters in named groups.

use std::sync::Arc;

use super::text::{columns, decimal, expect_decimal, expect_name, lines, signed};
use crate::kernel::{Kernel, Malformed, Result, Root};

/// Counters by group (`Tcp`, `TcpExt`, `Ip6`, …) and by the kernel's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    names: Arc<Names>,
    /// In the order of the names.
    values: Vec<u64>,
}

/// Names of counters, one behind the other: there are hundreds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    text: String,
    /// Sorted by group and name.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    group: Span,
    name: Span,
}

/// A piece of the text: its start and its end.
type Span = (u32, u32);

impl Counters {
    /// The counter, if this kernel has it.
    pub fn get(&self, group: &str, name: &str) -> Option<u64> {
        let names = &self.names;
        let place = names.entries.binary_search_by(|entry| names.key(entry).cmp(&(group, name))).ok()?;
        self.values.get(place).copied()
    }

    /// Every counter as (group, name, value), sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        let keys = self.names.entries.iter().map(|entry| self.names.key(entry));
        keys.zip(&self.values).map(|((group, name), value)| (group, name, *value))
    }

    /// Keeps the names of both but once, where they are the same: those of network
    /// namespaces nearly always are. False where they are not.
    pub fn share_names(&mut self, other: &Self) -> bool {
        let same = self.names == other.names;
        if same {
            self.names = Arc::clone(&other.names);
        }
        same
    }
}

impl Names {
    fn key(&self, entry: &Entry) -> (&str, &str) {
        (piece(&self.text, entry.group), piece(&self.text, entry.name))
    }

    fn keep(&mut self, text: &str) -> Span {
        let start = self.text.len() as u32;
        self.text.push_str(text);
        (start, self.text.len() as u32)
    }
}

/// Counters as they come from a file.
#[derive(Default)]
struct Found {
    names: Names,
    values: Vec<(Entry, u64)>,
}

impl Found {
    /// Adds a counter; one that comes again later counts.
    fn insert(&mut self, group: &str, name: &str, value: u64) {
        let group = match self.values.last() {
            Some((last, _)) if piece(&self.names.text, last.group) == group => last.group,
            _ => self.names.keep(group),
        };
        let name = self.names.keep(name);
        self.values.push((Entry { group, name }, value));
    }

    /// What was added, in order.
    fn sorted(self) -> Counters {
        let Self { mut names, mut values } = self;
        // What came later goes first of its kind, and stays.
        values.reverse();
        values.sort_by(|(one, _), (two, _)| names.key(one).cmp(&names.key(two)));
        values.dedup_by(|(later, _), (first, _)| names.key(later) == names.key(first));
        names.text.shrink_to_fit();
        names.entries = values.iter().map(|(entry, _)| *entry).collect();
        Counters { names: names.into(), values: values.into_iter().map(|(_, value)| value).collect() }
    }
}

fn piece(text: &str, (start, end): Span) -> &str {
    text.get(start as usize..end as usize).unwrap_or_default()
}

/// Parses pairs of lines: `Group: name name …`, then `Group: value value …`.
/// The one negative value (`Tcp MaxConn`, -1: no limit) is no counter and is
/// left out.
///
/// # Errors
/// A header without its values, another group's values, a different number of
/// values than of names, a value that is no number.
pub fn parse_pairs(bytes: &[u8]) -> std::result::Result<Counters, Malformed> {
    let mut counters = Found::default();
    let mut rest = lines(bytes);
    while let Some((number, header)) = rest.next() {
        let group = group_of(number, header)?;
        let Some((number, values)) = rest.next() else {
            return Err(Malformed::new(number + 1, group, "the line of values", b"the end of the file"));
        };
        if group_of(number, values)? != group {
            return Err(Malformed::new(
                number,
                group,
                "values of the group named in the line before",
                values,
            ));
        }
        let mut names = columns(header).skip(1);
        let mut found = columns(values).skip(1);
        loop {
            match (names.next(), found.next()) {
                (None, None) => break,
                (Some(name), Some(value)) => {
                    let name = expect_name(number - 1, group, name)?;
                    match decimal(value) {
                        Some(value) => counters.insert(group, name, value),
                        None if signed(value).is_some_and(|value| value < 0) => {}
                        None => return Err(Malformed::new(number, name, "an integer", value)),
                    }
                }
                (name, _) => {
                    let expected = if name.is_some() { "as many values as names" } else { "no more values" };
                    return Err(Malformed::new(number, group, expected, values));
                }
            }
        }
    }
    if counters.values.is_empty() {
        return Err(Malformed::new(1, "counters", "a line `Group: name …`", b"nothing"));
    }
    Ok(counters.sorted())
}

fn group_of(number: usize, line: &[u8]) -> std::result::Result<&str, Malformed> {
    let group = columns(line).next().and_then(|column| column.strip_suffix(b":"));
    let group = group.ok_or_else(|| Malformed::new(number, "group", "a line `Group: …`", line))?;
    expect_name(number, "group", group)
}

/// Parses lines `GroupName value`, where the group is `Ip6`, `Icmp6`, `Udp6` or
/// `UdpLite6`.
///
/// # Errors
/// A line that is not a name and a number.
pub fn parse_lines(bytes: &[u8]) -> std::result::Result<Counters, Malformed> {
    let mut counters = Found::default();
    for (number, line) in lines(bytes) {
        let mut parts = columns(line);
        let name = parts.next().unwrap_or_default();
        let name = expect_name(number, "counter", name)?;
        let value = expect_decimal(number, name, parts.next().unwrap_or_default())?;
        // The group ends with the first '6': Ip6InReceives, Icmp6OutMsgs.
        let (group, short) = match name.find('6') {
            Some(six) => name.split_at(six + 1),
            None => ("", name),
        };
        counters.insert(group, short, value);
    }
    if counters.values.is_empty() {
        return Err(Malformed::new(1, "counters", "a line `name value`", b"nothing"));
    }
    Ok(counters.sorted())
}

/// `/proc/net/snmp`: the groups Ip, Icmp, IcmpMsg, Tcp, Udp, UdpLite.
pub fn read_snmp(kernel: &mut Kernel) -> Result<Counters> {
    kernel.parse(Root::Net, "snmp", parse_pairs)
}

/// `/proc/net/netstat`: the groups TcpExt, IpExt, MPTcpExt.
pub fn read_netstat(kernel: &mut Kernel) -> Result<Counters> {
    kernel.parse(Root::Net, "netstat", parse_pairs)
}

/// `/proc/net/snmp6`: the groups Ip6, Icmp6, Udp6, UdpLite6.
pub fn read_snmp6(kernel: &mut Kernel) -> Result<Counters> {
    kernel.parse(Root::Net, "snmp6", parse_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_joined_by_header() {
        let text = b"Tcp: MaxConn OutSegs RetransSegs\nTcp: -1 100 2\nUdp: InDatagrams\nUdp: 7\n";
        let counters = parse_pairs(text).unwrap();
        assert_eq!(counters.get("Tcp", "OutSegs"), Some(100));
        assert_eq!(counters.get("Udp", "InDatagrams"), Some(7));
        assert_eq!(counters.get("Tcp", "MaxConn"), None);
        assert_eq!(counters.get("Tcp", "NoSuchName"), None);
        let again = parse_pairs(b"B: Y X\nB: 4 5\nA: Y\nA: 1\nB: X\nB: 6\n").unwrap();
        assert_eq!(again.iter().collect::<Vec<_>>(), [("A", "Y", 1), ("B", "X", 6), ("B", "Y", 4)]);
    }

    #[test]
    fn names_are_shared_where_they_are_the_same() {
        let parsed = |text: &str| parse_pairs(text.as_bytes()).unwrap();
        let (known, mut other) = (parsed("Tcp: A B\nTcp: 1 2\n"), parsed("Tcp: A B\nTcp: 3 4\n"));
        assert!(other.share_names(&known) && Arc::ptr_eq(&other.names, &known.names));
        assert_eq!((known.get("Tcp", "B"), other.get("Tcp", "B")), (Some(2), Some(4)));
        let mut more = parsed("Tcp: A B\nTcp: 5 6\nUdp: A\nUdp: 7\n");
        assert!(!more.share_names(&known));
        assert_eq!((more.get("Tcp", "B"), more.get("Udp", "A")), (Some(6), Some(7)));
    }

    #[test]
    fn errors_say_where() {
        let cases: [(&[u8], usize, &str); 6] = [
            (b"", 1, "counters"),
            (b"Tcp: A B\n", 2, "Tcp"),
            (b"Tcp: A B\nTcp: 1\n", 2, "Tcp"),
            (b"Tcp: A\nTcp: 1 2\n", 2, "Tcp"),
            (b"Tcp: A\nUdp: 1\n", 2, "Tcp"),
            (b"Tcp: A\nTcp: 1x\n", 2, "A"),
        ];
        for (text, line, item) in cases {
            let error = parse_pairs(text).unwrap_err();
            assert_eq!((error.line, error.item.as_str()), (line, item), "{error}");
        }
        assert_eq!(parse_lines(b"Ip6InReceives 1\nIp6InHdrErrors\n").unwrap_err().line, 2);
    }

    #[test]
    fn lines_are_split_into_group_and_name() {
        let counters =
            parse_lines(b"Ip6InReceives   \t5\nIcmp6OutType143   2\nUdpLite6InErrors 0\n").unwrap();
        assert_eq!(counters.get("Ip6", "InReceives"), Some(5));
        assert_eq!(counters.get("Icmp6", "OutType143"), Some(2));
        assert_eq!(counters.get("UdpLite6", "InErrors"), Some(0));
    }
}
