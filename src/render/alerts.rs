use std::fmt::Write;

use super::values::Values;
use crate::catalogue::diagnoses::{Diagnoses, Diagnosis, Quantity};

const HEAD: &str = "\
# Alerts

Rendered from `src/catalogue/diagnoses.yaml` by `nettune render`; do not edit.

Every alert says who is to blame: a `parameter`, which it names, or the `application`,
the `peer`, the `path`, the `hardware`, the `owner` (another program sets the key), the
`kernel`, `none`, or the `exporter`. All that stands under proof held when it fires.
*critical*: connections or packets are being lost now; *warning*: throughput or latency
is being lost, or a limit is near; *info*: a dangerous or pointless setting, or a boot
that will change behaviour. The name leads to the runbook.
";

/// `docs/alerts.md`
///
/// # Errors
/// A name that stands for nothing.
pub(super) fn render(diagnoses: &Diagnoses, values: &Values) -> Result<String, String> {
    let mut text = HEAD.to_owned();
    for section in &diagnoses.sections {
        let of_section: Vec<_> =
            diagnoses.diagnoses.iter().filter(|diagnosis| diagnosis.section == section.name).collect();
        if of_section.is_empty() {
            continue;
        }
        let title = &section.title;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n## {title}\n\n| alert | severity | blame | parameter | proof |\n|---|---|---|---|---|\n"
        );
        for diagnosis in of_section {
            text.push_str(&row(diagnosis, values)?);
        }
    }
    text.push_str("\n## Values\n\nA file given to `nettune render --values` overrides them.\n\n");
    text.push_str("| value | usual | for |\n|---|---|---|\n");
    for (name, named) in &diagnoses.values {
        let usual = match &named.value {
            Quantity::Number(number) => number.to_string(),
            Quantity::Text(text) => format!("`{}`", text.replace('|', "\\|")),
        };
        let _ = writeln!(text, "| `{name}` | {usual} | {} |", named.help);
    }
    Ok(text)
}

fn row(diagnosis: &Diagnosis, values: &Values) -> Result<String, String> {
    let alert = &diagnosis.alert;
    let parameter = match &diagnosis.parameter {
        Some(name) => format!("`{}`", name.replace('*', "\\*")),
        None if diagnosis.is_of_any_parameter() => "the one named".into(),
        None => String::new(),
    };
    let proof: Vec<_> =
        diagnosis.terms.iter().map(|term| proof(term.is.as_deref(), term.not.as_deref())).collect();
    let proof = values.words(&proof.join("; "))?.replace('|', "\\|");
    let (severity, blame) = (diagnosis.severity.name(), diagnosis.blame.name());
    Ok(format!(
        "| [{alert}](../alerts/runbooks/{alert}.md) | {severity} | {blame} | {parameter} | {proof} |\n"
    ))
}

/// One term in words.
pub(super) fn proof(is: Option<&str>, not: Option<&str>) -> String {
    match (is, not) {
        (Some(is), _) => is.to_owned(),
        (None, not) => format!("not: {}", not.unwrap_or_default()),
    }
}
