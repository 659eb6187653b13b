//! What TCP connections did since the start, by path and by what limited them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::writer::{Figure, Label, Metric, Value, Writer, counter, gauge, histogram, info};
use crate::model::connections::paths::PathId;
use crate::model::connections::sums::Totals;
use crate::model::histogram::Histogram;
use crate::model::{Followed, Snapshot};

const BUSY: Metric = counter(
    "nettune_tcp_busy_seconds_total",
    &["path", "congestion"],
    "Time that connections had something to send or not yet acknowledged (tcpi_busy_time).",
)
.everywhere();
const SENT: Metric = counter(
    "nettune_tcp_bytes_sent_total",
    &["path", "congestion"],
    "Payload that connections sent, retransmissions as well (tcpi_bytes_sent; before 4.19 tcpi_bytes_acked).",
)
.everywhere();
const RETRANSMITTED: Metric = counter(
    "nettune_tcp_bytes_retransmitted_total",
    &["path", "congestion"],
    "Payload that connections sent again (tcpi_bytes_retrans).",
)
.everywhere();
const SPURIOUS: Metric = counter(
    "nettune_tcp_spurious_retransmits_total",
    &["path", "congestion"],
    "Segments that peers reported to have come twice (tcpi_dsack_dups).",
)
.everywhere();
const LIMITED: Metric = counter(
    "nettune_tcp_limited_seconds_total",
    &["limit", "cause", "path", "congestion"],
    "Busy time by what limited each connection, and why, decided connection by connection (tcpi_rwnd_limited, tcpi_sndbuf_limited, the rest of tcpi_busy_time); of one that closed the cause last seen, else unknown, which congestion is too for one that came and went between two passes.",
)
.everywhere();
const RECEIVING: Metric = counter(
    "nettune_tcp_receiving_seconds_total",
    &["path"],
    "Time during which connections mostly received.",
)
.everywhere();
const RECEIVE_LIMITED: Metric = counter(
    "nettune_tcp_receive_limited_seconds_total",
    &["cause", "path"],
    "Of the time during which connections mostly received, that during which our side held the peer back.",
)
.everywhere();
const BELOW_WITNESS: Metric = counter(
    "nettune_tcp_below_witness_seconds_total",
    &["limit", "cause", "path"],
    "Busy time of connections that ran at a quarter or less of the rate witnessed to the same peers, in two passes in a row, with no standing queue and, where the network limits, no path in use by others; cause as for the time limited.",
)
.everywhere();
const IDLE_RESTARTS: Metric = counter(
    "nettune_tcp_idle_restarts_total",
    &["path"],
    "Congestion windows seen smaller after an idle time, with no other reason than net.ipv4.tcp_slow_start_after_idle, and less than what is sent at once.",
).everywhere();
const RATIO: Metric = histogram(
    "nettune_tcp_cwnd_bdp_ratio",
    &["basis", "limit", "path"],
    "Congestion window over the bandwidth-delay product, of each connection that was busy for a fifth of the time and not limited by its application, once a pass. delivered, only where the network limits: by its own rate, about 1, more with a standing queue; bbr: by what BBR believes, about 2 is normal; witnessed and declared: by what the path is known to carry, below 1 where the congestion window is too small for it.",
);
const RTT: Metric = histogram(
    "nettune_tcp_rtt_seconds",
    &["path"],
    "Smoothed round trip time of connections that sent data and heard from their peer since the last pass, one observation a pass (tcpi_rtt).",
);
const MIN_RTT: Metric = histogram(
    "nettune_tcp_min_rtt_seconds",
    &["path"],
    "Least round trip time of the last minutes of the same connections (tcpi_min_rtt).",
);
const DELIVERY_RATE: Metric = histogram(
    "nettune_tcp_delivery_rate_bytes",
    &["path"],
    "Payload that connections delivered, bytes a second of their busy time, of those that were busy for a fifth of the time and not limited by their application, once a pass (tcpi_bytes_sent, tcpi_bytes_retrans, tcpi_unacked, tcpi_busy_time).",
);
const PATH: Metric = info(
    "nettune_path_info",
    &["path", "class"],
    "Paths by name, and their class by round trip time: local below 1 ms, region below 20 ms, long.",
);
const WITNESSED: Metric = gauge(
    "nettune_path_witnessed_bandwidth_bytes",
    &["path"],
    "Best sum of concurrent rates to one neighbourhood of peers (/24, /56) in the last ten minutes, bytes a second: what the path carries at least.",
);
const DECLARED_BANDWIDTH: Metric = gauge(
    "nettune_path_declared_bandwidth_bytes",
    &["path"],
    "Bandwidth of a declared path, bytes a second.",
);
const DECLARED_RTT: Metric =
    gauge("nettune_path_declared_rtt_seconds", &["path"], "Round trip time of a declared path.");
const FOLLOWED: Metric =
    gauge("nettune_sockets_followed", &[], "Connections whose counters are remembered from pass to pass.");
