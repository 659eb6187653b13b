//! Diagnoses → rules of Prometheus, and the same as a resource of its operator.

use serde::Serialize;

use super::annotations::Annotator;
use super::values::Values;
use crate::catalogue::diagnoses::{ACCEPTED_BY, Diagnoses, Diagnosis, Record};

const HEAD: &str = "\
# Rendered from src/catalogue/diagnoses.yaml by `nettune render`; do not edit.
# Needs Prometheus 2.42 or later (keep_firing_for).
";

/// A file of rules.
#[derive(Debug, Serialize)]
pub(super) struct Rules {
    groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
struct Group {
    name: String,
    rules: Vec<Rule>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Rule {
    Record {
        record: String,
        expr: String,
    },
    Alert {
        alert: String,
        expr: String,
        r#for: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        keep_firing_for: Option<String>,
        labels: Pairs,
        annotations: Pairs,
    },
}

/// A mapping in a given order.
#[derive(Debug)]
struct Pairs(Vec<(&'static str, String)>);

impl Serialize for Pairs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, text)| (name, text)))
    }
}

#[derive(Serialize)]
struct Resource<'r> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    spec: &'r Rules,
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
}

/// Recording rules, then alerts by section.
///
/// # Errors
/// The alert or record with a name that stands for nothing, or with a bad duration.
pub(super) fn rules(diagnoses: &Diagnoses, values: &Values) -> Result<Rules, String> {
    let record = |record: &Record| {
        let expr = values.fill(record.expr.trim()).map_err(|error| format!("{}: {error}", record.record))?;
        Ok(Rule::Record { record: record.record.clone(), expr })
    };
    let records = diagnoses.records.iter().map(record).collect::<Result<Vec<_>, String>>()?;
    let mut groups = vec![Group { name: "nettune-records".into(), rules: records }];
    for section in &diagnoses.sections {
        let of_section = diagnoses.diagnoses.iter().filter(|diagnosis| diagnosis.section == section.name);
        let alert =
            |diagnosis| alert(diagnosis, values).map_err(|error| format!("{}: {error}", diagnosis.alert));
        let rules = of_section.map(alert).collect::<Result<Vec<_>, _>>()?;
        groups.push(Group { name: format!("nettune-{}", section.name), rules });
    }
    groups.retain(|group| !group.rules.is_empty());
    Ok(Rules { groups })
}

/// `alerts/nettune.rules.yml`
pub(super) fn plain(rules: &Rules) -> String {
    // Strings and sequences of them serialize.
    HEAD.to_owned() + &serde_yaml::to_string(rules).unwrap_or_default()
}

/// `alerts/nettune.prometheusrule.yaml`
pub(super) fn resource(rules: &Rules) -> String {
    let resource = Resource {
        api_version: "monitoring.coreos.com/v1",
        kind: "PrometheusRule",
        metadata: Metadata { name: "nettune" },
        spec: rules,
    };
    HEAD.to_owned() + &serde_yaml::to_string(&resource).unwrap_or_default()
}

fn alert(diagnosis: &Diagnosis, values: &Values) -> Result<Rule, String> {
    let mut labels = vec![
        ("severity", diagnosis.severity.name().to_owned()),
        ("blame", diagnosis.blame.name().to_owned()),
        ("grouping", diagnosis.grouping.name().to_owned()),
    ];
    labels.extend(diagnosis.parameter.iter().map(|name| ("parameter", name.clone())));
    Ok(Rule::Alert {
        alert: diagnosis.alert.clone(),
        expr: expression(diagnosis, values)?,
        r#for: values.hold(&diagnosis.hold)?,
        keep_firing_for: diagnosis.keep_firing_for.as_deref().map(|time| values.hold(time)).transpose()?,
        labels: Pairs(labels),
        annotations: Pairs(Annotator::new(values, diagnosis).all()?),
    })
}

/// Every term of a diagnosis, and that nobody accepted the finding.
///
/// # Errors
/// A name that stands for nothing.
pub(super) fn expression(diagnosis: &Diagnosis, values: &Values) -> Result<String, String> {
    let per = ["$id"].into_iter().chain(diagnosis.per.iter().map(String::as_str));
    let common = per.collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    for (index, term) in diagnosis.terms.iter().enumerate() {
        let on = term.on.as_deref().unwrap_or(&common);
        match (index, &term.not) {
            (0, _) => {}
            (_, None) => text.push_str(&format!("and on ({on})\n")),
            (_, Some(_)) => text.push_str(&format!("unless on ({on})\n")),
        }
        let expr = term.expr.trim().replace('\n', "\n  ");
        text.push_str(&format!("(\n  {expr}\n)\n"));
    }
    text.push_str(&accepted(diagnosis));
    values.fill(text.trim_end())
}

/// What people accepted, as a whole or for one of the alert's own labels.
fn accepted(diagnosis: &Diagnosis) -> String {
    let alert = &diagnosis.alert;
    let series = "nettune_accepted_finding_info";
    let own: Vec<_> =
        ACCEPTED_BY.into_iter().filter(|label| diagnosis.per.iter().any(|per| per == label)).collect();
    let none: String = own.iter().map(|label| format!(",{label}=\"\"")).collect();
    let mut text = format!("unless on ($id) {series}{{alert=\"{alert}\"{none}}}\n");
    for label in own {
        let matcher = format!("alert=\"{alert}\",{label}!=\"\"");
        text.push_str(&format!("unless on ($id, {label}) {series}{{{matcher}}}\n"));
    }
    text
}
