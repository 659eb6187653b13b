//! What the kernel makes of a text that is written to a key.

use super::masks;
use crate::catalogue::{Kind, Parameter, Version};
use crate::model::host::Facts;

/// A value as far as files set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// By field; `None` where no file sets it, since a write may hold fewer numbers than
    /// a key has.
    Numbers(Vec<Option<i64>>),
    /// A text, as the kernel would print it.
    Text(String),
}

/// What of the kernel decides which writes it takes.
#[derive(Debug, Clone, Copy)]
pub struct Taking {
    /// The release, where the catalogue's limits are its own.
    release: Option<Version>,
    /// Bytes a page.
    page_size: i64,
    /// Timer ticks a second; 0 where that is not known.
    hz: i64,
    /// As many CPUs as there can be, where that is known.
    cpus: Option<u32>,
    /// Queueing disciplines are asked for by an alias of their modules (commit 2c15a5aee2f3).
    pub(super) by_alias: bool,
}

/// The release whose answers the catalogue's limits are.
const MEASURED: Version = Version { major: 6, minor: 18 };

const ALIASES: Version = Version { major: 6, minor: 9 };

impl Taking {
    /// Of this host. On earlier releases, and where it is not known, every number counts
    /// as taken: limits came and went. `cpus` is how many there can be.
    pub fn of(facts: Option<&Facts>, cpus: Option<u32>) -> Self {
        let release = facts.and_then(|facts| facts.version);
        let constants = facts.map(|facts| &facts.constants);
        Self {
            release: release.filter(|release| *release >= MEASURED),
            page_size: constants.map_or(4096, |constants| constants.page_size as i64),
            hz: constants.map_or(0, |constants| constants.hz as i64),
            cpus,
            by_alias: release.is_some_and(|release| release >= ALIASES),
        }
    }
}

/// What stands in a key after `text` was written over `before`, and whether the write was
/// taken whole. A refused one may have changed the first numbers.
pub(super) fn write(
    parameter: &Parameter,
    text: &str,
    before: Option<&Stored>,
    taking: Taking,
) -> (Option<Stored>, bool) {
    if parameter.read_only {
        return (before.cloned(), false);
    }
    match parameter.kind {
        Kind::Int => numbers(parameter, text, 1, before, taking),
        Kind::Ints => numbers(parameter, text, parameter.fields.len(), before, taking),
        Kind::Text | Kind::Object => {
            let (text, taken) = match (&*parameter.name, taking.cpus) {
                ("net.core.rps_default_mask", Some(cpus)) => masks::write(text, cpus),
                // In one piece, or not at all (net/core/sysctl_net_core.c:flow_limit_cpu_sysctl).
                ("net.core.flow_limit_cpu_bitmap", Some(cpus)) => match masks::write(text, cpus) {
                    (text, true) => (text, true),
                    _ => (None, false),
                },
                (name, _) => {
                    let text = printed(name, text);
                    let taken = text.is_some();
                    (text, taken)
                }
            };
            (text.map(Stored::Text).or(before.cloned()), taken)
        }
    }
}

/// What stands in a key after `text` was written to it; `None` when it is refused.
pub fn written(parameter: &Parameter, text: &str, taking: Taking) -> Option<Stored> {
    match write(parameter, text, None, taking) {
        (stored, true) => stored,
        (_, false) => None,
    }
}

/// Numbers take effect one by one until one is refused (kernel/sysctl.c:proc_dointvec);
/// those of a port range only together, and with the running one where the second is
/// missing (net/ipv4/sysctl_net_ipv4.c:ipv4_local_port_range).
/// What stands behind the last number a key has is not looked at.
fn numbers(
    parameter: &Parameter,
    text: &str,
    count: usize,
    before: Option<&Stored>,
    taking: Taking,
) -> (Option<Stored>, bool) {
    /// What the range ends with until somebody sets it (net/ipv4/af_inet.c:inet_init_net).
    const LAST_PORT: i64 = 60999;
    let mut values = match before {
        Some(Stored::Numbers(values)) => values.clone(),
        _ => vec![None; count],
    };
    // No more than a page is looked at.
    let page = text.len().min(usize::try_from(taking.page_size - 1).unwrap_or(0));
    let mut rest = &text.as_bytes()[..page];
    let mut good = true;
    let mut taken = 0;
    for value in values.iter_mut().take(count) {
        // The kernel passes over one blank more than Rust (lib/ctype.c).
        let start = rest.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != 0x0b);
        rest = &rest[start.unwrap_or(rest.len())..];
        if rest.is_empty() {
            break;
        }
        let number = number(&mut rest).filter(|number| in_bounds(parameter, *number, taking));
        let Some(number) = number else {
            good = false;
            break;
        };
        *value = Some(settled(&parameter.name, number, taking));
        taken += 1;
    }
    let together = parameter.name == "net.ipv4.ip_local_port_range";
    if together && matches!(values[..], [Some(first), last] if last.unwrap_or(LAST_PORT) < first) {
        good = false;
    }
    if taken == 0 || (together && !good) {
        return (before.cloned(), false);
    }
    (Some(Stored::Numbers(values)), good)
}

