//! Queueing disciplines over rtnetlink: RTM_NEWQDISC (include/uapi/linux/
//! rtnetlink.h, gen_stats.h, 5.10-6.18).

use crate::kernel::netlink::{Attribute, messages, u32_at, u64_at};
use crate::kernel::{Kernel, Malformed, Request, Result};

/// Where a queueing discipline hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The device's own.
    Root,
    /// Below another one, for instance one a transmit queue below `mq`.
    Leaf,
    /// `ingress` and `clsact`: not a queue.
    Ingress,
}

/// One queueing discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// Index of its device.
    pub link: u32,
    /// fq, fq_codel, mq, noqueue, pfifo_fast, …
    pub kind: String,
    /// Where it hangs.
    pub place: Place,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Times a limit was met.
    pub overlimits: u64,
    /// Packets the driver gave back.
    pub requeues: u64,
    /// Bytes queued now.
    pub backlog_bytes: u64,
    /// Packets queued now.
    pub backlog_packets: u64,
}

const TCMSG: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_STATS: u16 = 3;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_H_INGRESS: u32 = 0xffff_fff1;

/// Parses RTM_NEWQDISC messages.
///
/// # Errors
/// A message that is cut, or a discipline without a kind.
pub fn parse(bytes: &[u8]) -> std::result::Result<Vec<Qdisc>, Malformed> {
    let mut qdiscs = Vec::new();
    for (index, message) in messages(bytes).enumerate() {
        let message = message?;
        // struct tcmsg { u8 family, pad; u16 pad; s32 ifindex; u32 handle, parent, info; }
        let (Some(link), Some(parent)) = (u32_at(message.payload, 4), u32_at(message.payload, 12)) else {
            return Err(Malformed::new(index + 1, "struct tcmsg", "20 bytes", message.payload));
        };
        let mut qdisc = Qdisc {
            link,
            kind: String::new(),
            place: match parent {
                TC_H_ROOT => Place::Root,
                TC_H_INGRESS => Place::Ingress,
                _ => Place::Leaf,
            },
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            requeues: 0,
            backlog_bytes: 0,
            backlog_packets: 0,
        };
        let mut counted = false;
        for attribute in message.attributes(TCMSG) {
            match attribute.kind {
                TCA_KIND => qdisc.kind = attribute.string(),
                TCA_STATS2 => {
                    attribute.nested().for_each(|nested| set(&mut qdisc, nested));
                    counted = true;
                }
                // struct tc_stats, which kernels send beside TCA_STATS2.
                TCA_STATS if !counted => set_old(&mut qdisc, attribute.value),
                _ => {}
            }
        }
        if qdisc.kind.is_empty() {
            return Err(Malformed::new(index + 1, "TCA_KIND", "the kind of the queueing discipline", b""));
        }
        qdiscs.push(qdisc);
    }
    Ok(qdiscs)
}

fn set(qdisc: &mut Qdisc, attribute: Attribute<'_>) {
    let value = attribute.value;
    let integer = |offset| u32_at(value, offset).map(u64::from);
    match attribute.kind {
        // struct gnet_stats_basic { u64 bytes; u32 packets; }
        TCA_STATS_BASIC => {
            qdisc.bytes = u64_at(value, 0).unwrap_or(qdisc.bytes);
            qdisc.packets = integer(8).unwrap_or(qdisc.packets);
        }
        // Sent after TCA_STATS_BASIC, whose 32 bits wrap (5.5).
        TCA_STATS_PKT64 => qdisc.packets = u64_at(value, 0).unwrap_or(qdisc.packets),
        // struct gnet_stats_queue { u32 qlen, backlog, drops, requeues, overlimits; }
        TCA_STATS_QUEUE => {
            qdisc.backlog_packets = integer(0).unwrap_or_default();
            qdisc.backlog_bytes = integer(4).unwrap_or_default();
            qdisc.drops = integer(8).unwrap_or_default();
            qdisc.requeues = integer(12).unwrap_or_default();
            qdisc.overlimits = integer(16).unwrap_or_default();
        }
        _ => {}
    }
}

/// struct tc_stats { u64 bytes; u32 packets, drops, overlimits, bps, pps, qlen, backlog; }
fn set_old(qdisc: &mut Qdisc, value: &[u8]) {
    let integer = |offset| u32_at(value, offset).map(u64::from).unwrap_or_default();
    qdisc.bytes = u64_at(value, 0).unwrap_or_default();
    qdisc.packets = integer(8);
    qdisc.drops = integer(12);
    qdisc.overlimits = integer(16);
    qdisc.backlog_packets = integer(28);
    qdisc.backlog_bytes = integer(32);
}

/// All queueing disciplines of the namespace that `tc qdisc show` prints.
pub fn read(kernel: &mut Kernel) -> Result<Vec<Qdisc>> {
    kernel.ask(Request::Qdiscs, |all: &mut Vec<Qdisc>, bytes| {
        all.extend(parse(bytes)?);
        Ok(())
    })
}
