//! What people declared in the configuration file.

use std::fmt;

use jiff::Timestamp;

use super::writer::{Label, Metric, Writer, gauge, info};
use crate::catalogue::diagnoses::ACCEPTED_BY;
use crate::model::Snapshot;
use crate::model::accepted::Accepted;

const ACCEPTED: Metric = info(
    "nettune_accepted_finding_info",
    &["alert", "netns", "port", "device", "parameter", "path", "cpu"],
    "Findings that the configuration file accepts until a date that has not come: alerts of this name, in this network namespace, about this one thing if any, are silent.",
);
const EXPIRED: Metric = gauge(
    "nettune_accepted_findings_expired",
    &[],
    "Findings that the configuration file accepts and whose date has passed.",
);
const DEVICE_SPEED: Metric = gauge(
    "nettune_netdev_declared_speed_bytes",
    &["device"],
    "What the device may carry by its plan, bytes a second, as declared in the configuration file.",
);
const IDLE_LIMIT: Metric = gauge(
    "nettune_middlebox_idle_limit_seconds",
    &[],
    "Time without a packet after which something on the way forgets a connection, as declared in the configuration file.",
);

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&ACCEPTED, &EXPIRED, &DEVICE_SPEED, &IDLE_LIMIT]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let (declared, now) = (&snapshot.declared, Timestamp::now());
    let holding = declared.accepted.iter().filter(|accepted| accepted.holds(now));
    out.family(&ACCEPTED, holding.map(|accepted| (labels(accepted), 1u64)))?;
    let expired = declared.accepted.iter().filter(|accepted| !accepted.holds(now)).count();
    let any = !declared.accepted.is_empty();
    out.single(&EXPIRED, any.then_some(expired as u64))?;
    let limits = &declared.limits;
    out.family(&DEVICE_SPEED, limits.devices.iter().map(|(device, speed)| ([device.into()], *speed)))?;
    out.single(&IDLE_LIMIT, limits.idle_timeout.map(|timeout| timeout.as_secs_f64()))
}

/// In the order of the metric's.
fn labels(accepted: &Accepted) -> [Label<'_>; 7] {
    let of = |index: usize| match &accepted.of {
        Some((label, value)) if *label == ACCEPTED_BY[index] => Label::from(value),
        _ => Label::from(""),
    };
    let netns = accepted.netns.as_deref().unwrap_or_default();
    [(&accepted.alert).into(), netns.into(), of(0), of(1), of(2), of(3), of(4)]
}
