//! What follows from the running value alone.

use super::{Basis, Proposal};
use crate::model::parameters::State;
use crate::read::sysctl::Value;

/// What to set where the running value breaks something.
pub(super) fn dangerous(state: &State, [first, last]: [i64; 2], to: i64) -> Option<Proposal> {
    let Value::Numbers(numbers) = &state.value else { return None };
    let [running] = numbers[..] else { return None };
    (first..=last).contains(&running).then(|| Proposal {
        value: Value::Numbers(vec![to]),
        basis: Basis::Dangerous,
        reason: format!("{running} is dangerous: see its cautions."),
    })
}

/// The kernel's default where the running value is less: of every number, or of one
/// field alone.
pub(super) fn below_default(state: &State, field: Option<&str>) -> Option<Proposal> {
    let Value::Numbers(running) = &state.value else { return None };
    let default = state.default.as_ref().filter(|default| default.len() == running.len())?;
    let judged =
        |place: usize| field.is_none_or(|field| state.fields.get(place).is_some_and(|is| is == field));
    let raise = |(place, (running, default)): (usize, (&i64, &i64))| {
        if judged(place) { *running.max(default) } else { *running }
    };
    let raised: Vec<_> = running.iter().zip(default).enumerate().map(raise).collect();
    (raised != *running).then(|| Proposal {
        reason: format!(
            "{} is less than what this kernel has by default on a host of this size, {}, and nothing seen calls for less.",
            listed(running),
            listed(default)
        ),
        value: Value::Numbers(raised),
        basis: Basis::Default,
    })
}

/// Numbers as the kernel prints them.
fn listed(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}
