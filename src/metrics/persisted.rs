//! Parameters after the next boot, problems of the files that set them, and programs that
//! set them later.

use std::fmt;

use super::sysctl::{fields, shorten};
use super::writer::{Label, Metric, Writer, gauge, info};
use crate::model::Snapshot;
use crate::model::persisted::Stored;

const VALUE: Metric = gauge(
    "nettune_sysctl_persisted_value",
    &["parameter", "field"],
    "What the files of sysctl.d set at the next boot; no sample for a number that they leave alone.",
);
const TEXT_INFO: Metric = info(
    "nettune_sysctl_persisted_text_info",
    &["parameter", "value"],
    "The same of a parameter that is a text.",
);
const INFO: Metric = info(
    "nettune_sysctl_persisted_info",
    &["parameter", "file"],
    "The file whose line counts at boot, by systemd-sysctl where that is installed, else by sysctl --system of procps; path on the host.",
);
const CONFLICT: Metric = gauge(
    "nettune_sysctl_persisted_conflict",
    &["parameter"],
    "1 for a parameter that systemd-sysctl and sysctl --system would leave at different values; only where both are installed.",
);
const FILE_PROBLEMS: Metric = gauge(
    "nettune_sysctl_file_problems",
    &["file", "problem"],
    "Lines of a file that do not do what they say: unknown_key, refused_value, syntax, module_missing (the module that makes the key, or that the value names, is loaded later), unverified (whether the kernel has what the value names cannot be told); unreadable is 1 for a whole file. At most 20 samples.",
);
const OWNER_INFO: Metric = info(
    "nettune_sysctl_owner_info",
    &["parameter", "owner"],
    "A program that likely set a running value which the files do not explain, as its own configuration on this host states that value; one sample for each such program.",
);

pub(super) fn metrics() -> Vec<&'static Metric> {
    vec![&VALUE, &TEXT_INFO, &INFO, &CONFLICT, &FILE_PROBLEMS, &OWNER_INFO]
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let settings = snapshot.persisted.as_deref().map(|found| found.settings.as_slice()).unwrap_or_default();
    let values = settings.iter().flat_map(|setting| {
        let numbers = match &setting.value {
            Some(Stored::Numbers(numbers)) => numbers.as_slice(),
            _ => &[],
        };
        let all = fields(&setting.name, &setting.fields, numbers);
        all.filter_map(|(labels, number)| Some((labels, number?)))
    });
    out.family(&VALUE, values)?;
    let texts: Vec<_> = settings
        .iter()
        .filter_map(|setting| match &setting.value {
            Some(Stored::Text(text)) => Some((&setting.name, shorten(text))),
            _ => None,
        })
        .collect();
    out.family(&TEXT_INFO, texts.iter().map(|(name, text)| ([Label::from(*name), text.into()], 1u64)))?;
    let places = settings.iter().filter_map(|setting| Some((&setting.name, setting.place.as_ref()?)));
    out.family(&INFO, places.map(|(name, place)| ([Label::from(name), (&place.file).into()], 1u64)))?;
    let conflicts = settings.iter().filter(|setting| setting.conflict.is_some());
    out.family(&CONFLICT, conflicts.map(|setting| ([(&setting.name).into()], 1u64)))?;
    let problems = snapshot.persisted.iter().flat_map(|found| &found.problems);
    out.family(
        &FILE_PROBLEMS,
        problems.map(|found| ([Label::from(&found.file), found.problem.name().into()], found.lines)),
    )?;
    let owners = snapshot.owners.iter().flatten();
    out.family(
        &OWNER_INFO,
        owners.map(|owned| ([Label::from(&owned.name), owned.program.name().into()], 1u64)),
    )
}
