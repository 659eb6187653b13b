//! What the receive path shows: CPUs, cards and their steering, queueing disciplines.

use std::collections::HashMap;
use std::time::Instant;

use super::time::Rise;
use super::{Key, Signs};
use crate::catalogue::Sign;
use crate::model::Snapshot;
use crate::read::links::{Field, Link};
use crate::read::steering::Steering;
use crate::read::{cpu, softnet};

/// Runs that ended with work left, of a thousand packets, from which on they count.
const SQUEEZED: u64 = 1000;

/// Share of a CPU's time from which on it has none left for more.
const BUSY: f64 = 0.9;

/// What is remembered of the receive path.
#[derive(Debug, Default)]
pub(in crate::model::recommend) struct Receive {
    /// Packets dropped by CPU.
    dropped: HashMap<u32, Rise>,
    /// Packets lost by device.
    lost: HashMap<u32, Rise>,
    /// By CPU, with its time.
    squeezed: HashMap<u32, (softnet::Cpu, cpu::Cpu, Instant)>,
    /// Whether a receive queue has a flow table.
    pub(in crate::model::recommend) has_flow_tables: bool,
    /// Whether a queueing discipline is fq, and whether one is of those that a device
    /// gets unasked and that do not pace.
    pub(in crate::model::recommend) has_fq: bool,
    pub(in crate::model::recommend) is_unpaced: bool,
}

impl Receive {
    pub(super) fn observe(&mut self, now: Instant, snapshot: &Snapshot, signs: &mut Signs) {
        if let Some(cpus) = &snapshot.softnet {
            self.observe_drops(now, cpus, signs);
            if let (Some(times), Some(constants)) = (&snapshot.cpus, &snapshot.constants) {
                self.observe_budget(now, cpus, times, constants.clock_ticks, signs);
            }
        }
        if let Some(links) = &snapshot.links {
            self.observe_links(now, links, signs);
        }
        if let Some(devices) = &snapshot.steering {
            let queues = devices.iter().flat_map(|(_, queues)| queues);
            self.has_flow_tables = queues
                .into_iter()
                .any(|queue| matches!(queue.steering, Steering::Receive { flows: Some(1..), .. }));
        }
        if let Some(groups) = &snapshot.qdiscs {
            let any = |kinds: &[&str]| groups.iter().any(|group| kinds.contains(&group.kind.as_str()));
            self.has_fq = any(&["fq"]);
            self.is_unpaced = any(&["pfifo_fast", "fq_codel", "pfifo", "sfq"]);
        }
    }

    /// What the flow limit dropped is one flow that is too fast.
    fn observe_drops(&mut self, now: Instant, cpus: &[softnet::Cpu], signs: &mut Signs) {
        for cpu in cpus {
            let dropped = cpu.dropped.saturating_sub(cpu.flow_limit.unwrap_or(0));
            let new = self.dropped.entry(cpu.cpu).or_default().take(Some(dropped));
            if new > 0 {
                let what = format!("CPU {} dropped {new} packets at its input queue", cpu.cpu);
                signs.note(now, Sign::BacklogDrops, Key::default(), what.clone());
                signs.note(now, Sign::ReceiveLoss, Key::default(), what);
            }
        }
    }

    fn observe_budget(
        &mut self,
        now: Instant,
        cpus: &[softnet::Cpu],
        times: &[cpu::Cpu],
        clock_ticks: u64,
        signs: &mut Signs,
    ) {
        for cpu in cpus {
            let Some(time) = times.iter().find(|time| time.cpu == cpu.cpu) else { continue };
            let later = (cpu.clone(), time.clone(), now);
            let Some((before, time_before, then)) = self.squeezed.insert(cpu.cpu, later) else { continue };
            let squeezed = cpu.time_squeezed.saturating_sub(before.time_squeezed);
            let processed = cpu.processed.saturating_sub(before.processed);
            let ticks = now.saturating_duration_since(then).as_secs_f64() * clock_ticks as f64;
            let softirq = time.softirq.saturating_sub(time_before.softirq) as f64;
            if squeezed > 0 && squeezed.saturating_mul(SQUEEZED) > processed && softirq < BUSY * ticks {
                let what =
                    format!("CPU {} ended {squeezed} runs with work left over {processed} packets", cpu.cpu);
                signs.note(now, Sign::BudgetExhausted, Key::default(), what);
            }
        }
    }

    fn observe_links(&mut self, now: Instant, links: &[Link], signs: &mut Signs) {
        let mut lost = HashMap::with_capacity(links.len());
        for link in links {
            let mut rise = self.lost.remove(&link.index).unwrap_or_default();
            let figure = |field| link.statistics.as_ref().and_then(|statistics| statistics.get(field));
            let sum = figure(Field::ReceivedMissed)
                .unwrap_or(0)
                .saturating_add(figure(Field::ReceivedFifo).unwrap_or(0));
            let new = rise.take(link.statistics.is_some().then_some(sum));
            lost.insert(link.index, rise);
            if new > 0 {
                let what = format!("{} lost {new} packets for want of room", link.name);
                signs.note(now, Sign::ReceiveLoss, Key::default(), what);
            }
        }
        self.lost = lost;
    }
}
