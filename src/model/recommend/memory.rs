//! Memory of all sockets together.

use super::ground::{Ground, how, numbers, power_from, signed, within};
use super::{Basis, Proposal};
use crate::catalogue::{CATALOGUE, Sign};
use crate::model::defaults::default_numbers;
use crate::model::parameters::State;
use crate::read::sysctl::Value;

/// Sockets of one protocol never get more of the host's memory than one part in so many.
const PART: u64 = 4;

/// The kernel's own marks of `tcp_mem` or `udp_mem`, pages.
pub(super) fn default_marks(ground: &Ground<'_>, name: &str) -> Option<[u64; 3]> {
    let default = default_numbers(CATALOGUE.get(name)?, ground.facts?)?;
    let unsigned: Option<Vec<_>> = default.into_iter().map(|number| u64::try_from(number).ok()).collect();
    unsigned?.try_into().ok()
}

/// The running ones. Outside the initial network namespace nobody tells them, and they are
/// taken to be the kernel's own.
pub(super) fn marks(ground: &Ground<'_>, name: &str) -> Option<[u64; 3]> {
    ground.state(name).and_then(numbers::<3>).or_else(|| default_marks(ground, name))
}

/// What TCP may have, bytes: at pressure, and at most. Marks beyond memory are no bound.
pub(super) fn tcp_memory(ground: &Ground<'_>) -> Option<[u64; 2]> {
    let (memory, page) = ground.memory()?;
    let [_, pressure, high] = marks(ground, "net.ipv4.tcp_mem")?;
    Some([pressure, high].map(|pages| pages.saturating_mul(page).min(memory / PART)))
}

/// `tcp_mem` or `udp_mem` where it limits and the host has memory left: half as much again
/// as was in use at most and at least twice the running value; the marks stand to each
/// other as the kernel's own do.
pub(super) fn socket_memory(ground: &Ground<'_>, state: &State, sign: Sign) -> Option<Proposal> {
    let seen = ground.evidence.sighting(sign, &state.name)?;
    let [.., high] = numbers::<3>(state)?;
    let (memory, page) = ground.memory()?;
    let available = ground.facts?.host.memory_available?;
    let [tcp, udp] = &ground.evidence.host.memory;
    let used = if sign == Sign::UdpMemoryShort { udp.get() } else { tcp.get() };
    let free = (used.saturating_mul(page).saturating_add(available / 2)).min(memory / PART) / page;
    let wanted = power_from(high.saturating_mul(2).max(used.saturating_add(used / 2)));
    let (to, basis) = within(wanted, free, Basis::Repeat);
    let value = Value::Numbers([to / 2, to / 3 * 2, to].map(signed).to_vec());
    let so = format!("{to} pages are {}", how(basis, "a power of two from twice the running value"));
    Some(Proposal::new(value, basis, &seen.what, &so))
}
