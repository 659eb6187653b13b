//! The kernel's default of a parameter on this host.

use super::host::Facts;
use crate::catalogue::{CATALOGUE, Default, Parameter, Rule};

const GIB: u64 = 1 << 30;

/// How far a default that follows from memory may be from what the kernel
/// computed at boot, when its memory was a little different.
const ESTIMATE_ERROR: f64 = 0.02;

/// The default beside a running value. A default that follows from memory is an
/// estimate; a running value within its error is taken to be the default
/// itself, so that an untouched host shows no difference.
pub fn default_beside(parameter: &Parameter, running: &[i64], facts: &Facts) -> Option<Vec<i64>> {
    let default = default_numbers(parameter, facts)?;
    let near = |(default, running): (&i64, &i64)| {
        (*default - *running).unsigned_abs() as f64 <= ESTIMATE_ERROR * default.unsigned_abs() as f64
    };
    let untouched = default.len() == running.len() && default.iter().zip(running).all(near);
    Some(if untouched && is_estimate(parameter, facts) { running.to_vec() } else { default })
}

fn is_estimate(parameter: &Parameter, facts: &Facts) -> bool {
    let rule = current_row(parameter, facts).and_then(|row| row.rule);
    match rule {
        Some(Rule::TcpMemory | Rule::UdpMemory) => true,
        Some(Rule::TcpReceiveBuffer { cap, .. } | Rule::TcpSendBuffer { cap }) => buffer_share(facts) < cap,
        Some(Rule::ConntrackBuckets { .. } | Rule::ConntrackMax { .. } | Rule::ConntrackExpectMax) => {
            facts.host.memory_total <= GIB
        }
        _ => false,
    }
}

fn current_row<'p>(parameter: &'p Parameter, facts: &Facts) -> Option<&'p Default> {
    let version = facts.version?;
    parameter.default.iter().find(|row| row.holds_for(version))
}

/// The numbers an untouched kernel of this release and size would show; `None`
/// where the catalogue states none for it, where the default is a text, or
/// where a vendor's backports make the release number say nothing.
pub fn default_numbers(parameter: &Parameter, facts: &Facts) -> Option<Vec<i64>> {
    let row = current_row(parameter, facts)?;
    if facts.is_heavily_backported() && (row.since.is_some() || row.until.is_some()) {
        return None;
    }
    if let Some(value) = row.value {
        return Some(vec![value]);
    }
    if let Some(values) = &row.values {
        return Some(values.clone());
    }
    derive(row.rule?, facts)
}

fn derive(rule: Rule, facts: &Facts) -> Option<Vec<i64>> {
    Some(match rule {
        // net/ipv4/tcp.c:tcp_init, net/ipv4/tcp_ipv4.c:tcp_set_hashinfo
        Rule::EstablishedHash { divisor, minimum } => {
            vec![(signed(facts.established_hash()) / divisor.max(1)).max(minimum)]
        }
        // net/ipv4/tcp.c:tcp_init_mem
        Rule::TcpMemory => memory_marks(facts, 16),
        // net/ipv4/udp.c:udp_init
        Rule::UdpMemory => memory_marks(facts, 8),
        // net/ipv4/tcp.c:tcp_init
        Rule::TcpReceiveBuffer { default, cap } => {
            vec![quantum(facts), default, buffer_share(facts).min(cap).max(default)]
        }
        Rule::TcpSendBuffer { cap } => {
            vec![quantum(facts), 16 << 10, buffer_share(facts).min(cap).max(64 << 10)]
        }
        // include/net/sock.h:_SK_MEM_PACKETS; 832 bytes of truesize where a
        // cache line has 64 bytes.
        Rule::SocketBuffer => {
            let known = matches!(facts.constants.machine.as_str(), "x86_64" | "aarch64");
            if !known {
                return None;
            }
            vec![256 * 832]
        }
        // net/netfilter/nf_conntrack_core.c:nf_conntrack_init_start
        Rule::ConntrackBuckets { per_gib4, least } => vec![conntrack_buckets(facts, per_gib4, least)],
        Rule::ConntrackMax { factor } => vec![factor.saturating_mul(default_conntrack_buckets(facts)?)],
        // net/netfilter/nf_conntrack_expect.c:nf_conntrack_expect_init
        Rule::ConntrackExpectMax => vec![4 * (default_conntrack_buckets(facts)? / 256).max(1)],
        // net/core/dev.c: netdev_budget_usecs = 2 * USEC_PER_SEC / HZ
        Rule::TwoJiffiesUsecs => vec![2_000_000 / signed(facts.constants.hz).max(1)],
        Rule::MemoryQuantum => vec![quantum(facts)],
    })
}

