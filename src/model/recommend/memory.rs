//! Memory of all sockets together.

use super::ground::{Ground, how, numbers, power_from, signed, within};
use super::{Basis, Proposal};
use crate::catalogue::{CATALOGUE, Sign};
use crate::model::defaults::default_numbers;
use crate::model::parameters::State;
use crate::read::sysctl::Value;

/// Sockets of one protocol never get more of the host's memory than one part in so many.
const PART: u64 = 4;

/// The marks of `tcp_mem` or `udp_mem`, pages. Outside the initial network namespace nobody
/// tells them, and they are taken to be the kernel's own.
pub(super) fn marks(ground: &Ground<'_>, name: &str) -> Option<[u64; 3]> {
    let unsigned = |numbers: Vec<i64>| -> Option<[u64; 3]> {
        let numbers: Option<Vec<_>> = numbers.into_iter().map(|number| u64::try_from(number).ok()).collect();
        numbers?.try_into().ok()
    };
    let default = || unsigned(default_numbers(CATALOGUE.get(name)?, ground.facts?)?);
    ground.state(name).and_then(numbers::<3>).or_else(default)
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