/// One number and where it ends: a digit first, base 8, 10 or 16 by its start, a blank
/// or the end behind it (kernel/sysctl.c:proc_get_long).
fn number(rest: &mut &[u8]) -> Option<i64> {
    /// Longer ones are refused, sign included (TMPBUFLEN).
    const LONGEST: usize = 20;
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\n')).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    *rest = after;
    let text = std::str::from_utf8(word).ok().filter(|text| text.len() <= LONGEST)?;
    let (digits, negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let magnitude = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => unsigned(&digits[2..], 16)?,
        [b'0', _, ..] => unsigned(&digits[1..], 8)?,
        _ => unsigned(digits, 10)?,
    };
    let number = i64::try_from(magnitude).ok()?;
    Some(if negative { -number } else { number })
}

/// All digits: a sign, which Rust would take, is none.
fn unsigned(digits: &str, radix: u32) -> Option<u64> {
    let all = digits.chars().all(|digit| digit.is_digit(radix));
    if all { u64::from_str_radix(digits, radix).ok() } else { None }
}

fn in_bounds(parameter: &Parameter, number: i64, taking: Taking) -> bool {
    let [least, most] = parameter.accepted(taking.hz);
    let is_stated = |release| parameter.accepts_until.is_none_or(|until| release < until);
    !taking.release.is_some_and(is_stated) || (least..=most).contains(&number)
}

/// Some keys print another number than was written.
fn settled(name: &str, number: i64, taking: Taking) -> i64 {
    match name {
        // A table fills whole pages of 8-byte heads (net/netfilter/nf_conntrack_core.c:nf_ct_alloc_hashtable).
        "net.netfilter.nf_conntrack_buckets" if number > 0 => {
            let heads = (taking.page_size / 8).max(1);
            number.saturating_add(heads - 1) / heads * heads
        }
        // net/core/sysctl_net_core.c:rps_sock_flow_sysctl
        "net.core.rps_sock_flow_entries" if (1..=1 << 29).contains(&number) => {
            (number as u64).next_power_of_two() as i64
        }
        _ => number,
    }
}

/// A text as the kernel prints it once it was written; `None` when it is refused. Names
/// are looked up as they stand, with all that follows them on the line.
fn printed(name: &str, text: &str) -> Option<String> {
    /// TCP_CA_NAME_MAX and IFNAMSIZ, which also bounds qdisc names, without the NUL.
    const NAME: usize = 15;
    let is_name = |word: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        !word.is_empty() && word.len() <= NAME && word.bytes().all(plain)
    };
    match name {
        "net.ipv4.ip_local_reserved_ports" => ports(text),
        "net.ipv4.tcp_congestion_control" | "net.core.default_qdisc" => {
            is_name(text).then(|| text.to_owned())
        }
        "net.ipv4.tcp_allowed_congestion_control" => {
            let words: Vec<_> = text.split_ascii_whitespace().collect();
            words.iter().all(|word| is_name(word)).then(|| words.join(" "))
        }
        // CPU masks, where nobody knows of how many.
        _ => text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b',').then(|| text.to_lowercase()),
    }
}