fn quantum(facts: &Facts) -> i64 {
    signed(facts.memory_quantum())
}

/// The most one socket's buffer may take: a 128th of the buffer pages, bytes.
fn buffer_share(facts: &Facts) -> i64 {
    signed(facts.buffer_pages().saturating_mul(facts.constants.page_size) / 128)
}

fn memory_marks(facts: &Facts, divisor: u64) -> Vec<i64> {
    let pressure = (signed(facts.buffer_pages()) / signed(divisor)).max(128);
    let low = pressure / 4 * 3;
    vec![low, pressure, low * 2]
}

/// By memory, and rounded up so that the table fills its pages
/// (nf_conntrack_core.c:nf_ct_alloc_hashtable; a bucket is a pointer).
fn conntrack_buckets(facts: &Facts, above_4_gib: i64, least: i64) -> i64 {
    let by_memory = match facts.host.memory_total {
        memory if memory > 4 * GIB => above_4_gib,
        memory if memory > GIB => above_4_gib / 4,
        memory => (signed(memory) / 16_384 / 8).max(least),
    };
    let a_page = (signed(facts.constants.page_size) / 8).max(1);
    (by_memory + a_page - 1) / a_page * a_page
}

fn default_conntrack_buckets(facts: &Facts) -> Option<i64> {
    let buckets = CATALOGUE.get("net.netfilter.nf_conntrack_buckets")?;
    default_numbers(buckets, facts)?.first().copied()
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Constants;
    use crate::read::host::Host;

    fn facts(release: &str, gib: u64) -> Facts {
        let host = Host { release: release.into(), memory_total: gib << 30, ..Host::default() };
        Facts::new(
            host,
            0,
            Constants { page_size: 4096, clock_ticks: 100, hz: 250, machine: "x86_64".into() },
        )
    }

    fn default(name: &str, facts: &Facts) -> Option<Vec<i64>> {
        default_numbers(CATALOGUE.get(name).unwrap(), facts)
    }

    /// Hand-calculated from the kernel's own arithmetic.
    #[test]
    fn defaults_follow_release_and_memory() {
        let cases: &[(&str, &str, u64, Option<&[i64]>)] = &[
            ("net.core.somaxconn", "5.3.0", 8, Some(&[128])),
            ("net.core.somaxconn", "5.4.0", 8, Some(&[4096])),
            // 8 GiB = 2097152 pages; / 16 = 131072; * 3/4 = 98304; * 2 = 196608
            ("net.ipv4.tcp_mem", "6.1.0", 8, Some(&[98304, 131072, 196608])),
            // / 8 = 262144; * 3/4 = 196608; * 2 = 393216
            ("net.ipv4.udp_mem", "6.1.0", 8, Some(&[196608, 262144, 393216])),
            // 8 GiB / 128 = 64 MiB, above every cap
            ("net.ipv4.tcp_rmem", "6.1.0", 8, Some(&[4096, 131072, 6291456])),
            ("net.ipv4.tcp_rmem", "6.18.3", 8, Some(&[4096, 131072, 33554432])),
            // between 6.12 and 6.18 the cap is not stated
            ("net.ipv4.tcp_rmem", "6.15.0", 8, None),
            ("net.ipv4.tcp_wmem", "6.1.0", 8, Some(&[4096, 16384, 4194304])),
            // 8 GiB >> 17 = 65536 buckets
            ("net.ipv4.tcp_max_tw_buckets", "6.1.0", 8, Some(&[32768])),
            ("net.ipv4.tcp_max_syn_backlog", "6.1.0", 8, Some(&[512])),
            ("net.netfilter.nf_conntrack_max", "6.1.0", 8, Some(&[262144])),
            ("net.netfilter.nf_conntrack_max", "6.1.0", 2, Some(&[65536])),
            ("net.netfilter.nf_conntrack_max", "5.10.0", 8, Some(&[262144])),
            ("net.netfilter.nf_conntrack_buckets", "5.10.0", 8, Some(&[65536])),
            ("net.netfilter.nf_conntrack_buckets", "5.10.0", 2, Some(&[16384])),
            // 1 GiB / 16384 / 8 = 8192: it is not above 1 GiB
            ("net.netfilter.nf_conntrack_buckets", "6.1.0", 1, Some(&[8192])),
            ("net.netfilter.nf_conntrack_buckets", "5.15.0", 8, Some(&[262144])),
            // 4 * (65536 / 256) and 4 * (262144 / 256)
            ("net.netfilter.nf_conntrack_expect_max", "5.10.0", 8, Some(&[1024])),
            ("net.netfilter.nf_conntrack_expect_max", "6.1.0", 8, Some(&[4096])),
            ("net.core.netdev_budget_usecs", "6.1.0", 8, Some(&[8000])),
            ("net.core.rmem_max", "6.1.0", 8, Some(&[212992])),
            ("net.core.rmem_max", "6.18.0", 8, Some(&[4194304])),
        ];
        for (name, release, gib, expected) in cases {
            let found = default(name, &facts(release, *gib));
            assert_eq!(found.as_deref(), *expected, "{name} on {release} with {gib} GiB");
        }
    }

    #[test]
    fn an_estimate_gives_way_to_a_running_value_within_its_error() {
        let facts = facts("6.1.0", 8);
        let beside =
            |name: &str, running: &[i64]| default_beside(CATALOGUE.get(name).unwrap(), running, &facts);
        let tcp_mem = "net.ipv4.tcp_mem";
        // By rule: 98304 131072 196608.
        assert_eq!(beside(tcp_mem, &[98190, 130920, 196380]), Some(vec![98190, 130920, 196380]));
        assert_eq!(beside(tcp_mem, &[98304, 131072, 262144]), Some(vec![98304, 131072, 196608]));
        // At its cap a buffer is no estimate.
        let touched = [4096, 131072, 6291000];
        assert_eq!(beside("net.ipv4.tcp_rmem", &touched), Some(vec![4096, 131072, 6291456]));
        assert_eq!(beside("net.ipv4.tcp_fin_timeout", &[61]), Some(vec![60]));
    }

    #[test]
    fn a_vendors_number_says_nothing_about_changed_defaults() {
        let vendor = facts("4.18.0-553.el8_10.x86_64", 8);
        assert_eq!(default("net.core.somaxconn", &vendor), None);
        assert_eq!(default("net.ipv4.tcp_fin_timeout", &vendor), Some(vec![60]));
    }

    #[test]
    fn a_hash_table_fills_its_pages() {
        let mut small = facts("6.1.0", 0);
        // 978000 kB / 16384 / 8 = 7640, rounded up to a multiple of 4096 / 8
        small.host.memory_total = 978_000 << 10;
        assert_eq!(default("net.netfilter.nf_conntrack_buckets", &small), Some(vec![7680]));
        assert_eq!(default("net.netfilter.nf_conntrack_max", &small), Some(vec![7680]));
        small.host.memory_total = 64 << 20;
        assert_eq!(default("net.netfilter.nf_conntrack_buckets", &small), Some(vec![1024]));
    }

    #[test]
    fn a_page_of_64_kib_counts() {
        let mut large = facts("6.1.0", 8);
        large.constants.page_size = 65536;
        // 131072 pages / 16 = 8192
        assert_eq!(default("net.ipv4.tcp_mem", &large), Some(vec![6144, 8192, 12288]));
        assert_eq!(default("net.ipv4.tcp_rmem", &large).unwrap()[0], 65536);
    }
}
