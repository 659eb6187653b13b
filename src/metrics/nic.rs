//! Network cards: rings, channels, drivers' counters and steering.

use std::fmt;

use super::writer::{Figure, Label, Metric, Writer, counter, gauge};
use crate::model::Snapshot;
use crate::read::nic::{Setting, Settings};
use crate::read::steering::{Cpus, Queue, Steering};

const RING: Metric = gauge(
    "nettune_nic_ring_descriptors",
    &["device", "kind"],
    "Descriptors of the ring now (ethtool -g, current).",
);
const RING_LIMIT: Metric = gauge(
    "nettune_nic_ring_descriptors_limit",
    &["device", "kind"],
    "Most descriptors the ring can have (ethtool -g, maximum).",
);
const CHANNELS: Metric =
    gauge("nettune_nic_channels_current", &["device", "kind"], "Channels in use (ethtool -l, current).");
const CHANNELS_LIMIT: Metric = gauge(
    "nettune_nic_channels_limit",
    &["device", "kind"],
    "Most channels the device can have (ethtool -l, maximum).",
);
const DRIVER_LOSSES: Metric = counter(
    "nettune_nic_driver_losses_total",
    &["device", "cause", "counter"],
    "What the driver itself counts of packets lost for want of room (ethtool -S, under the name in counter).",
);
const RPS_CPUS: Metric = gauge(
    "nettune_nic_rps_cpus",
    &["device", "queue"],
    "CPUs that may process packets of the receive queue, 0 is off (sysfs, rps_cpus).",
);
const RPS_FLOWS: Metric = gauge(
    "nettune_nic_rps_flow_entries",
    &["device", "queue"],
    "Entries of the receive queue's flow table, 0 is off (sysfs, rps_flow_cnt).",
);
const XPS_CPUS: Metric = gauge(
    "nettune_nic_xps_cpus",
    &["device", "queue"],
    "CPUs that prefer the transmit queue, 0 is none (sysfs, xps_cpus).",
);
const XPS_DISTINCT: Metric = gauge(
    "nettune_nic_xps_distinct_cpus",
    &["device"],
    "CPUs that prefer any of the transmit queues of a device that has several, each counted once (sysfs, xps_cpus).",
);

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![
        &RING,
        &RING_LIMIT,
        &CHANNELS,
        &CHANNELS_LIMIT,
        &DRIVER_LOSSES,
        &RPS_CPUS,
        &RPS_FLOWS,
        &XPS_CPUS,
        &XPS_DISTINCT,
    ]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    if let Some(nic) = &snapshot.nic {
        write_settings(out, &nic.rings, &RING, &RING_LIMIT)?;
        write_settings(out, &nic.channels, &CHANNELS, &CHANNELS_LIMIT)?;
        let losses = nic.driver_counters.iter().flat_map(|(device, counters)| {
            counters.iter().map(move |counter| {
                let labels = [Label::from(device), counter.cause.name().into(), counter.name.into()];
                (labels, counter.value)
            })
        });
        out.family(&DRIVER_LOSSES, losses)?;
    }
    let steering: [Figure<Queue, Option<u64>>; 3] = [
        (&RPS_CPUS, |queue| match &queue.steering {
            Steering::Receive { cpus, .. } => cpus.as_ref().map(count),
            Steering::Transmit { .. } => None,
        }),
        (&RPS_FLOWS, |queue| match queue.steering {
            Steering::Receive { flows, .. } => flows,
            Steering::Transmit { .. } => None,
        }),
        (&XPS_CPUS, |queue| match &queue.steering {
            Steering::Receive { .. } => None,
            Steering::Transmit { cpus } => cpus.as_ref().map(count),
        }),
    ];
    let devices = snapshot.steering.as_deref().unwrap_or_default();
    for (metric, value) in steering {
        let samples = devices.iter().flat_map(|(device, queues)| {
            queues
                .iter()
                .filter_map(move |queue| Some(([Label::from(device), (&queue.name).into()], value(queue)?)))
        });
        out.family(metric, samples)?;
    }
    let distinct =
        devices.iter().filter_map(|(device, queues)| Some(([device.into()], count(&any_of(queues)?))));
    out.family(&XPS_DISTINCT, distinct)
}

fn count(cpus: &Cpus) -> u64 {
    cpus.count().into()
}

/// CPUs that prefer any of the transmit queues; `None` where the kernel has nothing to
/// choose.
fn any_of(queues: &[Queue]) -> Option<Cpus> {
    let of_transmit = |queue: &Queue| match &queue.steering {
        Steering::Transmit { cpus } => cpus.clone(),
        Steering::Receive { .. } => None,
    };
    queues.iter().filter_map(of_transmit).reduce(|mut all, cpus| {
        all.add(&cpus);
        all
    })
}

fn write_settings(
    out: &mut Writer<'_>,
    all: &[Settings],
    now: &'static Metric,
    limit: &'static Metric,
) -> fmt::Result {
    let figures: [Figure<Setting, u32>; 2] =
        [(now, |setting| setting.current), (limit, |setting| setting.maximum)];
    for (metric, figure) in figures {
        let samples = all.iter().flat_map(|device| {
            device
                .settings
                .iter()
                .map(move |setting| ([Label::from(&device.device), setting.kind.into()], figure(setting)))
        });
        out.family(metric, samples)?;
    }
    Ok(())
}
