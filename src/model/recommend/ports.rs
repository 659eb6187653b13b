//! Local ports of connections.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::ground::{Ground, numbers, text};
use super::{Basis, Proposal};
use crate::catalogue::Sign;
use crate::model::parameters::State;
use crate::read::listeners::parse_ports;
use crate::read::sysctl::Value;

const RANGE: &str = "net.ipv4.ip_local_port_range";
/// Ports below are those of services (RFC 6335), and of privileged programs by default.
const FIRST: u16 = 1024;

/// `net.ipv4.ip_local_port_range`: down to the next port that something listens on, and up
/// to the last one.
pub(super) fn local_ports(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let [first, last] = wider(ground, state)?;
    let what = &runs_short(ground)?.what;
    let so = format!(
        "from {first} on nothing listens below the range of now, and {last} is the last of another parity"
    );
    Some(Proposal::new(Value::Numbers(vec![first.into(), last.into()]), Basis::ListeningPorts, what, &so))
}

fn runs_short<'a>(ground: &Ground<'a>) -> Option<&'a super::evidence::Sighting> {
    let seen = |sign| ground.evidence.sighting(sign, RANGE);
    let may_reuse = ground.number("net.ipv4.tcp_tw_reuse") != Some(1)
        && ground.number("net.ipv4.tcp_timestamps").is_some_and(|mode| mode > 0);
    // What TIME_WAIT keeps can be had without more ports.
    seen(Sign::PortsInUse).or_else(|| seen(Sign::PortsInTimeWait).filter(|_| !may_reuse))
}

/// The range where it is to be another one.
fn wider(ground: &Ground<'_>, state: &State) -> Option<[u16; 2]> {
    runs_short(ground)?;
    let listening = ground.evidence.sockets.listening.as_ref()?;
    let running = numbers::<2>(state)?.map(|port| u16::try_from(port).ok());
    let [Some(first), Some(last)] = running else { return None };
    let below = listening.range(..first).chain(ground.evidence.sockets.udp_ports.range(..first));
    let above_all = below.max().map_or(FIRST, |port| port + 1);
    let privileged = ground.number("net.ipv4.ip_unprivileged_port_start").unwrap_or(0);
    let least = above_all.max(FIRST).max(u16::try_from(privileged).ok()?);
    // The kernel wants ends of different parity (sysctl_net_ipv4.c:ipv4_local_port_range).
    let even = least.checked_add(least % 2).filter(|even| *even < first);
    let (first, top) = even
        .map_or((first, if first.is_multiple_of(2) { u16::MAX } else { u16::MAX - 1 }), |even| {
            (even, u16::MAX)
        });
    let wider = [first, last.max(top)];
    (wider.map(u64::from) != numbers::<2>(state)?).then_some(wider)
}

/// `net.ipv4.ip_local_reserved_ports`: the running list, and every port in the range that
/// something listens on, which connections could take while it does not, as far as the
/// listener has a name.
pub(super) fn listening_ports(ground: &Ground<'_>, state: &State) -> Option<Proposal> {
    let range = ground.state(RANGE)?;
    let running = numbers::<2>(range)?.map(|port| u16::try_from(port).ok());
    let [Some(first), Some(last)] = running else { return None };
    let now = [first, last];
    let [first, last] = wider(ground, range).unwrap_or(now);
    let sockets = &ground.evidence.sockets;
    // Ports of now that a program would miss, and what the range would reach.
    let beyond = |port: &u16| !(now[0]..=now[1]).contains(port) && (first..=last).contains(port);
    let listening = sockets.listening.iter().flat_map(|ports| ports.iter().copied()).filter(beyond);
    let missed = sockets.in_port_range.iter().copied().filter(|port| (first..=last).contains(port));
    let reserved = parse_ports(text(state)?.as_bytes()).ok()?;
    let is_reserved = |port: &u16| reserved.iter().any(|[from, to]| (from..=to).contains(&port));
    let new: BTreeSet<u16> = missed.chain(listening).filter(|port| !is_reserved(port)).collect();
    if new.is_empty() {
        return None;
    }
    let all = reserved.into_iter().chain(new.iter().map(|port| [*port; 2])).collect();
    let what = format!(
        "something listens on {} in the range {first} to {last}",
        list(new.iter().map(|port| [*port; 2]).collect())
    );
    let so = "connections get none of these when they are reserved";
    Some(Proposal::new(Value::Text(list(all)), Basis::ListeningPorts, &what, so))
}

/// Sorted and without gaps, as the kernel prints them.
fn list(mut ranges: Vec<[u16; 2]>) -> String {
    ranges.sort_unstable();
    let mut merged: Vec<[u16; 2]> = Vec::new();
    for [first, last] in ranges {
        match merged.last_mut() {
            Some([_, end]) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push([first, last]),
        }
    }
    let mut text = String::new();
    for [first, last] in merged {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = if first == last {
            write!(text, "{comma}{first}")
        } else {
            write!(text, "{comma}{first}-{last}")
        };
    }
    text
}
