//! The receive path of each CPU: softnet, softirqs and interrupts.

use std::fmt;

use super::writer::{Figure, Label, Metric, Writer, counter, gauge};
use crate::model::Snapshot;
use crate::read::softnet::Cpu;

const PROCESSED: Metric = counter(
    "nettune_softnet_processed_total",
    &["cpu"],
    "Packets the CPU took in, once more for each virtual device they pass (softnet_stat, column 1).",
);
const DROPPED: Metric = counter(
    "nettune_softnet_dropped_total",
    &["cpu"],
    "Packets dropped because the CPU's backlog was at net.core.netdev_max_backlog, or by the flow limit (softnet_stat, column 2).",
);
const TIME_SQUEEZED: Metric = counter(
    "nettune_softnet_time_squeezed_total",
    &["cpu"],
    "Receive runs that ended at the budget with work left, which loses nothing by itself (softnet_stat, column 3).",
);
const COLLISIONS: Metric = counter(
    "nettune_softnet_cpu_collisions_total",
    &["cpu"],
    "Times a transmit lock was found taken, always 0 since kernel 4.8 (softnet_stat, column 9).",
);
const RECEIVED_RPS: Metric = counter(
    "nettune_softnet_received_rps_total",
    &["cpu"],
    "Times another CPU handed packets to this one by RPS (softnet_stat, column 10).",
);
const FLOW_LIMIT: Metric = counter(
    "nettune_softnet_flow_limit_total",
    &["cpu"],
    "Packets of one heavy flow dropped by the flow limit, counted in column 2 too (softnet_stat, column 11).",
);
const BACKLOG: Metric = gauge(
    "nettune_softnet_backlog_packets",
    &["cpu"],
    "Packets in the CPU's backlog now (softnet_stat, column 12).",
);
const INPUT_QUEUE: Metric = gauge(
    "nettune_softnet_input_queue_packets",
    &["cpu"],
    "Part of the backlog that is not taken up yet (softnet_stat, column 14).",
);
const PROCESS_QUEUE: Metric = gauge(
    "nettune_softnet_process_queue_packets",
    &["cpu"],
    "Part of the backlog that is being processed (softnet_stat, column 15).",
);
const NET_RX: Metric = counter(
    "nettune_softirq_net_rx_total",
    &["cpu"],
    "Runs of the receive softirq (NET_RX of /proc/softirqs).",
);
const NET_TX: Metric = counter(
    "nettune_softirq_net_tx_total",
    &["cpu"],
    "Runs of the transmit softirq (NET_TX of /proc/softirqs).",
);
const INTERRUPTS: Metric = counter(
    "nettune_nic_interrupts_total",
    &["device", "cpu"],
    "Interrupts of the device that the CPU served, for CPUs that served any; devices on one bus device share them (/proc/interrupts).",
);
const VECTORS: Metric =
    gauge("nettune_nic_interrupt_vectors", &["device"], "Interrupts the device has (/proc/interrupts).");

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![
        &PROCESSED,
        &DROPPED,
        &TIME_SQUEEZED,
        &COLLISIONS,
        &RECEIVED_RPS,
        &FLOW_LIMIT,
        &BACKLOG,
        &INPUT_QUEUE,
        &PROCESS_QUEUE,
        &NET_RX,
        &NET_TX,
        &INTERRUPTS,
        &VECTORS,
    ]
}

const COLUMNS: [Figure<Cpu, Option<u64>>; 9] = [
    (&PROCESSED, |cpu| Some(cpu.processed)),
    (&DROPPED, |cpu| Some(cpu.dropped)),
    (&TIME_SQUEEZED, |cpu| Some(cpu.time_squeezed)),
    (&COLLISIONS, |cpu| Some(cpu.collisions)),
    (&RECEIVED_RPS, |cpu| cpu.received_rps),
    (&FLOW_LIMIT, |cpu| cpu.flow_limit),
    (&BACKLOG, |cpu| cpu.backlog),
    (&INPUT_QUEUE, |cpu| cpu.input_queue),
    (&PROCESS_QUEUE, |cpu| cpu.process_queue),
];

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let softnet = snapshot.softnet.as_deref().unwrap_or_default();
    for (metric, column) in COLUMNS {
        out.family(metric, softnet.iter().filter_map(|cpu| Some(([cpu.cpu.into()], column(cpu)?))))?;
    }
    let softirqs = snapshot.softirqs.as_deref().unwrap_or_default();
    out.family(&NET_RX, softirqs.iter().map(|cpu| ([cpu.cpu.into()], cpu.net_rx)))?;
    out.family(&NET_TX, softirqs.iter().map(|cpu| ([cpu.cpu.into()], cpu.net_tx)))?;
    let devices = snapshot.interrupts.as_deref().unwrap_or_default();
    let by_cpu = devices.iter().flat_map(|device| {
        device.by_cpu.iter().map(|(cpu, count)| ([Label::from(&device.device), (*cpu).into()], *count))
    });
    out.family(&INTERRUPTS, by_cpu)?;
    out.family(&VECTORS, devices.iter().map(|device| ([(&device.device).into()], device.vectors)))
}
