//! What no formula may propose, whatever it computes.

use super::{Basis, Proposal};
use crate::catalogue::{Formula, Parameter};
use crate::model::host::Facts;
use crate::model::parameters::State;
use crate::read::sysctl::Value;

/// Longest text that is recommended, characters: a longer one would be cut on its way to
/// whoever writes it.
const LONGEST: usize = 200;

/// Whether a proposal may be shown.
pub(super) fn permit(
    parameter: &Parameter,
    state: &State,
    facts: Option<&Facts>,
    formula: &Formula,
    proposal: &Proposal,
) -> bool {
    let can_be_set = state.changeable && !state.locked && has_effect(parameter, facts);
    // Where the host is not known, the most usual rate of Linux.
    let hz = facts.and_then(|facts| i64::try_from(facts.constants.hz).ok()).unwrap_or(250);
    let makes_sense = match (&state.value, &proposal.value) {
        (Value::Numbers(running), Value::Numbers(proposed)) => {
            let is_capacity = proposal.basis != Basis::Dangerous && formula.is_of_capacity();
            are_numbers_sane(parameter, hz, running, proposed, is_capacity)
        }
        (Value::Text(_), Value::Text(text)) => is_text_sane(text),
        _ => false,
    };
    can_be_set && makes_sense && state.value != proposal.value
}

/// Whether a kernel of this release heeds the parameter.
fn has_effect(parameter: &Parameter, facts: Option<&Facts>) -> bool {
    let release = facts.and_then(|facts| facts.version);
    parameter.inert_since.zip(release).is_none_or(|(since, release)| release < since)
}

fn are_numbers_sane(
    parameter: &Parameter,
    hz: i64,
    running: &[i64],
    proposed: &[i64],
    is_capacity: bool,
) -> bool {
    let [least, most] = parameter.accepted(hz);
    let as_many = running.len() == proposed.len() && proposed.len() == parameter.fields.len().max(1);
    let accepted = proposed.iter().all(|number| (least.max(0)..=most).contains(number));
    // A number that no kernel has says nothing of what is running.
    let is_known = running.iter().all(|number| *number >= 0);
    let cuts = |(place, (now, then)): (usize, (&i64, &i64))| {
        // A range is cut where its beginning rises.
        let is_first = parameter.fields.get(place).is_some_and(|field| field == "first");
        if is_first { then > now } else { then < now }
    };
    let is_no_cut = !is_capacity || !running.iter().zip(proposed).enumerate().any(cuts);
    as_many && accepted && is_known && is_no_cut
}

fn is_text_sane(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= LONGEST && !text.chars().any(char::is_control)
}
