//! Sockets and their memory, beside the limits they are judged by.

use std::fmt;

use super::writer::{Label, Metric, Writer, gauge};
use crate::model::Snapshot;
use crate::read::Family;

const IN_USE: Metric = gauge(
    "nettune_sockets_in_use",
    &["protocol", "family"],
    "Sockets in use, TIME_WAIT not counted (sockstat, inuse).",
);
const TCP_ALLOCATED: Metric = gauge(
    "nettune_tcp_sockets_allocated",
    &[],
    "TCP sockets of the host with memory of their own: neither in TIME_WAIT nor half-open (sockstat TCP, alloc).",
);
const ORPHANS: Metric = gauge(
    "nettune_tcp_orphans",
    &[],
    "TCP sockets of the host that no program holds any more (sockstat TCP, orphan).",
);
const ORPHANS_LIMIT: Metric =
    gauge("nettune_tcp_orphans_limit", &[], "Most orphans the kernel keeps (net.ipv4.tcp_max_orphans).");
const TIME_WAIT: Metric = gauge(
    "nettune_tcp_time_wait_sockets",
    &[],
    "Sockets in TIME_WAIT, and orphans in FIN_WAIT_2 that the kernel counts with them (sockstat TCP, tw).",
)
.everywhere();
const TIME_WAIT_LIMIT: Metric = gauge(
    "nettune_tcp_time_wait_sockets_limit",
    &[],
    "Most sockets in TIME_WAIT the kernel keeps (net.ipv4.tcp_max_tw_buckets).",
)
.everywhere();
const TCP_MEMORY: Metric = gauge(
    "nettune_tcp_memory_bytes",
    &[],
    "Memory in TCP buffers of the host (sockstat TCP, mem, made bytes).",
);
const TCP_MEMORY_LIMIT: Metric = gauge(
    "nettune_tcp_memory_limit_bytes",
    &["mark"],
    "The low, pressure and high marks of TCP memory (net.ipv4.tcp_mem, pages made bytes).",
);
const UDP_MEMORY: Metric = gauge(
    "nettune_udp_memory_bytes",
    &[],
    "Memory in UDP buffers of the host (sockstat UDP, mem, made bytes).",
);
const UDP_MEMORY_LIMIT: Metric = gauge(
    "nettune_udp_memory_limit_bytes",
    &["mark"],
    "The low, pressure and high marks of UDP memory (net.ipv4.udp_mem, pages made bytes).",
);
const FRAGMENT_MEMORY: Metric = gauge(
    "nettune_ip_fragment_memory_bytes",
    &["family"],
    "Memory in fragments that wait for the rest of their packet (sockstat FRAG and FRAG6, memory).",
);

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![
        &IN_USE,
        &TCP_ALLOCATED,
        &ORPHANS,
        &ORPHANS_LIMIT,
        &TIME_WAIT,
        &TIME_WAIT_LIMIT,
        &TCP_MEMORY,
        &TCP_MEMORY_LIMIT,
        &UDP_MEMORY,
        &UDP_MEMORY_LIMIT,
        &FRAGMENT_MEMORY,
    ]
}

/// Protocols by the kernel's name, ours, and the family.
const PROTOCOLS: [(&str, &str, Family); 8] = [
    ("TCP", "tcp", Family::V4),
    ("TCP6", "tcp", Family::V6),
    ("UDP", "udp", Family::V4),
    ("UDP6", "udp", Family::V6),
    ("UDPLITE", "udplite", Family::V4),
    ("UDPLITE6", "udplite", Family::V6),
    ("RAW", "raw", Family::V4),
    ("RAW6", "raw", Family::V6),
];

const MARKS: [&str; 3] = ["low", "pressure", "high"];

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let figure = |protocol: &str, name: &str| {
        let both = [&snapshot.sockstat, &snapshot.sockstat6];
        both.into_iter().flatten().find_map(|sockstat| sockstat.get(protocol, name))
    };
    let in_use = PROTOCOLS.iter().filter_map(|(kernel, protocol, family)| {
        let value = figure(kernel, "inuse")?;
        Some(([Label::from(*protocol), family.name().into()], value))
    });
    out.family(&IN_USE, in_use)?;
    out.single(&TCP_ALLOCATED, figure("TCP", "alloc"))?;
    let limits = snapshot.socket_limits.as_ref();
    out.single(&ORPHANS, figure("TCP", "orphan"))?;
    out.single(&ORPHANS_LIMIT, limits.and_then(|limits| limits.orphans))?;
    out.single(&TIME_WAIT, figure("TCP", "tw"))?;
    out.single(&TIME_WAIT_LIMIT, limits.and_then(|limits| limits.time_wait))?;
    if let Some(constants) = &snapshot.constants {
        let bytes = |pages: u64| pages.saturating_mul(constants.page_size);
        // Usage is counted in another unit than its limits on kernels before
        // 6.0; with pages of 4096 bytes both are the same.
        let quantum = match (&snapshot.facts, constants.page_size) {
            (_, 4096) => Some(4096),
            (Some(facts), _) => Some(facts.memory_quantum()),
            (None, _) => None,
        };
        let used = |protocol: &str| Some(figure(protocol, "mem")?.saturating_mul(quantum?));
        let marks = |pages: Option<[u64; 3]>| {
            let pages = pages.into_iter().flatten().map(bytes);
            MARKS.into_iter().map(|mark| [mark.into()]).zip(pages)
        };
        out.single(&TCP_MEMORY, used("TCP"))?;
        out.family(&TCP_MEMORY_LIMIT, marks(limits.and_then(|limits| limits.tcp_memory_pages)))?;
        out.single(&UDP_MEMORY, used("UDP"))?;
        out.family(&UDP_MEMORY_LIMIT, marks(limits.and_then(|limits| limits.udp_memory_pages)))?;
    }
    let fragments = [("FRAG", Family::V4), ("FRAG6", Family::V6)];
    let fragments = fragments
        .into_iter()
        .filter_map(|(kernel, family)| Some(([family.name().into()], figure(kernel, "memory")?)));
    out.family(&FRAGMENT_MEMORY, fragments)
}
