//! TCP connections as the last pass found them, and what passes cost.

use std::fmt;

use super::writer::{Figure, Metric, Writer, counter, gauge};
use crate::model::Snapshot;
use crate::model::connections::Role;
use crate::model::connections::troubles::Troubles;
use crate::read::connections::State;

const CONNECTIONS: Metric = gauge(
    "nettune_tcp_connections",
    &["state", "role"],
    "Connections by state, and whether something listens on the local port; TIME_WAIT is nettune_tcp_time_wait_sockets, which has fin_wait2 without an owner as well.",
).everywhere();
const AT_MAXIMUM: Metric = gauge(
    "nettune_tcp_buffers_at_maximum",
    &["buffer"],
    "Connections whose buffer has the size that net.ipv4.tcp_wmem or net.ipv4.tcp_rmem allows at most, or more.",
).everywhere();
const STALLED: Metric = gauge(
    "nettune_tcp_stalled_connections",
    &["segments"],
    "Established connections with two retransmission timeouts in a row or more, by what is in flight: full_size segments, of which none was ever delivered, as where a path swallows them; delivered_before, full ones as they were delivered earlier; or small ones.",
)
.everywhere();
const PASSES: Metric = counter(
    "nettune_sockets_passes_total",
    &[],
    "Completed passes over all connections, each in one slice or several.",
);
const SAMPLED: Metric = gauge(
    "nettune_sockets_sampled_ratio",
    &[],
    "Share of the connections that each pass takes: below 1 where all of them would cost more than --sockets.cpu-budget. Numbers of connections and observations of histograms are then estimates; counters are exact, each connection's when its turn comes.",
);
const INTERVAL: Metric = gauge(
    "nettune_sockets_pass_interval_seconds",
    &[],
    "Time from pass to pass, longer than --sockets.interval where a slice of the connections would still cost more than --sockets.cpu-budget.",
);
const CPU: Metric = counter(
    "nettune_sockets_sample_cpu_seconds_total",
    &[],
    "User and system CPU time of the threads that walk sockets and hear of closed ones, in seconds.",
);
const LOST_EVENTS: Metric = counter(
    "nettune_netlink_lost_events_total",
    &[],
    "Notifications of closed connections that were lost for want of room; what those connections did since the last pass is missing from the sums.",
);
const HEARS_CLOSES: Metric = gauge(
    "nettune_sockets_close_notifications",
    &[],
    "1 while the kernel tells of connections that close between passes; 0 where it cannot, where that is switched off, and while it costs more than its part of --sockets.cpu-budget.",
);

const RECEIVE_BUFFERS_FULL: Metric = gauge(
    "nettune_tcp_receive_buffers_full",
    &[],
    "Connections whose receive buffer is full to nine tenths, overhead included (SK_MEMINFO_RMEM_ALLOC, SK_MEMINFO_RCVBUF).",
).everywhere();
const RECEIVE_BUFFERS_UNREAD: Metric = gauge(
    "nettune_tcp_receive_buffers_unread",
    &[],
    "Connections of which half of the receive buffer waits for the program to read it.",
)
.everywhere();
const BACKOFF: Metric = gauge(
    "nettune_tcp_backoff_connections",
    &[],
    "Connections with at least one retransmission timeout and nothing heard since (tcpi_backoff).",
)
.everywhere();
const PEER_GONE: Metric = gauge(
    "nettune_tcp_peer_gone_connections",
    &[],
    "Connections with six retransmission timeouts in a row or more, and data that is not acknowledged.",
)
.everywhere();
const SMALL_MSS: Metric = gauge(
    "nettune_tcp_small_mss_connections",
    &[],
    "Established connections whose segments have become less than half of what the path is believed to carry and of what they were seen to be, though the window of the peer allows for more (tcpi_snd_mss, tcpi_pmtu, tcpi_snd_wnd; since 5.4). One that was small when it was first seen is not among them: its peer may want that.",
)
.everywhere();
const SMALLER_MSS: Metric = gauge(
    "nettune_tcp_smaller_mss_than_peers_connections",
    &[],
    "Of those, connections to whose neighbours others send segments of more than twice the size.",
)
.everywhere();
const KEEPALIVE: Metric =
    gauge("nettune_tcp_keepalive_connections", &[], "Established connections whose keepalive timer runs.")
        .everywhere();
const ORPHANED_FIN_WAIT2: Metric = gauge(
    "nettune_tcp_orphaned_fin_wait2_connections",
    &[],
    "Connections in FIN_WAIT2 that no program holds: what net.ipv4.tcp_fin_timeout bounds.",
)
.everywhere();

const TROUBLES: [Figure<Troubles, u64>; 8] = [
    (&RECEIVE_BUFFERS_FULL, |found| found.receive_buffer_full),
    (&RECEIVE_BUFFERS_UNREAD, |found| found.unread),
    (&BACKOFF, |found| found.in_backoff),
    (&PEER_GONE, |found| found.peer_gone),
    (&SMALL_MSS, |found| found.small_mss),
    (&SMALLER_MSS, |found| found.smaller_mss_than_peers),
    (&KEEPALIVE, |found| found.keepalive),
    (&ORPHANED_FIN_WAIT2, |found| found.orphaned_fin_wait2),
];

pub(super) fn metrics() -> Vec<&'static Metric> {
    let troubles = TROUBLES.map(|(metric, _)| metric);
    let work = [&PASSES, &SAMPLED, &INTERVAL, &CPU, &LOST_EVENTS, &HEARS_CLOSES];
    [&CONNECTIONS, &AT_MAXIMUM, &STALLED].into_iter().chain(troubles).chain(work).collect()
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let connections = snapshot.connections.as_deref();
    if let Some(now) = connections.and_then(|connections| connections.now.as_ref()) {
        let states = State::ALL.into_iter().zip(now.connections);
        out.family(
            &CONNECTIONS,
            states.flat_map(|(state, counts)| {
                let by_role = Role::NAMES.into_iter().zip(counts);
                by_role.map(move |(role, count)| ([state.name().into(), role.into()], count))
            }),
        )?;
        let troubles = &now.troubles;
        let buffers =
            [("send", troubles.send_buffer_at_maximum), ("receive", troubles.receive_buffer_at_maximum)];
        out.family(&AT_MAXIMUM, buffers.map(|(buffer, count)| ([buffer.into()], count)))?;
        let segments = [
            ("full_size", troubles.stalled_full_size),
            ("delivered_before", troubles.stalled_delivered_before),
            ("small", troubles.stalled_small),
        ];
        out.family(&STALLED, segments.map(|(size, count)| ([size.into()], count)))?;
        for (metric, figure) in TROUBLES {
            out.single(metric, Some(figure(troubles)))?;
        }
    }
    let Some(work) = &snapshot.exporter.sampling else { return Ok(()) };
    if connections.is_some() {
        out.single(&PASSES, Some(work.passes))?;
        out.single(&SAMPLED, Some(work.sampled_ratio))?;
        out.single(&INTERVAL, Some(work.interval.as_secs_f64()))?;
        out.single(&LOST_EVENTS, Some(work.lost_events))?;
        out.single(&HEARS_CLOSES, Some(work.hears_closes))?;
    }
    out.single(&CPU, Some(work.cpu.as_secs_f64()))
}
