//! The exporter itself: what it is, how its sources fared, what it costs.

use std::fmt;

use super::writer::{Metric, Writer, counter, gauge, info};
use crate::REVISION;
use crate::catalogue::CATALOGUE;
use crate::model::{Outcome, Snapshot};

/// What the server knows and a snapshot does not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Serving {
    /// Whether the last reload of the configuration succeeded.
    pub reload_successful: bool,
    /// When the configuration was last loaded, seconds since the epoch.
    pub reload_timestamp: f64,
}

const BUILD_INFO: Metric =
    info("nettune_build_info", &["version", "revision"], "Version and source revision of this exporter.");
const CATALOGUE_VERSION: Metric = gauge(
    "nettune_catalogue_version",
    &[],
    "Version of the parameter catalogue this exporter carries, an integer that rules compare.",
);
const SUCCESS: Metric = gauge(
    "nettune_collector_success",
    &["collector"],
    "1 when the source was read, or does not exist here; 0 when it exists and failed. Of other network namespaces those that failed.",
)
.everywhere();
const ABSENT: Metric = gauge(
    "nettune_collector_absent",
    &["collector"],
    "1 when the source does not exist on this kernel or host.",
);
const DURATION: Metric =
    gauge("nettune_collector_duration_seconds", &["collector"], "How long reading the source took.");
const RELOAD_SUCCESSFUL: Metric = gauge(
    "nettune_config_last_reload_successful",
    &[],
    "1 when the last reload of the configuration succeeded, 0 when the one before it is still in use.",
);
const RELOAD_TIMESTAMP: Metric = gauge(
    "nettune_config_last_reload_success_timestamp_seconds",
    &[],
    "When the configuration in use was loaded, seconds since the epoch.",
);
const INTERRUPTED_DUMPS: Metric = counter(
    "nettune_netlink_interrupted_dumps_total",
    &[],
    "Netlink dumps that a change interrupted in every attempt, so that an entry may be missing or counted twice (NLM_F_DUMP_INTR).",
);
const LEDGER_CHANGES: Metric = counter(
    "nettune_ledger_changes_total",
    &[],
    "Changes of parameters that were noticed, those while no exporter ran among them.",
);
const LEDGER_ENTRIES: Metric =
    gauge("nettune_ledger_entries", &[], "Changes of parameters that are remembered and shown at /changes.");
const LEDGER_FAILURES: Metric = counter(
    "nettune_ledger_write_failures_total",
    &[],
    "Attempts to write changes to the state directory that failed; they are made again.",
);
const LEDGER_UNREADABLE: Metric = gauge(
    "nettune_ledger_unreadable_lines",
    &[],
    "Lines of the file of changes that could not be read at the start and were left out.",
);
const LEDGER_PERSISTENT: Metric = gauge(
    "nettune_ledger_persistent",
    &[],
    "1 when changes of parameters are kept in a file and survive a restart, 0 when they are kept in memory only.",
);
const PROCESS_CPU: Metric =
    counter("process_cpu_seconds_total", &[], "User and system CPU time of the exporter in seconds.");
const PROCESS_RESIDENT: Metric =
    gauge("process_resident_memory_bytes", &[], "Resident memory of the exporter in bytes.");
const PROCESS_VIRTUAL: Metric =
    gauge("process_virtual_memory_bytes", &[], "Virtual memory of the exporter in bytes.");
const PROCESS_THREADS: Metric = gauge("process_threads", &[], "Threads of the exporter.");
const PROCESS_FILES: Metric = gauge("process_open_fds", &[], "Open file descriptors of the exporter.");
const PROCESS_START: Metric =
    gauge("process_start_time_seconds", &[], "Start time of the exporter, seconds since the epoch.");

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![
        &BUILD_INFO,
        &CATALOGUE_VERSION,
        &SUCCESS,
        &ABSENT,
        &DURATION,
        &RELOAD_SUCCESSFUL,
        &RELOAD_TIMESTAMP,
        &INTERRUPTED_DUMPS,
        &LEDGER_CHANGES,
        &LEDGER_ENTRIES,
        &LEDGER_FAILURES,
        &LEDGER_UNREADABLE,
        &LEDGER_PERSISTENT,
        &PROCESS_CPU,
        &PROCESS_RESIDENT,
        &PROCESS_VIRTUAL,
        &PROCESS_THREADS,
        &PROCESS_FILES,
        &PROCESS_START,
    ]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot, serving: &Serving) -> fmt::Result {
    out.family(&BUILD_INFO, [([env!("CARGO_PKG_VERSION").into(), REVISION.into()], 1u64)])?;
    out.single(&CATALOGUE_VERSION, Some(CATALOGUE.version))?;
    let reports = &snapshot.reports;
    out.family(
        &SUCCESS,
        reports.iter().map(|report| ([report.source.into()], !matches!(report.outcome, Outcome::Failed(_)))),
    )?;
    out.family(
        &ABSENT,
        reports.iter().map(|report| ([report.source.into()], matches!(report.outcome, Outcome::Absent(_)))),
    )?;
    out.family(
        &DURATION,
        reports.iter().map(|report| ([report.source.into()], report.duration.as_secs_f64())),
    )?;
    out.single(&RELOAD_SUCCESSFUL, Some(serving.reload_successful))?;
    out.single(&RELOAD_TIMESTAMP, Some(serving.reload_timestamp))?;
    out.single(&INTERRUPTED_DUMPS, Some(snapshot.exporter.interrupted_dumps))?;
    let ledger = &snapshot.exporter.ledger;
    out.single(&LEDGER_CHANGES, Some(ledger.changes))?;
    out.single(&LEDGER_ENTRIES, Some(ledger.entries))?;
    out.single(&LEDGER_FAILURES, Some(ledger.write_failures))?;
    out.single(&LEDGER_UNREADABLE, Some(ledger.unreadable_lines))?;
    out.single(&LEDGER_PERSISTENT, Some(ledger.persistent))?;
    write_process(out, snapshot)
}

fn write_process(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let (Some(process), Some(constants)) = (&snapshot.process, &snapshot.constants) else {
        return Ok(());
    };
    let seconds = |ticks: u64| ticks as f64 / constants.clock_ticks.max(1) as f64;
    out.single(&PROCESS_CPU, Some(seconds(process.cpu_ticks)))?;
    out.single(&PROCESS_RESIDENT, Some(process.resident_pages.saturating_mul(constants.page_size)))?;
    out.single(&PROCESS_VIRTUAL, Some(process.virtual_bytes))?;
    out.single(&PROCESS_THREADS, Some(process.threads))?;
    out.single(&PROCESS_FILES, process.open_files)?;
    out.single(&PROCESS_START, process.boot_time.map(|boot| boot as f64 + seconds(process.start_ticks)))
}