/// A list of ports and ranges without any blank (kernel/sysctl.c:proc_do_large_bitmap),
/// printed sorted and joined where neighbours touch.
fn ports(text: &str) -> Option<String> {
    let port = |text: &str| {
        let mut rest = text.as_bytes();
        let number = number(&mut rest).filter(|_| rest.is_empty())?;
        (0..=65535).contains(&number).then_some(number)
    };
    let mut ranges = Vec::new();
    // A comma at the end is passed over.
    let list = text.strip_suffix(',').unwrap_or(text);
    for part in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(part)?, port(part)?),
        };
        if last < first {
            return None;
        }
        ranges.push((first, last));
    }
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    let print = |(first, last): &(i64, i64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    Some(joined.iter().map(print).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::CATALOGUE;

    const TAKING: Taking =
        Taking { release: Some(MEASURED), page_size: 4096, hz: 250, cpus: Some(2), by_alias: true };

    fn writes(name: &str, text: &str) -> (Option<Stored>, bool) {
        write(CATALOGUE.get(name).unwrap(), text, None, TAKING)
    }

    fn one(number: i64) -> (Option<Stored>, bool) {
        (Some(Stored::Numbers(vec![Some(number)])), true)
    }

    #[test]
    fn a_number_ends_at_a_blank() {
        let key = "net.core.somaxconn";
        for (text, number) in
            [("1024", 1024), ("1024 # more", 1024), ("8\t# tab", 8), ("0x10", 16), ("010", 8)]
        {
            assert_eq!(writes(key, text), one(number), "{text}");
        }
        let bad = ["", "\"1\"", "1024#", "1,000", "4k", "+4", "08", "-", "0x", "yes", "-1", "4294967296"];
        for text in bad {
            assert_eq!(writes(key, text), (None, false), "{text}");
        }
    }

    #[test]
    fn numbers_take_effect_one_by_one() {
        let key = "net.ipv4.tcp_rmem";
        let stored = |values: [Option<i64>; 3]| Some(Stored::Numbers(values.to_vec()));
        assert_eq!(writes(key, "1 2 3 4"), (stored([Some(1), Some(2), Some(3)]), true));
        assert_eq!(writes(key, "1 2"), (stored([Some(1), Some(2), None]), true));
        assert_eq!(writes(key, "1 x 3"), (stored([Some(1), None, None]), false));
        let long = format!("1 2{}3", " ".repeat(4096));
        assert_eq!(writes(key, &long), (stored([Some(1), Some(2), None]), true));
        assert_eq!(writes(key, "4096,8192,3"), (None, false));
        assert_eq!(writes("net.ipv4.ip_local_port_range", "60000 50000"), (None, false));
        assert_eq!(writes("net.ipv4.ip_local_port_range", "20000 x"), (None, false));
    }

    #[test]
    fn limits_are_those_of_the_release() {
        let retries = CATALOGUE.get("net.ipv4.tcp_retries2").unwrap();
        assert_eq!(write(retries, "300", None, TAKING), (None, false));
        let earlier = Taking { release: None, ..TAKING };
        assert_eq!(write(retries, "300", None, earlier), one(300));
        assert_eq!(writes("net.netfilter.nf_conntrack_count", "1"), (None, false));
    }

    #[test]
    fn limits_may_end_with_a_release_and_follow_the_tick() {
        let ecn = CATALOGUE.get("net.ipv4.tcp_ecn").unwrap();
        assert_eq!(write(ecn, "3", None, TAKING), (None, false));
        let later = Taking { release: Some(Version { major: 7, minor: 3 }), ..TAKING };
        assert_eq!(write(ecn, "3", None, later), one(3));
        // 8589934 ticks of 4 ms are all that 31 bits hold.
        let time = "net.ipv4.tcp_keepalive_time";
        assert_eq!((writes(time, "8589934"), writes(time, "8589935")), (one(8589934), (None, false)));
        let budget = "net.core.netdev_budget_usecs";
        assert_eq!((writes(budget, "8000"), writes(budget, "7999")), (one(8000), (None, false)));
    }

    #[test]
    fn some_keys_print_another_number() {
        assert_eq!(writes("net.netfilter.nf_conntrack_buckets", "1000"), one(1024));
        assert_eq!(writes("net.core.rps_sock_flow_entries", "3000"), one(4096));
    }

    #[test]
    fn a_text_is_taken_with_all_of_its_line() {
        let text = |text: &str| (Some(Stored::Text(text.into())), true);
        assert_eq!(writes("net.ipv4.tcp_congestion_control", "bbr"), text("bbr"));
        assert_eq!(writes("net.ipv4.tcp_congestion_control", "bbr # fast"), (None, false));
        assert_eq!(writes("net.core.default_qdisc", "\"fq\""), (None, false));
        let key = "net.ipv4.ip_local_reserved_ports";
        assert_eq!(writes(key, "8081,8080,90-95,93-99"), text("90-99,8080-8081"));
        assert_eq!(writes(key, ""), text(""));
        for bad in ["80, 81", "80 # web", "70000", "9-3", "a"] {
            assert_eq!(writes(key, bad), (None, false), "{bad}");
        }
    }
}
