//! Local ports that connections of ours take up.

use std::fmt;

use super::writer::{Metric, Writer, gauge};
use crate::model::Snapshot;

const AVAILABLE: Metric = gauge(
    "nettune_ephemeral_ports_available",
    &[],
    "Local ports that connections to one destination can have: net.ipv4.ip_local_port_range without net.ipv4.ip_local_reserved_ports.",
).everywhere();
const USED_RATIO: Metric = gauge(
    "nettune_ephemeral_ports_used_ratio",
    &["destination_port"],
    "Share of those taken up by the pair of addresses that has most connections to this port; at 1 connect() fails with EADDRNOTAVAIL. Of the five worst ports, from 0.01 on.",
).everywhere();
const IN_USE: Metric = gauge(
    "nettune_ephemeral_ports_in_use",
    &["destination_port"],
    "Local ports of that pair: of connections, and of those in TIME_WAIT that may not be reused. The latter are looked at when all could take up half of the range.",
).everywhere();
const TIME_WAIT: Metric = gauge(
    "nettune_ephemeral_ports_unreusable_time_wait",
    &["destination_port"],
    "Of those in use the ones in TIME_WAIT that net.ipv4.tcp_tw_reuse, tcp_tw_reuse_delay or tcp_timestamps forbid to reuse.",
).everywhere();
const BOUND_RATIO: Metric = gauge(
    "nettune_ephemeral_ports_bound_ratio",
    &[],
    "Share of the available ports that sockets of one local address hold alone: none is used for two destinations, which is no chance, as where a program binds before it connects without IP_BIND_ADDRESS_NO_PORT. 0 where no address shows that.",
).everywhere();
const UNDECIDED_RATIO: Metric = gauge(
    "nettune_ephemeral_ports_undecided_ratio",
    &[],
    "The same on kernels that do not tell which sockets have IP_BIND_ADDRESS_NO_PORT, in place of nettune_ephemeral_ports_bound_ratio: those that have it are counted too.",
).everywhere();

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&AVAILABLE, &USED_RATIO, &IN_USE, &TIME_WAIT, &BOUND_RATIO, &UNDECIDED_RATIO]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let Some(usage) = snapshot.connections.as_deref().and_then(|found| found.ports.as_ref()) else {
        return Ok(());
    };
    let found = usage.destinations.iter();
    let port = |port: u16| [u32::from(port).into()];
    out.single(&AVAILABLE, Some(usage.available))?;
    let ratio = |in_use: u64| in_use as f64 / usage.available as f64;
    out.family(&USED_RATIO, found.clone().map(|one| (port(one.port), ratio(one.in_use))))?;
    out.family(&IN_USE, found.clone().map(|one| (port(one.port), one.in_use)))?;
    out.family(&TIME_WAIT, found.filter_map(|one| Some((port(one.port), one.unreusable_time_wait?))))?;
    let bound = |is_decided: bool| (usage.bound.is_decided == is_decided).then_some(usage.bound.ratio);
    out.single(&BOUND_RATIO, bound(true))?;
    out.single(&UNDECIDED_RATIO, bound(false))
}
