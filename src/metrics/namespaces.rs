//! Network namespaces: which one this is, and which others are read.

use std::fmt;

use super::writer::{Label, Metric, Writer, counter, gauge, info};
use crate::model::Snapshot;
use crate::model::namespaces::{LIMIT, NEW_NAMES};

const INITIAL: Metric = gauge(
    "nettune_initial_network_namespace",
    &[],
    "1 where the exporter is in the initial network namespace, known by keys that only that has, 0 in another; no sample where it cannot be told.",
);
const INFO: Metric = info(
    "nettune_netns_info",
    &["netns", "inode", "unit", "enter"],
    "Other network namespaces that are read: the inode number, the container or unit of the first process, and what a command is preceded by to run inside.",
);
const AGE: Metric = gauge(
    "nettune_netns_age_seconds",
    &["netns"],
    "Time since the figures of this network namespace were read, but for those of connections.",
);
const CONNECTIONS_AGE: Metric = gauge(
    "nettune_netns_connections_age_seconds",
    &["netns"],
    "Time since the last pass over the TCP connections of this network namespace; no sample where there are none. Passes are as often as --sockets.cpu-budget allows, since the kernel walks the connections of all namespaces for each.",
);
const FOUND: Metric = gauge(
    "nettune_netns_found",
    &[],
    "Network namespaces besides our own that the last scan found, read or not (mountinfo, /proc/*/ns/net).",
);
const NOT_ENTERED: Metric = gauge(
    "nettune_netns_not_entered",
    &["reason"],
    "Network namespaces that are wanted and not read: for want of CAP_SYS_ADMIN (privilege), beyond nettune_netns_limit (limit) or nettune_netns_new_names_limit (new_names), or because it failed. not_found are names of --netns that no namespace has.",
);
const NEW: Metric =
    gauge("nettune_netns_new_names", &[], "Names of network namespaces that were new in the last hour.");
const NEW_LIMIT: Metric = gauge(
    "nettune_netns_new_names_limit",
    &[],
    "Most names that may be new within an hour; further namespaces are not read until one is an hour old.",
);
const MOST: Metric = gauge("nettune_netns_limit", &[], "Most other network namespaces that are read.");
const CPU: Metric = counter(
    "nettune_netns_cpu_seconds_total",
    &[],
    "User and system CPU time of the thread that reads other network namespaces, in seconds.",
);

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&INITIAL, &INFO, &AGE, &CONNECTIONS_AGE, &FOUND, &NOT_ENTERED, &NEW, &NEW_LIMIT, &MOST, &CPU]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    out.single(&INITIAL, snapshot.in_initial_namespace)?;
    let Some(found) = &snapshot.namespaces else { return Ok(()) };
    let inodes: Vec<String> = found.read.iter().map(|one| one.place.inode.to_string()).collect();
    out.family(
        &INFO,
        found.read.iter().zip(&inodes).map(|(one, inode)| {
            let place = &one.place;
            ([Label::from(&place.name), inode.into(), (&place.unit).into(), (&place.enter).into()], 1u64)
        }),
    )?;
    out.family(
        &AGE,
        found.read.iter().map(|one| ([(&one.place.name).into()], one.at.elapsed().as_secs_f64())),
    )?;
    let passed = found.read.iter().filter_map(|one| Some((&one.place.name, one.passed?)));
    out.family(&CONNECTIONS_AGE, passed.map(|(name, at)| ([name.into()], at.elapsed().as_secs_f64())))?;
    out.single(&FOUND, Some(found.found))?;
    let reasons = found.not_entered.by_reason();
    out.family(&NOT_ENTERED, reasons.map(|(reason, count)| ([reason.into()], count)))?;
    out.single(&NEW, Some(found.new_names))?;
    out.single(&NEW_LIMIT, Some(NEW_NAMES as u64))?;
    out.single(&MOST, Some(LIMIT as u64))?;
    out.single(&CPU, Some(found.cpu))
}
