//! TCP connections.

use std::fmt;

use super::writer::{Metric, Writer, counter, gauge, histogram};
use crate::model::Snapshot;
use crate::model::connections::{ByPath, Path, Role};
use crate::read::connections::State;

const CONNECTIONS: Metric = gauge(
    "nettune_tcp_connections",
    &["state", "role"],
    "Connections by state, and whether something listens on the local port; TIME_WAIT is nettune_tcp_time_wait_sockets, which has fin_wait2 without an owner as well.",
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
const PASSES: Metric = counter("nettune_sockets_passes_total", &[], "Completed passes over all connections.");
const INTERVAL: Metric = gauge(
    "nettune_sockets_pass_interval_seconds",
    &[],
    "Time from pass to pass, longer than --sockets.interval where a pass would cost more than --sockets.cpu-budget.",
);
const CPU: Metric = counter(
    "nettune_sockets_sample_cpu_seconds_total",
    &[],
    "User and system CPU time of the thread that walks sockets, in seconds.",
);

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&CONNECTIONS, &RTT, &MIN_RTT, &PASSES, &INTERVAL, &CPU]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    if let Some(found) = snapshot.connections.as_deref() {
        let now = found.now.iter();
        let states = now.flat_map(|now| State::ALL.into_iter().zip(now.connections));
        out.family(
            &CONNECTIONS,
            states.flat_map(|(state, counts)| {
                let by_role = Role::NAMES.into_iter().zip(counts);
                by_role.map(move |(role, count)| ([state.name().into(), role.into()], count))
            }),
        )?;
        if let Some(times) = &found.times {
            write_times(out, &RTT, &times.rtt)?;
            write_times(out, &MIN_RTT, &times.min_rtt)?;
        }
    }
    if let Some(work) = &snapshot.exporter.sampling {
        out.single(&PASSES, Some(work.passes))?;
        out.single(&INTERVAL, Some(work.interval.as_secs_f64()))?;
        out.single(&CPU, Some(work.cpu.as_secs_f64()))?;
    }
    Ok(())
}

fn write_times(out: &mut Writer<'_>, metric: &Metric, times: &ByPath) -> fmt::Result {
    let by_path = Path::NAMES.into_iter().zip(times);
    out.histograms(metric, by_path.map(|(path, histogram)| ([path.into()], histogram)))
}
