//! Parameters of the catalogue: running values and the kernel's defaults.

use std::fmt;

use super::writer::{Label, Metric, Writer, gauge, info};
use crate::model::Snapshot;
use crate::model::parameters::State;
use crate::read::sysctl::Value;

const VALUE: Metric = gauge(
    "nettune_sysctl_value",
    &["parameter", "field"],
    "Running value; field names the numbers of parameters that have several, and is empty otherwise.",
)
.everywhere();
const DEFAULT_VALUE: Metric = gauge(
    "nettune_sysctl_default_value",
    &["parameter", "field"],
    "What an untouched kernel of this release uses on a host of this size; no sample where that is not known, and the running value where that is within the error of an estimate from memory.",
);
const TEXT_INFO: Metric =
    info("nettune_sysctl_text_info", &["parameter", "value"], "Running value that is a text.").everywhere();
const LOCKED: Metric = gauge(
    "nettune_sysctl_read_only",
    &["parameter"],
    "1 for a parameter that is shown in this network namespace and can be changed only in the initial one.",
);

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&VALUE, &DEFAULT_VALUE, &TEXT_INFO, &LOCKED]
}

/// Longest text that becomes a label value, characters. Lists of ports can be
/// longer; what is cut ends with an ellipsis.
const TEXT_LIMIT: usize = 200;

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let states = snapshot.parameters.as_deref().unwrap_or_default();
    let running = states.iter().flat_map(|state| match &state.value {
        Value::Numbers(numbers) => fields(state, numbers),
        Value::Text(_) => fields(state, &[]),
    });
    out.family(&VALUE, running)?;
    let defaults =
        states.iter().flat_map(|state| fields(state, state.default.as_deref().unwrap_or_default()));
    out.family(&DEFAULT_VALUE, defaults)?;
    let texts: Vec<_> = states
        .iter()
        .filter_map(|state| match &state.value {
            Value::Text(text) => Some((&state.name, shorten(text))),
            Value::Numbers(_) => None,
        })
        .collect();
    out.family(&TEXT_INFO, texts.iter().map(|(name, text)| ([Label::from(*name), text.into()], 1u64)))?;
    let locked = states.iter().filter(|state| state.locked);
    out.family(&LOCKED, locked.map(|state| ([(&state.name).into()], 1u64)))
}

/// The numbers of a parameter with the names of their fields.
fn fields<'s>(state: &'s State, numbers: &'s [i64]) -> impl Iterator<Item = ([Label<'s>; 2], i64)> {
    let names = state.fields.iter().map(String::as_str).chain(std::iter::repeat(""));
    names.zip(numbers).map(|(field, number)| ([(&state.name).into(), field.into()], *number))
}

/// Cut where an item of a list ends, so that no number is cut into another.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(TEXT_LIMIT) {
        Some((end, _)) => {
            let end = text[..end].rfind([',', ' ']).unwrap_or(end);
            format!("{}…", &text[..end])
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_where_a_character_ends() {
        assert_eq!(shorten("cubic"), "cubic");
        let long = "é".repeat(TEXT_LIMIT + 1);
        assert_eq!(shorten(&long).chars().count(), TEXT_LIMIT + 1);
        assert!(shorten(&long).ends_with('…'));
        let ports = "10000,".repeat(40);
        assert!(shorten(&ports).ends_with(",10000…"));
    }
}
