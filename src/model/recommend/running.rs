//! What follows from the running value alone.

use super::ground::{Ground, numbers, power_to, signed};
use super::memory::{default_marks, tcp_memory};
use super::{Basis, Proposal, listed};
use crate::catalogue::{CATALOGUE, Parameter, Rule};
use crate::model::parameters::State;
use crate::read::sysctl::Value;

/// What to set where the running value breaks something.
pub(super) fn dangerous(state: &State, [first, last]: [i64; 2], to: i64) -> Option<Proposal> {
    let Value::Numbers(numbers) = &state.value else { return None };
    let [running] = numbers[..] else { return None };
    (first..=last).contains(&running).then(|| {
        let what = format!("{running} is dangerous");
        Proposal::new(Value::Numbers(vec![to]), Basis::Dangerous, &what, &format!("{to} is safe"))
    })
}

/// The kernel's default for marks that are no bound to what takes all memory, as where
/// they were written in bytes.
pub(super) fn beyond_memory(ground: &Ground<'_>, state: &State, part: u64) -> Option<Proposal> {
    let (memory, page) = ground.memory()?;
    let [.., high] = numbers::<3>(state)?;
    if high.saturating_mul(page) <= memory / part {
        return None;
    }
    let default = state.default.clone()?;
    let what =
        format!("{high} pages of {page} bytes are more than one part in {part} of {memory} bytes of memory");
    Some(Proposal::new(Value::Numbers(default), Basis::Dangerous, &what, "the kernel's default bounds it"))
}

/// The kernel's default, or what memory carries, for a buffer of which a few take all that
/// TCP may have.
pub(super) fn buffer_beyond_memory(ground: &Ground<'_>, state: &State, connections: u64) -> Option<Proposal> {
    let [min, default, max] = numbers::<3>(state)?;
    // Where it is tcp_mem that was lowered, that is to blame.
    let (memory, page) = ground.memory()?;
    let [_, _, usual] = default_marks(ground, "net.ipv4.tcp_mem")?;
    let high = tcp_memory(ground)?[1].max(usual.saturating_mul(page).min(memory));
    if max.saturating_mul(connections) <= high {
        return None;
    }
    let carried = power_to(high / connections / 2);
    let usual = state.default.as_ref().and_then(|default| u64::try_from(*default.last()?).ok());
    let to = usual.filter(|usual| usual.saturating_mul(connections) <= high).unwrap_or(carried);
    let what = format!(
        "{connections} connections with buffers of {max} bytes take all {high} bytes that TCP may have"
    );
    let value = Value::Numbers([min, default, to.max(default)].map(signed).to_vec());
    Some(Proposal::new(value, Basis::Dangerous, &what, &format!("{to} leaves room for others")))
}

/// What to set where ECN is asked for on every connection and nothing on the way marks.
pub(super) fn ecn_without_marks(ground: &Ground<'_>, state: &State, to: i64) -> Option<Proposal> {
    let asks = ground.number(&state.name) == Some(1);
    (asks && ground.evidence.host.has_marks == Some(false)).then(|| {
        let what = "every connection asks for ECN, and not one congestion mark came in the last hour";
        let so = "it can be accepted without being asked for";
        Proposal::new(Value::Numbers(vec![to]), Basis::Dangerous, what, so)
    })
}

/// The kernel's default where the running value is less: of one field alone, or, where the
/// last number is, of every one.
pub(super) fn below_default(ground: &Ground<'_>, state: &State, field: Option<&str>) -> Option<Proposal> {
    let Value::Numbers(running) = &state.value else { return None };
    let default = state.default.as_ref().filter(|default| default.len() == running.len())?;
    let judged = match field {
        Some(field) => state.fields.iter().position(|known| known == field)?,
        None => running.len().checked_sub(1)?,
    };
    let parameter = CATALOGUE.get(&state.name)?;
    if running.get(judged)? >= default.get(judged)? || has_other_hash(ground, parameter) {
        return None;
    }
    let raise = |(place, (running, default)): (usize, (&i64, &i64))| {
        if field.is_none() || place == judged { *running.max(default) } else { *running }
    };
    let raised = running.iter().zip(default).enumerate().map(raise).collect();
    let what = format!("{} is less than the kernel's default on a host of this size", listed(running));
    let so = format!("that is {}, and nothing seen calls for less", listed(default));
    Some(Proposal::new(Value::Numbers(raised), Basis::Default, &what, &so))
}

/// Whether the default follows from the size of a hash that may be the namespace's own
/// (6.1), which only the own namespace's parameters tell.
fn has_other_hash(ground: &Ground<'_>, parameter: &Parameter) -> bool {
    let by_hash = parameter.default.iter().any(|row| matches!(row.rule, Some(Rule::EstablishedHash { .. })));
    by_hash && ground.is_since(6, 1) && ground.state("net.ipv4.tcp_ehash_entries").is_none()
}
