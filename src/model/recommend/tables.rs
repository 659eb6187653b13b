//! Tables whose entries are counted.

use super::ground::{Ground, how, number, power_from, within};
use super::{Basis, Proposal};
use crate::catalogue::Sign;
use crate::model::parameters::State;

/// A neighbour, bytes: struct neighbour and what a device adds, with the slab's rounding,
/// 6.18.
const NEIGHBOUR: u64 = 512;
/// A tracked flow, bytes: struct nf_conn in its slab, and extensions.
const FLOW: u64 = 256 + 128;
/// One of these tables may take one part in so many of the memory.
const PART: u64 = 8;
/// An entry of the flow table of RFS, bytes.
const STEERED: u64 = 4;

/// A threshold of a neighbour table: the third is twice the most entries that were seen,
/// where those came near it; the others stand to it as the kernel's own do.
pub(super) fn neighbours(ground: &Ground<'_>, state: &State, part: u64) -> Option<Proposal> {
    let family = if state.name.starts_with("net.ipv6.") { "ipv6" } else { "ipv4" };
    let peak = ground.evidence.host.neighbours[usize::from(family == "ipv6")].get();
    let threshold = |number: u8| ground.number(&format!("net.{family}.neigh.default.gc_thresh{number}"));
    let (second, third) = (threshold(2)?, threshold(3)?);
    let is_full = peak.saturating_mul(5) >= third.saturating_mul(4) && peak > 0;
    let (to, basis) = if is_full {
        within(power_from(peak.saturating_mul(2)), ground.as_many(NEIGHBOUR, PART)?, Basis::Peak)
    } else {
        (third, Basis::Peak)
    };
    // Up to the second nothing is collected early.
    if part > 1 && peak <= second {
        return None;
    }
    let what = format!("the table had {peak} entries at a limit of {third}");
    let of = if part == 1 { String::new() } else { format!("one part in {part} of ") };
    let so = format!("{} is {of}{}", to / part, how(basis, &format!("a limit of {to}")));
    Some(Proposal::number(to / part, basis, &what, &so))
}

/// `net.netfilter.nf_conntrack_max`: half as many again as were there at most, where three
/// quarters of the table were taken.
pub(super) fn tracked_flows(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let (running, peak) = (number(state)?, ground.evidence.host.tracked.get());
    if peak == 0 || peak.saturating_mul(4) < running.saturating_mul(3) {
        return None;
    }
    let wanted = power_from(peak.saturating_mul(3) / 2);
    let (to, basis) = within(wanted, ground.as_many(FLOW, PART)?, Basis::Peak);
    let what = format!("the table had {peak} entries at a limit of {running}");
    let so = format!("{to} is {}", how(basis, "a power of two from 1.5 times that"));
    Some(Proposal::number(to, basis, &what, &so))
}

/// `net.netfilter.nf_conntrack_buckets`: one for each entry, where chains are long or the
/// table is to hold more.
pub(super) fn tracked_buckets(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let entries = ground.state("net.netfilter.nf_conntrack_max")?;
    let (limit, buckets) = (number(entries)?, number(state)?);
    let more = tracked_flows(ground, entries).and_then(|proposal| proposal.first());
    let more = more.filter(|more| *more > limit);
    let chains = ground.evidence.sighting(Sign::LongChains, &state.name);
    let what = match (more, chains) {
        (Some(more), _) => format!("the table is to hold {more} entries"),
        (None, Some(seen)) => seen.what.clone(),
        (None, None) if limit / 4 > buckets => format!("{limit} entries may be in {buckets} buckets"),
        (None, None) => return None,
    };
    let wanted = power_from(more.unwrap_or(limit));
    let (to, basis) = within(wanted, ground.as_many(FLOW, PART)?, Basis::Peak);
    Some(Proposal::number(to, basis, &what, &format!("{to} is {}", how(basis, "one bucket for each"))))
}

/// `net.core.rps_sock_flow_entries`: one for each connection at least, where receive queues
/// have flow tables.
pub(super) fn flow_table(ground: &Ground<'_>, state: &State, least: u64, most: u64) -> Option<Proposal> {
    let (running, peak) = (number(state)?, ground.evidence.sockets.established.get());
    if !ground.evidence.receive.has_flow_tables || running >= peak.max(1) {
        return None;
    }
    let wanted = power_from(peak.max(least)).min(most);
    let (to, basis) = within(wanted, ground.as_many(STEERED, PART)?, Basis::Peak);
    let what = format!("receive queues have flow tables, and {peak} connections share {running} entries");
    let so =
        format!("{to} is {}", how(basis, &format!("a power of two from one for each, {least} to {most}")));
    Some(Proposal::number(to, basis, &what, &so))
}
