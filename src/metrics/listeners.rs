//! Listening TCP sockets.

use std::fmt;

use super::writer::{Label, Metric, Writer, counter, gauge, info};
use crate::model::Snapshot;
use crate::model::listeners::{Causes, Group};

const LISTENER: &[&str] = &["address", "port"];
const QUEUE: Metric = gauge(
    "nettune_listener_accept_queue",
    LISTENER,
    "Connections that wait for accept(), of all sockets of this address and port (sk_ack_backlog; Recv-Q of ss -lt).",
).everywhere();
const QUEUE_PEAK: Metric = gauge(
    "nettune_listener_accept_queue_peak",
    LISTENER,
    "The longest accept queue of the last five minutes, of all sockets together, looked at once a second; what was between two looks is not seen.",
).everywhere();
const LIMIT: Metric = gauge(
    "nettune_listener_accept_queue_limit",
    LISTENER,
    "What listen() was given, at most somaxconn of that moment, summed over the sockets (sk_max_ack_backlog; Send-Q of ss -lt).",
).everywhere();
const FILL: Metric = gauge(
    "nettune_listener_accept_queue_fill_ratio",
    LISTENER,
    "Queue over limit + 1 of the fullest socket; at 1 it is full and further attempts are dropped.",
)
.everywhere();
const SOCKET_LIMIT: Metric = gauge(
    "nettune_listener_socket_limit",
    LISTENER,
    "Limit of the fullest single socket, of the smallest where none is fuller.",
)
.everywhere();
const FULL_SECONDS: Metric = counter(
    "nettune_listener_full_seconds_total",
    LISTENER,
    "Seconds during which a socket was seen full, looked at once a second.",
)
.everywhere();
const SOCKETS: Metric = gauge(
    "nettune_listener_sockets",
    LISTENER,
    "Listening sockets of this address and port, more than one with SO_REUSEPORT or where each is bound to a device of its own.",
).everywhere();
const DROPS: Metric = counter(
    "nettune_listener_drops_total",
    LISTENER,
    "Packets dropped at these sockets: connection attempts, and stray ones such as a RST (sk_drops; d of ss -ltm).",
).everywhere();
const SYN_RECV: Metric = gauge(
    "nettune_listener_syn_recv",
    LISTENER,
    "Connections of this listener in SYN_RECV at the last pass: half open, or by TCP Fast Open.",
)
.everywhere();
const OLDEST_UNACCEPTED: Metric = gauge(
    "nettune_listener_oldest_unaccepted_seconds",
    LISTENER,
    "Time from the pass that first saw the oldest connection that waits for accept() to the last pass; 0 when none waits (inode 0).",
).everywhere();
const LIMITED_BY: Metric = gauge(
    "nettune_listener_limited_by",
    &["address", "port", "cause"],
    "Sockets by where their limit comes from: somaxconn (equal to it now: it clamps, or listen() asked for as much), application (less; or somaxconn was raised before the exporter saw the socket), older_somaxconn (less, and listen() came before a raise: the somaxconn when the limit was first seen, or, of a socket older than the exporter, the somaxconn before the last change in this boot, unless the program asked for just as much since), above_somaxconn (more: listen() came before somaxconn was lowered).",
)
.everywhere();
const IN_PORT_RANGE: Metric = gauge(
    "nettune_listener_in_port_range",
    LISTENER,
    "1 when the kernel may give this port to an outgoing connection while nobody listens, and the program would miss it: in ip_local_port_range, not reserved, and named to bind(), not chosen by the kernel.",
).everywhere();

const INFO: Metric = info(
    "nettune_listener_info",
    &["address", "port", "unit"],
    "1 for each systemd unit or container, at most 3, whose cgroup these sockets were made in (INET_DIAG_CGROUP_ID; with socket activation that of systemd). Where that names none, once a queue was full or something was dropped: the name of the process that holds the socket. No sample where neither is known.",
)
.everywhere();

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![
        &QUEUE,
        &QUEUE_PEAK,
        &LIMIT,
        &FILL,
        &SOCKET_LIMIT,
        &FULL_SECONDS,
        &SOCKETS,
        &DROPS,
        &SYN_RECV,
        &OLDEST_UNACCEPTED,
        &LIMITED_BY,
        &IN_PORT_RANGE,
        &INFO,
    ]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let groups = snapshot.listeners.as_deref().map(Vec::as_slice).unwrap_or_default();
    let of = |figure: fn(&Group) -> u64| groups.iter().map(move |group| (labels(group), figure(group)));
    out.family(&QUEUE, of(|group| group.queue))?;
    out.family(&QUEUE_PEAK, of(|group| group.queue_peak))?;
    out.family(&LIMIT, of(|group| group.limit))?;
    out.family(&FILL, groups.iter().map(|group| (labels(group), group.fill)))?;
    out.family(&SOCKET_LIMIT, of(|group| group.socket_limit))?;
    out.family(&FULL_SECONDS, groups.iter().map(|group| (labels(group), group.full.as_secs_f64())))?;
    out.family(&SOCKETS, of(|group| group.sockets))?;
    out.family(&DROPS, groups.iter().filter_map(|group| Some((labels(group), group.drops?))))?;
    out.family(&SYN_RECV, groups.iter().filter_map(|group| Some((labels(group), group.waiting?.half_open))))?;
    out.family(
        &OLDEST_UNACCEPTED,
        groups
            .iter()
            .filter_map(|group| Some((labels(group), group.waiting?.oldest_unaccepted.as_secs_f64()))),
    )?;
    out.family(
        &LIMITED_BY,
        groups.iter().flat_map(|group| {
            let [address, port] = labels(group);
            let causes = group.limited_by.into_iter().flat_map(by_cause);
            let causes = causes.filter(|(_, sockets)| *sockets > 0);
            causes.map(move |(cause, sockets)| ([address, port, cause.into()], sockets))
        }),
    )?;
    out.family(
        &IN_PORT_RANGE,
        groups.iter().filter_map(|group| Some((labels(group), group.in_port_range?))),
    )?;
    let units = groups.iter().flat_map(|group| {
        let [address, port] = labels(group);
        group.units.iter().map(move |unit| ([address, port, unit.into()], 1u64))
    });
    out.family(&INFO, units)
}

fn by_cause(causes: Causes) -> [(&'static str, u64); 4] {
    [
        ("somaxconn", causes.somaxconn),
        ("application", causes.application),
        ("older_somaxconn", causes.older_somaxconn),
        ("above_somaxconn", causes.above_somaxconn),
    ]
}

fn labels(group: &Group) -> [Label<'_>; 2] {
    [(&group.address).into(), (&group.port).into()]
}
