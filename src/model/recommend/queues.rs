//! Queues of listeners, and sockets that nobody holds any more.

use super::ground::{Ground, how, number, power_from, within};
use super::{Basis, Proposal};
use crate::catalogue::Sign;
use crate::model::parameters::State;

/// A connection that waits for accept(), bytes: struct tcp_sock of 2.3 to 2.5 KB in its
/// slab, 5.10-6.18.
const CONNECTION: u64 = 2560;
/// A half-open one, bytes: struct tcp_request_sock in its slab, 6.18.
const REQUEST: u64 = 320;
/// One in TIME_WAIT, bytes: struct tcp_timewait_sock in its slab, 6.18.
const TIME_WAIT: u64 = 256;
/// One of these tables may take one part in so many of the memory.
const PART: u64 = 32;

/// `net.core.somaxconn`
pub(super) fn accept_queue(ground: &Ground<'_>, state: &State, least: u64, most: u64) -> Option<Proposal> {
    let of = |sign| ground.evidence.sighting(sign, &state.name);
    let returned = || of(Sign::CookiesReturned);
    let seen =
        of(Sign::AcceptQueueFull).or_else(|| of(Sign::SynQueueFull).filter(|_| returned().is_some()))?;
    let wanted = power_from(number(state)?.saturating_mul(2).max(least)).min(most);
    let (to, basis) = within(wanted, ground.as_many(CONNECTION, PART)?, Basis::Repeat);
    let so = format!(
        "{to} is {}",
        how(basis, &format!("a power of two from twice the running value, {least} to {most}"))
    );
    Some(Proposal::number(to, basis, &seen.what, &so))
}

/// `net.ipv4.tcp_max_syn_backlog`, which the kernel looks at while cookies are off; it
/// keeps a quarter of it for peers that it knows.
pub(super) fn half_open(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let seen = ground.evidence.sighting(Sign::SynsDropped, &state.name)?;
    if ground.number("net.ipv4.tcp_syncookies")? != 0 {
        return None;
    }
    let peak = ground.evidence.sockets.half_open.get();
    let wanted = power_from(number(state)?.saturating_mul(2).max(peak.saturating_mul(4) / 3));
    let (to, basis) = within(wanted, ground.as_many(REQUEST, PART)?, Basis::Repeat);
    let so = format!(
        "{to} is {}",
        how(
            basis,
            &format!("a power of two from twice the running value and 4/3 of {peak} half-open connections")
        )
    );
    Some(Proposal::number(to, basis, &seen.what, &so))
}

/// `net.ipv4.tcp_max_tw_buckets`: what is there when it is full, and what found no room in
/// the time that TIME_WAIT lasts, and half as much again.
pub(super) fn time_wait(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let seen = ground.evidence.sighting(Sign::TimeWaitOverflow, &state.name)?;
    let (running, lost) = (number(state)?, ground.evidence.host.overflow.get());
    let wanted = power_from(running.saturating_add(lost).saturating_mul(3) / 2);
    let (to, basis) = within(wanted, ground.as_many(TIME_WAIT, PART)?, Basis::Peak);
    let so = format!(
        "{to} is {}",
        how(
            basis,
            &format!(
                "a power of two from 1.5 times the running {running} and the {lost} that a minute brought besides"
            )
        )
    );
    Some(Proposal::number(to, basis, &seen.what, &so))
}

/// `net.ipv4.tcp_max_orphans`: their buffers are bounded by `tcp_mem` as all others are, so
/// that what more of them take is the sockets themselves.
pub(super) fn orphans(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let seen = ground.evidence.sighting(Sign::OrphansMany, &state.name)?;
    let (running, peak) = (number(state)?, ground.evidence.host.orphans.get());
    // Of a peer that misbehaves one socket counts as up to four, so that the limit is met
    // before it is reached.
    let wanted = power_from(peak.max(running).saturating_mul(2));
    let (to, basis) = within(wanted, ground.as_many(CONNECTION, PART)?, Basis::Peak);
    let by = format!("a power of two from twice the larger of {running} and the most that was seen, {peak}");
    Some(Proposal::number(to, basis, &seen.what, &format!("{to} is {}", how(basis, &by))))
}
