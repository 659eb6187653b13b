//! Values that parameters should have instead of the running ones.

use std::fmt;

use super::sysctl::fields;
use super::writer::{Label, Metric, Writer, gauge, info};
use crate::model::Snapshot;
use crate::read::sysctl::Value;

const VALUE: Metric = gauge(
    "nettune_sysctl_recommended_value",
    &["parameter", "field"],
    "What to set instead of the running value, all numbers of a parameter that has several; no sample without a reason that was seen within the last hour or is in the running value, and none that repeats this.",
)
.everywhere();
const TEXT_INFO: Metric = info(
    "nettune_sysctl_recommended_text_info",
    &["parameter", "value"],
    "The same of a parameter that is a text.",
)
.everywhere();
const BASIS: Metric = info(
    "nettune_sysctl_recommended_basis_info",
    &["parameter", "basis"],
    "What a recommended value rests on: declared or witnessed, what a path holds that was declared or seen to carry it; repeat, a multiple of a running value that limits, to be repeated if it still does; memory, the same as far as memory allows; peak, the most seen of what it bounds; seen, something that another mode or time avoids; listening_ports; tracker, when connection tracking or something declared on the way forgets a connection; dangerous, the running value is; default, the running value is below the kernel's own.",
)
.everywhere();

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&VALUE, &TEXT_INFO, &BASIS]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let all = || snapshot.recommendations.iter();
    let values = all().flat_map(|one| match &one.value {
        Value::Numbers(numbers) => fields(&one.name, &one.fields, numbers),
        Value::Text(_) => fields(&one.name, &one.fields, &[]),
    });
    out.family(&VALUE, values)?;
    // A text that is too long for a label is not recommended.
    let texts = all().filter_map(|one| match &one.value {
        Value::Text(text) => Some(([Label::from(&one.name), text.into()], 1u64)),
        Value::Numbers(_) => None,
    });
    out.family(&TEXT_INFO, texts)?;
    out.family(&BASIS, all().map(|one| ([Label::from(&one.name), one.basis.name().into()], 1u64)))
}
