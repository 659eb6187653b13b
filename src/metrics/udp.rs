//! UDP sockets.

use std::fmt;

use super::writer::{Label, Metric, Writer, counter, gauge};
use crate::model::Snapshot;
use crate::model::udp::{Causes, Group};

const SOCKET: &[&str] = &["address", "port"];
const SOCKETS: Metric = gauge(
    "nettune_udp_sockets",
    SOCKET,
    "UDP sockets of this local address and port. Ports that the kernel gives away (ip_local_port_range, not reserved) have a name of their own from 10 drops or half a buffer on; of all that may have one, the 10 with most drops, then the fullest; the others are summed as other.",
)
.everywhere();
const DROPS: Metric = counter(
    "nettune_udp_socket_drops_total",
    SOCKET,
    "Datagrams dropped at these sockets: no room in the buffer or in udp_mem, a wrong checksum, refused by a filter (sk_drops; d of ss -uam); a socket that was not seen before brings all it ever dropped.",
)
.everywhere();
const FILL: Metric = gauge(
    "nettune_udp_socket_receive_buffer_fill_ratio",
    SOCKET,
    "Memory taken over buffer size of the fullest socket; what finds no room is dropped (sk_rmem_alloc over sk_rcvbuf; r and rb of ss -uam).",
)
.everywhere();
const BUFFER: Metric = gauge(
    "nettune_udp_socket_receive_buffer_bytes",
    SOCKET,
    "Receive buffer of the fullest socket, of the smallest where none is fuller (sk_rcvbuf; rb of ss -uam).",
)
.everywhere();
const FULL_SECONDS: Metric = counter(
    "nettune_udp_socket_full_seconds_total",
    SOCKET,
    "Seconds between two looks that both found the same socket 90 % full or more; looked at every --sockets.interval.",
)
.everywhere();
const SET_BY: Metric = gauge(
    "nettune_udp_socket_buffer_set_by",
    &["address", "port", "cause"],
    "Sockets by where the size of their receive buffer comes from: default (equal to net.core.rmem_default), rmem_max (twice net.core.rmem_max: it clamps SO_RCVBUF, or exactly that was asked for), application (any other: SO_RCVBUF, or made before a parameter was changed).",
)
.everywhere();

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&SOCKETS, &DROPS, &FILL, &BUFFER, &FULL_SECONDS, &SET_BY]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let groups = snapshot.udp_sockets.as_deref().map(Vec::as_slice).unwrap_or_default();
    out.family(&SOCKETS, groups.iter().map(|group| (labels(group), group.sockets)))?;
    out.family(&DROPS, groups.iter().filter_map(|group| Some((labels(group), group.drops?))))?;
    out.family(&FILL, groups.iter().map(|group| (labels(group), group.fill)))?;
    out.family(&BUFFER, groups.iter().map(|group| (labels(group), group.buffer)))?;
    out.family(&FULL_SECONDS, groups.iter().map(|group| (labels(group), group.full.as_secs_f64())))?;
    out.family(
        &SET_BY,
        groups.iter().flat_map(|group| {
            let [address, port] = labels(group);
            let causes = group.set_by.into_iter().flat_map(by_cause);
            let causes = causes.filter(|(_, sockets)| *sockets > 0);
            causes.map(move |(cause, sockets)| ([address, port, cause.into()], sockets))
        }),
    )
}

fn by_cause(causes: Causes) -> [(&'static str, u64); 3] {
    [("default", causes.default), ("rmem_max", causes.rmem_max), ("application", causes.application)]
}

fn labels(group: &Group) -> [Label<'_>; 2] {
    [(&group.address).into(), (&group.port).into()]
}
