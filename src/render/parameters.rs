use std::fmt::Write;

use crate::catalogue::{CATALOGUE, Default, Kind, Parameter, Rule, Scope, Version};

const HEAD: &str = "\
# Parameters

Rendered from `src/catalogue/parameters.yaml` by `nettune render`; do not edit.

`nettune_sysctl_value` carries the running value of each sysctl on a host,
`nettune_sysctl_default_value` what an untouched kernel of that release uses on
a host of that size; `nic.*` and `dev.*` are settings of devices, without a
sysctl. Versions are mainline's; some vendors bring changes back, and on their
kernels a default that is not the same for every release is not stated.

The tier says how much care a change takes. *essential*: a diagnosis may tell
people to change it; *advanced*: rarely, with evidence; *dangerous*: a wrong value
breaks connections or the host.

Numeric parameters that a release has, and those whose default is stated for it
(the rest changed in a release that is not established, or are facts and no
settings):

| release | parameters | default stated |
|---|---|---|
";

/// Releases that the table of stated defaults shows.
const RELEASES: [&str; 8] = ["4.18", "5.4", "5.10", "5.15", "6.1", "6.6", "6.12", "6.18"];

/// `docs/parameters.md`
pub(super) fn render() -> String {
    let mut text = HEAD.to_owned();
    for release in RELEASES.into_iter().filter_map(Version::parse) {
        let has = |parameter: &&Parameter| {
            matches!(parameter.kind, Kind::Int | Kind::Ints)
                && parameter.since.is_none_or(|since| release >= since)
                && parameter.removed.is_none_or(|removed| release < removed)
        };
        let all: Vec<_> = CATALOGUE.parameters.iter().filter(has).collect();
        let stated = |parameter: &&&Parameter| parameter.default.iter().any(|row| row.holds_for(release));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {release} | {} | {} |", all.len(), all.iter().filter(stated).count());
    }
    for parameter in &CATALOGUE.parameters {
        // Writing to a String cannot fail.
        let _ = write_parameter(&mut text, parameter);
    }
    text
}

fn write_parameter(text: &mut String, parameter: &Parameter) -> std::fmt::Result {
    writeln!(text, "\n## {}\n", parameter.name.replace('*', "\\*"))?;
    writeln!(text, "{}\n", parameter.bounds)?;
    let fields = match parameter.fields.as_slice() {
        [] => String::new(),
        fields => format!(" ({})", fields.join(", ")),
    };
    writeln!(text, "- Unit: {}{fields}", parameter.unit)?;
    writeln!(text, "- Scope: {}", scope(parameter.scope))?;
    writeln!(text, "- Default: {}", defaults(&parameter.default))?;
    let tier = format!("{:?}", parameter.tier).to_lowercase();
    writeln!(text, "- Tier: {tier}")?;
    for (what, version) in [
        ("Since", parameter.since),
        ("Removed in", parameter.removed),
        ("Without effect since", parameter.inert_since),
    ] {
        if let Some(version) = version {
            writeln!(text, "- {what}: Linux {version}")?;
        }
    }
    if let Some(module) = &parameter.module {
        writeln!(text, "- Needs module: `{module}`")?;
    }
    writeln!(text, "- Cautions: {}", parameter.cautions)?;
    if !parameter.quoted.is_empty() {
        let quoted: Vec<_> = parameter.quoted.iter().map(|value| format!("`{value}`")).collect();
        let myth = parameter.myth.as_deref().unwrap_or_default();
        writeln!(text, "- Often quoted: {}. {myth}", quoted.join(", "))?;
    }
    let sources: Vec<_> = parameter.sources.iter().map(|source| format!("`{source}`")).collect();
    writeln!(text, "- Sources: {}", sources.join(", "))
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespace => "each network namespace has its own value",
        Scope::Initial => "one value for the host, held by the initial network namespace",
        Scope::Device => "each network device has its own",
    }
}

fn defaults(rows: &[Default]) -> String {
    if rows.is_empty() {
        return "not stated".to_owned();
    }
    let shown = rows.iter().map(|row| {
        let range = match (row.since, row.until) {
            (Some(since), Some(until)) => format!(" (from {since}, before {until})"),
            (Some(since), None) => format!(" (from {since})"),
            (None, Some(until)) => format!(" (before {until})"),
            (None, None) => String::new(),
        };
        format!("{}{range}", default(row))
    });
    shown.collect::<Vec<_>>().join("; ")
}

fn default(row: &Default) -> String {
    if let Some(value) = row.value {
        return value.to_string();
    }
    if let Some(values) = &row.values {
        return values.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
    }
    match (&row.text, row.rule) {
        (Some(text), _) if text.is_empty() => "empty".to_owned(),
        (Some(text), _) => text.clone(),
        (None, Some(rule)) => describe(rule),
        (None, None) => String::new(),
    }
}

fn describe(rule: Rule) -> String {
    match rule {
        Rule::EstablishedHash { divisor, minimum: 0 } => {
            format!("buckets of the TCP established hash / {divisor}")
        }
        Rule::EstablishedHash { divisor, minimum } => {
            format!("buckets of the TCP established hash / {divisor}, at least {minimum}")
        }
        Rule::TcpMemory => "3/4, 1 and 3/2 of a 16th of the pages for buffers".into(),
        Rule::UdpMemory => "3/4, 1 and 3/2 of an 8th of the pages for buffers".into(),
        Rule::TcpReceiveBuffer { default, cap } => {
            format!(
                "one page (4096 before 6.0), {default}, and a 128th of the memory for buffers, at most {cap}"
            )
        }
        Rule::TcpSendBuffer { cap } => {
            format!("one page (4096 before 6.0), 16384, and a 128th of the memory for buffers, at most {cap}")
        }
        Rule::SocketBuffer => "212992 where a cache line has 64 bytes".into(),
        Rule::ConntrackBuckets { per_gib4, .. } => {
            format!("{per_gib4} above 4 GiB of memory, a quarter of that above 1 GiB, less below")
        }
        Rule::ConntrackMax { factor: 1 } => "the default of nf_conntrack_buckets".into(),
        Rule::ConntrackMax { factor } => format!("{factor} times the default of nf_conntrack_buckets"),
        Rule::ConntrackExpectMax => "4 for every 256 of nf_conntrack_buckets".into(),
        Rule::TwoJiffiesUsecs => "two timer ticks: 2000000 / CONFIG_HZ".into(),
        Rule::MemoryQuantum => "one page (4096 before 6.0)".into(),
    }
}