const NOT_FOLLOWED: Metric = counter(
    "nettune_sockets_not_followed_total",
    &[],
    "Connections that a pass met and for which there was no room to remember them, once a pass.",
);

const TOTALS: [Figure<Totals, Value>; 4] = [
    (&BUSY, |totals| totals.busy.as_secs_f64().into()),
    (&SENT, |totals| totals.sent.into()),
    (&RETRANSMITTED, |totals| totals.retransmitted.into()),
    (&SPURIOUS, |totals| totals.spurious.into()),
];

pub(super) fn metrics() -> Vec<&'static Metric> {
    let totals = TOTALS.map(|(metric, _)| metric);
    let others = [
        &LIMITED,
        &RECEIVING,
        &RECEIVE_LIMITED,
        &BELOW_WITNESS,
        &IDLE_RESTARTS,
        &RATIO,
        &RTT,
        &MIN_RTT,
        &DELIVERY_RATE,
        &PATH,
        &WITNESSED,
        &DECLARED_BANDWIDTH,
        &DECLARED_RTT,
        &FOLLOWED,
        &NOT_FOLLOWED,
    ];
    totals.into_iter().chain(others).collect()
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let connections = snapshot.connections.as_deref();
    let Some(found) = connections.and_then(|connections| connections.followed.as_ref()) else {
        return Ok(());
    };
    let sums = &found.sums;
    let names = Names::new(found);
    for (metric, figure) in TOTALS {
        out.family(
            metric,
            sums.totals.iter().map(|((path, algorithm), totals)| {
                ([names.path(*path), names.algorithm(*algorithm)], figure(totals))
            }),
        )?;
    }
    out.family(
        &LIMITED,
        sums.limited.iter().map(|((limit, cause, path, algorithm), time)| {
            let labels =
                [limit.name().into(), cause.name().into(), names.path(*path), names.algorithm(*algorithm)];
            (labels, seconds(time))
        }),
    )?;
    out.family(&RECEIVING, sums.receiving.iter().map(|(path, time)| ([names.path(*path)], seconds(time))))?;
    out.family(
        &RECEIVE_LIMITED,
        sums.receive_limited
            .iter()
            .map(|((cause, path), time)| ([cause.name().into(), names.path(*path)], seconds(time))),
    )?;
    out.family(
        &BELOW_WITNESS,
        sums.below_witness.iter().map(|((limit, cause, path), time)| {
            ([limit.name().into(), cause.name().into(), names.path(*path)], seconds(time))
        }),
    )?;
    out.family(&IDLE_RESTARTS, sums.idle_restarts.iter().map(|(path, count)| ([names.path(*path)], *count)))?;
    out.histograms(
        &RATIO,
        sums.ratios.iter().map(|((basis, limit, path), histogram)| {
            ([basis.name().into(), limit.name().into(), names.path(*path)], histogram)
        }),
    )?;
    for (metric, histograms) in
        [(&RTT, &sums.rtt), (&MIN_RTT, &sums.min_rtt), (&DELIVERY_RATE, &sums.delivery_rates)]
    {
        by_path(out, metric, histograms, &names)?;
    }
    write_paths(out, found, &names)?;
    out.single(&FOLLOWED, Some(found.followed))?;
    out.single(&NOT_FOLLOWED, Some(sums.not_followed))
}

fn write_paths(out: &mut Writer<'_>, found: &Followed, names: &Names<'_>) -> fmt::Result {
    let classes = found.paths.classes();
    out.family(&PATH, classes.map(|(path, class)| ([path.into(), class.name().into()], 1u64)))?;
    out.family(&WITNESSED, found.witnessed.iter().map(|(path, rate)| ([names.path(*path)], *rate)))?;
    let declared = || found.paths.0.iter();
    out.family(&DECLARED_BANDWIDTH, declared().map(|path| ([(&path.name).into()], path.bandwidth)))?;
    out.family(&DECLARED_RTT, declared().map(|path| ([(&path.name).into()], seconds(&path.rtt))))
}

fn by_path(
    out: &mut Writer<'_>,
    metric: &Metric,
    histograms: &BTreeMap<PathId, Histogram>,
    names: &Names<'_>,
) -> fmt::Result {
    out.histograms(metric, histograms.iter().map(|(path, histogram)| ([names.path(*path)], histogram)))
}

fn seconds(time: &Duration) -> f64 {
    time.as_secs_f64()
}

/// Names of paths and algorithms by number.
struct Names<'a> {
    paths: Vec<&'a str>,
    algorithms: &'a [String],
}

impl<'a> Names<'a> {
    fn new(found: &'a Followed) -> Self {
        Self { paths: found.paths.names().collect(), algorithms: &found.algorithms }
    }

    fn path(&self, number: PathId) -> Label<'a> {
        self.paths.get(usize::from(number)).copied().unwrap_or_default().into()
    }

    fn algorithm(&self, number: u8) -> Label<'a> {
        self.algorithms.get(usize::from(number)).map_or("", String::as_str).into()
    }
}
