//! The host: what values and defaults depend on, and the time of its CPUs.

use std::fmt;

use super::writer::{Figure, Label, Metric, Writer, counter, gauge, info};
use crate::model::Snapshot;
use crate::read::cpu::Cpu;

const KERNEL_INFO: Metric =
    info("nettune_kernel_info", &["release", "machine"], "Release and architecture of the running kernel.");
const PAGE_SIZE: Metric =
    gauge("nettune_page_size_bytes", &[], "Size of a memory page, the unit of tcp_mem and udp_mem.");
const MEMORY_TOTAL: Metric =
    gauge("nettune_memory_total_bytes", &[], "Memory the kernel manages (MemTotal of /proc/meminfo).");
const MEMORY_AVAILABLE: Metric = gauge(
    "nettune_memory_available_bytes",
    &[],
    "Memory that can be had without swapping (MemAvailable of /proc/meminfo).",
);
const CPU_IDLE: Metric =
    counter("nettune_cpu_idle_seconds_total", &["cpu"], "Time the CPU was idle (/proc/stat, column 4).");
const CPU_IRQ: Metric =
    counter("nettune_cpu_irq_seconds_total", &["cpu"], "Time in hard interrupts (/proc/stat, column 6).");
const CPU_SOFTIRQ: Metric =
    counter("nettune_cpu_softirq_seconds_total", &["cpu"], "Time in soft interrupts (/proc/stat, column 7).");
const CPU_STEAL: Metric = counter(
    "nettune_cpu_steal_seconds_total",
    &["cpu"],
    "Time the hypervisor gave to others (/proc/stat, column 8).",
);

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![
        &KERNEL_INFO,
        &MEMORY_TOTAL,
        &MEMORY_AVAILABLE,
        &PAGE_SIZE,
        &CPU_IDLE,
        &CPU_IRQ,
        &CPU_SOFTIRQ,
        &CPU_STEAL,
    ]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    if let Some(facts) = &snapshot.facts {
        let host = &facts.host;
        out.family(&KERNEL_INFO, [([Label::from(&host.release), (&facts.constants.machine).into()], 1u64)])?;
        out.single(&MEMORY_TOTAL, Some(host.memory_total))?;
        out.single(&MEMORY_AVAILABLE, host.memory_available)?;
    }
    let Some(constants) = &snapshot.constants else { return Ok(()) };
    out.single(&PAGE_SIZE, Some(constants.page_size))?;
    let cpus = snapshot.cpus.as_deref().unwrap_or_default();
    let ticks = constants.clock_ticks.max(1) as f64;
    let times: [Figure<Cpu, u64>; 4] = [
        (&CPU_IDLE, |cpu| cpu.idle),
        (&CPU_IRQ, |cpu| cpu.irq),
        (&CPU_SOFTIRQ, |cpu| cpu.softirq),
        (&CPU_STEAL, |cpu| cpu.steal),
    ];
    for (metric, time) in times {
        out.family(metric, cpus.iter().map(|cpu| ([cpu.cpu.into()], time(cpu) as f64 / ticks)))?;
    }
    Ok(())
}
