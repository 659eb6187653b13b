//! Modes, times and limits that something seen speaks against.

use super::ground::{Ground, number, numbers, text};
use super::{Basis, Proposal};
use crate::catalogue::Sign;
use crate::model::parameters::{State, interface_name};
use crate::read::sysctl::Value;

/// Another mode or time.
pub(super) fn seen(
    ground: &Ground<'_>,
    state: &State,
    sign: Sign,
    when: [i64; 2],
    to: i64,
) -> Option<Proposal> {
    let sighting = ground.evidence.sighting(sign, &state.name)?;
    let running = i64::try_from(number(state)?).ok()?;
    (when[0]..=when[1]).contains(&running).then(|| {
        let so = format!("{to} in place of {running} avoids it");
        Proposal::new(Value::Numbers(vec![to]), Basis::Seen, &sighting.what, &so)
    })
}

/// Twice the running value, where all signs were seen.
pub(super) fn doubled(ground: &Ground<'_>, state: &State, signs: &[Sign], most: u64) -> Option<Proposal> {
    let sightings: Option<Vec<_>> =
        signs.iter().map(|sign| ground.evidence.sighting(*sign, &state.name)).collect();
    let what: Vec<_> = sightings?.into_iter().map(|sighting| sighting.what.as_str()).collect();
    let to = number(state)?.saturating_mul(2).min(most);
    let so = format!("{to} is twice the running value, at most {most}");
    Some(Proposal::number(to, Basis::Repeat, &what.join(", and "), &so))
}

/// 1 where ports run short that TIME_WAIT keeps, and timestamps allow it.
pub(super) fn reuse_time_wait(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let sighting = ground.evidence.sighting(Sign::PortsInTimeWait, &state.name)?;
    (ground.number("net.ipv4.tcp_timestamps")? > 0 && number(state)? != 1).then(|| {
        let so = "1 lets new connections have them after a second";
        Proposal::number(1, Basis::Seen, &sighting.what, so)
    })
}

/// An algorithm that does not take every loss for a full path, where this kernel has it
/// and the namespace may choose it.
pub(super) fn lossy_path(ground: &Ground<'_>, state: &State, to: &str) -> Option<Proposal> {
    let sighting = ground.evidence.sighting(Sign::LossOnLongPath, &state.name)?;
    let lists = |name: &str| ground.text(name).is_some_and(|list| list.split(' ').any(|word| word == to));
    // What only the initial namespace has.
    let is_initial = ground.state("net.ipv4.tcp_mem").is_some();
    let may_choose = is_initial || lists("net.ipv4.tcp_allowed_congestion_control");
    // Before 4.13 it needs the queueing discipline fq.
    let can_pace = ground.is_since(4, 13) || ground.evidence.receive.has_fq;
    let can = lists("net.ipv4.tcp_available_congestion_control") && may_choose && can_pace;
    (can && !text(state)?.starts_with(to)).then(|| {
        let so = format!("{to} goes by what arrives, not by what is lost");
        Proposal::new(Value::Text(to.to_owned()), Basis::Seen, &sighting.what, &so)
    })
}

/// A queueing discipline that paces, where this kernel has it, connections pace and
/// devices have one that does not.
pub(super) fn pacing(ground: &Ground<'_>, state: &State, to: &str) -> Option<Proposal> {
    let is_default = ground.text("net.ipv4.tcp_congestion_control")?.starts_with("bbr");
    let used = ground.evidence.sighting(Sign::BbrInUse, "").is_some();
    let receive = &ground.evidence.receive;
    let has = receive.has_fq || ground.evidence.has_pacing_discipline;
    ((is_default || used) && receive.is_unpaced && has && text(state)? != to).then(|| {
        let what = "connections use bbr over queueing disciplines that do not pace";
        let so = format!("{to} paces, and is in this kernel");
        Proposal::new(Value::Text(to.to_owned()), Basis::Seen, what, &so)
    })
}

const REVERSE_PATH: &str = "net.ipv4.conf.*.rp_filter";

/// 2 on an interface whose filter is strict, of a host with several ways out: the kernel
/// takes the larger of the interface's value and that of `all`.
pub(super) fn loose_filter(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let sighting = ground.evidence.sighting(Sign::ReversePathDrops, &state.name)?;
    let ways = &ground.evidence.host.routed;
    let is_way = ways.iter().any(|device| interface_name(REVERSE_PATH, device) == state.name);
    let all = ground.number(&interface_name(REVERSE_PATH, "all"))?;
    (is_way && ways.len() >= 2 && number(state)?.max(all) == 1).then(|| {
        let so = format!("2 accepts a source that any of the {} devices with routes reaches", ways.len());
        Proposal::number(2, Basis::Seen, &sighting.what, &so)
    })
}

/// Four fifths of the time after which connection tracking, or what was declared to be on
/// the way, forgets a connection, where a first probe would come later.
pub(super) fn keepalive(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let probed = ground.evidence.sockets.keepalive.get();
    let tracker = ground.number("net.netfilter.nf_conntrack_tcp_timeout_established");
    let (forgets, who) =
        [(tracker, "connection tracking"), (ground.evidence.host.idle_timeout, "something on the way")]
            .into_iter()
            .filter_map(|(forgets, who)| Some((forgets?, who)))
            .min()?;
    let [running] = numbers::<1>(state)?;
    let to = two_digits(forgets / 5 * 4);
    (probed > 0 && running >= forgets && to > 0).then(|| {
        let what =
            format!("{who} forgets after {forgets} s, and {probed} connections have a keepalive timer");
        Proposal::number(to, Basis::Tracker, &what, &format!("{to} s are four fifths of that or less"))
    })
}

/// Cut to two digits, as people write times.
fn two_digits(number: u64) -> u64 {
    let unit = 10u64.pow(number.max(10).ilog10().saturating_sub(1));
    number / unit * unit
}
