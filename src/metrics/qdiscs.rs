//! Queueing disciplines.

use std::fmt;

use super::writer::{Label, Metric, Writer, counter, gauge};
use crate::model::Snapshot;
use crate::model::devices::QdiscGroup;
use crate::read::qdiscs::Place;

const QDISC: &[&str] = &["device", "kind", "place"];
const INSTANCES: Metric = gauge(
    "nettune_qdisc_instances",
    QDISC,
    "Queueing disciplines of this kind at this place of the device: root, leaf (one a queue below mq) or ingress.",
)
.everywhere();

/// A family, and what of a group it shows.
type Column = (Metric, fn(&QdiscGroup) -> u64);

const COLUMNS: &[Column] = &[
    (INSTANCES, |group| group.count),
    (
        counter(
            "nettune_qdisc_sent_bytes_total",
            QDISC,
            "Bytes sent, or received for place ingress; mq and classful roots count what passes their leaves too (tc -s).",
        ),
        |group| group.sum.bytes,
    ),
    (
        counter(
            "nettune_qdisc_sent_packets_total",
            QDISC,
            "Packets sent, or received for place ingress; mq and classful roots count what passes their leaves too (tc -s).",
        ),
        |group| group.sum.packets,
    ),
    (
        counter(
            "nettune_qdisc_drops_total",
            QDISC,
            "Packets dropped by this host; of leaves their sum, which falls when a leaf goes away (tc -s, dropped).",
        )
        .everywhere(),
        |group| group.sum.drops,
    ),
    (
        counter(
            "nettune_qdisc_overlimits_total",
            QDISC,
            "Times a rate or length limit was met (tc -s, overlimits).",
        ),
        |group| group.sum.overlimits,
    ),
    (
        counter("nettune_qdisc_requeues_total", QDISC, "Packets the driver gave back (tc -s, requeues)."),
        |group| group.sum.requeues,
    ),
    (gauge("nettune_qdisc_backlog_bytes", QDISC, "Bytes queued now (tc -s, backlog)."), |group| {
        group.sum.backlog_bytes
    }),
    (gauge("nettune_qdisc_backlog_packets", QDISC, "Packets queued now (tc -s, backlog)."), |group| {
        group.sum.backlog_packets
    }),
];

pub(super) fn metrics() -> Vec<&'static Metric> {
    COLUMNS.iter().map(|(metric, _)| metric).collect()
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let groups = snapshot.qdiscs.as_deref().unwrap_or_default();
    for (metric, column) in COLUMNS {
        out.family(metric, groups.iter().map(|group| (labels(group), column(group))))?;
    }
    Ok(())
}

fn labels(group: &QdiscGroup) -> [Label<'_>; 3] {
    let place = match group.place {
        Place::Root => "root",
        Place::Leaf => "leaf",
        Place::Ingress => "ingress",
    };
    [(&group.device).into(), (&group.kind).into(), place.into()]
}
