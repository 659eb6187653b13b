//! Parameters of the catalogue: running values and the kernel's defaults.

use std::fmt;

use jiff::Timestamp;

use super::writer::{Label, Metric, Writer, gauge, info};
use crate::model::Snapshot;
use crate::model::parameters::State;
use crate::model::windows::window_of_buffer;
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
const WINDOW: Metric = gauge(
    "nettune_tcp_receive_window_ratio",
    &[],
    "Part of a receive buffer of TCP that its window is, the rest being overhead: as net.ipv4.tcp_adv_win_scale says up to Linux 6.5, then what a connection begins with, of which the kernel makes more or less by what it receives; no sample where it is not known which (tcp_win_from_space).",
);

const PREVIOUS_VALUE: Metric = gauge(
    "nettune_sysctl_previous_value",
    &["parameter", "field"],
    "The value before the last change that was seen, whoever made it, reboots included; no sample for a parameter that was not seen to change, or that was gone since and came back with another value.",
)
.everywhere();
const PREVIOUS_TEXT_INFO: Metric = info(
    "nettune_sysctl_previous_text_info",
    &["parameter", "value"],
    "The text before the last change that was seen.",
)
.everywhere();
const LAST_CHANGE: Metric = gauge(
    "nettune_sysctl_last_change_timestamp_seconds",
    &["parameter"],
    "When the running value was first seen after another one, seconds since the epoch; the change is up to --sample.interval older, or happened while no exporter ran: /changes tells from when on. Of other network namespaces since the exporter started, or since they were found, and looked at when nettune_netns_age_seconds says.",
)
.everywhere();

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![
        &VALUE,
        &DEFAULT_VALUE,
        &TEXT_INFO,
        &LOCKED,
        &WINDOW,
        &PREVIOUS_VALUE,
        &PREVIOUS_TEXT_INFO,
        &LAST_CHANGE,
    ]
}

/// Longest text that becomes a label value, characters. Lists of ports can be
/// longer; what is cut ends with an ellipsis.
const TEXT_LIMIT: usize = 200;

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let states = snapshot.parameters.as_deref().unwrap_or_default();
    let running = states.iter().flat_map(|state| match &state.value {
        Value::Numbers(numbers) => fields(&state.name, &state.fields, numbers),
        Value::Text(_) => fields(&state.name, &state.fields, &[]),
    });
    out.family(&VALUE, running)?;
    let defaults = states
        .iter()
        .flat_map(|state| fields(&state.name, &state.fields, state.default.as_deref().unwrap_or_default()));
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
    out.family(&LOCKED, locked.map(|state| ([(&state.name).into()], 1u64)))?;
    let facts = snapshot.facts.as_ref().filter(|_| !states.is_empty());
    let window = facts.and_then(|facts| window_of_buffer(facts, states));
    out.single(&WINDOW, window.map(|[window, buffer]| window as f64 / buffer as f64))?;
    write_changes(out, states)
}

fn write_changes(out: &mut Writer<'_>, states: &[State]) -> fmt::Result {
    let changed = || states.iter().filter_map(|state| Some((state, state.last_change.as_deref()?)));
    let previous = changed().flat_map(|(state, change)| match &change.from {
        // As many as there are names for: a file may say anything.
        Value::Numbers(numbers) if numbers.len() == state.fields.len().max(1) => {
            fields(&state.name, &state.fields, numbers)
        }
        _ => fields(&state.name, &state.fields, &[]),
    });
    out.family(&PREVIOUS_VALUE, previous)?;
    let texts: Vec<_> = changed()
        .filter_map(|(state, change)| match &change.from {
            Value::Text(text) => Some((&state.name, shorten(text))),
            Value::Numbers(_) => None,
        })
        .collect();
    let texts = texts.iter().map(|(name, text)| ([Label::from(*name), text.into()], 1u64));
    out.family(&PREVIOUS_TEXT_INFO, texts)?;
    let seconds = |at: Timestamp| at.as_millisecond() as f64 / 1e3;
    out.family(&LAST_CHANGE, changed().map(|(state, change)| ([(&state.name).into()], seconds(change.at))))
}

/// The numbers of a parameter with the names of their fields.
pub(super) fn fields<'s, N: Copy>(
    name: &'s str,
    fields: &'s [String],
    numbers: &'s [N],
) -> impl Iterator<Item = ([Label<'s>; 2], N)> {
    let names = fields.iter().map(String::as_str).chain(std::iter::repeat(""));
    names.zip(numbers).map(move |(field, number)| ([name.into(), field.into()], *number))
}

/// Cut where an item of a list ends, so that no number is cut into another.
pub(super) fn shorten(text: &str) -> String {
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
