//! Network devices: names by index, and figures brought together by device.

use std::collections::BTreeMap;

use crate::read::addresses::Counts;
use crate::read::interrupts::{Interrupts, Owner};
use crate::read::links::{Identity, Link};
use crate::read::qdiscs::{Place, Qdisc};
use crate::read::{Family, add_32};

/// All devices of a namespace, by index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<u32, (String, Identity)>);

impl Names {
    /// From the devices themselves.
    pub fn new(links: &[Link]) -> Self {
        Self::from_identities(links.iter().map(|link| (link.name.clone(), link.identity())).collect())
    }

    /// From names and what tells devices apart.
    pub fn from_identities(devices: Vec<(String, Identity)>) -> Self {
        Self(devices.into_iter().map(|(name, identity)| (identity.index, (name, identity))).collect())
    }

    /// What tells the device of this name from one of another namespace.
    pub fn identity(&self, name: &str) -> Option<&Identity> {
        self.0.values().find(|(known, _)| known == name).map(|(_, identity)| identity)
    }

    /// The device's name, if it is there.
    pub fn get(&self, index: u32) -> Option<&str> {
        self.0.get(&index).map(|(name, _)| name.as_str())
    }
}

/// The queueing disciplines of one kind at one place of one device, summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QdiscGroup {
    /// The device.
    pub device: String,
    /// fq, fq_codel, mq, noqueue, …
    pub kind: String,
    /// Where they hang. A root with leaves counts what passes these itself
    /// (net/sched/sch_mq.c:mq_dump), so places must not be added up.
    pub place: Place,
    /// How many there are.
    pub count: u64,
    /// Their sums; `link`, `kind` and `place` are those of the group.
    pub sum: Qdisc,
}

/// Brings queueing disciplines together by device, kind and place. A
/// discipline of a device that vanished meanwhile is left out.
pub fn group_qdiscs(qdiscs: &[Qdisc], names: &Names) -> Vec<QdiscGroup> {
    let mut groups: BTreeMap<(&str, &str, Place), QdiscGroup> = BTreeMap::new();
    for qdisc in qdiscs {
        let Some(device) = names.get(qdisc.link) else {
            continue;
        };
        let group = groups.entry((device, &qdisc.kind, qdisc.place)).or_insert_with(|| QdiscGroup {
            device: device.to_owned(),
            kind: qdisc.kind.clone(),
            place: qdisc.place,
            count: 0,
            sum: Qdisc {
                link: qdisc.link,
                kind: qdisc.kind.clone(),
                place: qdisc.place,
                bytes: 0,
                packets: 0,
                drops: 0,
                overlimits: 0,
                requeues: 0,
                backlog_bytes: 0,
                backlog_packets: 0,
            },
        });
        group.count += 1;
        let sum = &mut group.sum;
        for (total, part) in [
            (&mut sum.bytes, qdisc.bytes),
            (&mut sum.packets, qdisc.packets),
            (&mut sum.backlog_bytes, qdisc.backlog_bytes),
            (&mut sum.backlog_packets, qdisc.backlog_packets),
        ] {
            *total = total.wrapping_add(part);
        }
        // Counters of 32 bits (struct gnet_stats_queue).
        for (total, part) in [
            (&mut sum.drops, qdisc.drops),
            (&mut sum.overlimits, qdisc.overlimits),
            (&mut sum.requeues, qdisc.requeues),
        ] {
            *total = add_32(*total, part);
        }
    }
    groups.into_values().collect()
}

/// The interrupts of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceInterrupts {
    /// The device.
    pub device: String,
    /// How many interrupts it has.
    pub vectors: u64,
    /// CPU and times it served one of them, for CPUs that did.
    pub by_cpu: Vec<(u32, u64)>,
}

/// Sums the interrupts of each device by CPU. A device without interrupts of
/// its own is left out.
pub fn group_interrupts(interrupts: &Interrupts, owners: &[Owner]) -> Vec<DeviceInterrupts> {
    let mut devices = Vec::new();
    for owner in owners {
        let mut sums = vec![0u64; interrupts.cpus.len()];
        let mut vectors = 0;
        for interrupt in interrupts
            .interrupts
            .iter()
            .filter(|interrupt| owner.owns(interrupt.number, interrupt.actions.as_bytes()))
        {
            vectors += 1;
            for (sum, count) in sums.iter_mut().zip(&interrupt.counts) {
                *sum = add_32(*sum, *count);
            }
        }
        if vectors > 0 {
            let by_cpu = interrupts.cpus.iter().copied().zip(sums).filter(|(_, sum)| *sum > 0).collect();
            devices.push(DeviceInterrupts { device: owner.device.clone(), vectors, by_cpu });
        }
    }
    devices
}

/// Addresses or routes of one device and family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCount {
    /// The device.
    pub device: String,
    /// The family.
    pub family: Family,
    /// How many.
    pub count: u64,
}

/// Gives counts their device's name; a device that vanished meanwhile, or that
/// `keep` refuses, is left out.
pub fn name_counts(counts: &Counts, names: &Names, keep: impl Fn(&str) -> bool) -> Vec<DeviceCount> {
    let named = counts.iter().filter_map(|((index, family), count)| {
        let device = names.get(*index).filter(|name| keep(name))?;
        Some(DeviceCount { device: device.to_owned(), family: *family, count: *count })
    });
    let mut named: Vec<_> = named.collect();
    named.sort_by(|a, b| (&a.device, a.family).cmp(&(&b.device, b.family)));
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::interrupts::Interrupt;

    fn qdisc(link: u32, kind: &str, place: Place, drops: u64) -> Qdisc {
        Qdisc {
            link,
            kind: kind.into(),
            place,
            bytes: 0,
            packets: 0,
            drops,
            overlimits: 0,
            requeues: 0,
            backlog_bytes: 0,
            backlog_packets: 0,
        }
    }

    #[test]
    fn leaves_of_a_kind_are_summed_and_the_root_stands_apart() {
        let names = Names::from_identities(vec![("eth0".into(), Identity { index: 2, address: vec![] })]);
        let qdiscs = [
            qdisc(2, "mq", Place::Root, 5),
            qdisc(2, "fq", Place::Leaf, 2),
            qdisc(2, "fq", Place::Leaf, 3),
            qdisc(9, "fq", Place::Leaf, 100),
        ];
        let groups = group_qdiscs(&qdiscs, &names);
        let shown: Vec<_> = groups.iter().map(|group| (&*group.kind, group.count, group.sum.drops)).collect();
        assert_eq!(shown, [("fq", 2, 5), ("mq", 1, 5)]);
    }

    #[test]
    fn interrupts_are_summed_by_cpu() {
        let interrupt =
            |number, counts: [u64; 2]| Interrupt { number, counts: counts.into(), actions: "x".into() };
        let interrupts = Interrupts {
            cpus: vec![0, 3],
            interrupts: vec![interrupt(7, [1, 0]), interrupt(8, [2, 0]), interrupt(9, [0, 9])],
        };
        let owner = Owner { device: "eth0".into(), bus_name: None, numbers: vec![7, 8] };
        let other = Owner { device: "eth1".into(), bus_name: None, numbers: vec![] };
        let expected = DeviceInterrupts { device: "eth0".into(), vectors: 2, by_cpu: vec![(0, 3)] };
        assert_eq!(group_interrupts(&interrupts, &[owner, other]), [expected]);
    }
}
