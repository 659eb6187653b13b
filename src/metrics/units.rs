//! Units: whose memory sockets take.

use std::fmt;

use super::writer::{Label, Metric, Writer, gauge};
use crate::model::Snapshot;

const TCP_MEMORY: Metric = gauge(
    "nettune_tcp_unit_memory_bytes",
    &["unit"],
    "Memory of TCP connections by the systemd unit or container whose cgroup they were made in: received, queued for sending and reserved (r, w and f of ss -tm). The 10 that hold most; other has the rest, and what no unit is known for.",
)
.everywhere();

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&TCP_MEMORY]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let units = snapshot.connections.iter().flat_map(|connections| &connections.unit_memory);
    out.family(&TCP_MEMORY, units.map(|unit| ([Label::from(&unit.unit)], unit.bytes)))
}
