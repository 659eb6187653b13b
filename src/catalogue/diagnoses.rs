//! What the rules can say, as data: `diagnoses.yaml`, embedded, typed and checked.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::text::{Format, Text};
use super::{CATALOGUE, Kind, unique};

/// The diagnoses that this build carries.
pub static DIAGNOSES: LazyLock<Diagnoses> = LazyLock::new(|| {
    // Invariant: a test parses and checks the embedded file.
    Diagnoses::parse(include_str!("diagnoses.yaml")).expect("the embedded diagnoses are valid")
});

/// Placeholders that every text may have besides labels and evidence.
///
/// `value` is that of the expression, `host` the instance, `enter` what a command is
/// preceded by to run in the namespace. Of the parameter to blame: `current`,
/// `recommended` and `previous` values, and the commands that `set` and `keep` the
/// recommended one and `undo` that; `own_file` is where `keep` keeps it.
pub const BLANKS: [&str; 10] =
    ["value", "host", "enter", "current", "recommended", "previous", "set", "keep", "undo", "own_file"];

/// Labels that an accepted finding may be narrowed to, one of them at a time.
pub const ACCEPTED_BY: [&str; 5] = ["port", "device", "parameter", "path", "cpu"];

/// Everything the rules can say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diagnoses {
    /// Thresholds and windows by name, as `$name` in expressions and texts.
    #[serde(deserialize_with = "unique")]
    pub values: BTreeMap<String, Named>,
    /// Rules that record what several diagnoses or panels use.
    pub records: Vec<Record>,
    /// Groups of rules and headings of documents, in their order.
    pub sections: Vec<Section>,
    /// In the order of the file.
    pub diagnoses: Vec<Diagnosis>,
}

/// A threshold or a window.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// What it is unless somebody says otherwise.
    pub value: Quantity,
    /// A share of 1, which texts show in percent.
    #[serde(default)]
    pub share: bool,
    /// What it is for.
    pub help: String,
}

/// A number or a text, which may be a length of time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A bare number.
    Number(f64),
    /// A length of time as Prometheus writes it, `5m`, or a pattern.
    Text(String),
}

/// A recording rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Name of the series.
    pub record: String,
    /// PromQL with `$name`.
    pub expr: String,
    /// What it is.
    pub help: String,
}

/// A group of diagnoses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// As diagnoses refer to it.
    pub name: String,
    /// As people read it.
    pub title: String,
}

/// One alert, with all there is to say about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diagnosis {
    /// Name of the alert.
    pub alert: String,
    /// The [`Section`] it is in.
    pub section: String,
    /// How bad it is.
    pub severity: Severity,
    /// Who or what is to blame.
    pub blame: Blame,
    /// Catalogue name of the parameter to blame. None for blame of others, and where
    /// the alert is about any parameter, which `per` then has as a label.
    pub parameter: Option<String>,
    /// How pages are grouped.
    #[serde(default)]
    pub grouping: Grouping,
    /// Labels that tell alerts of one namespace apart, besides identity.
    #[serde(default)]
    pub per: Vec<String>,
    /// What holds, all of it. The first is the symptom, whose value the alert has.
    pub terms: Vec<Term>,
    /// How long it must hold.
    #[serde(rename = "for")]
    pub hold: String,
    /// How long it stays after it no longer holds (Prometheus 2.42).
    pub keep_firing_for: Option<String>,
    /// Figures for texts.
    #[serde(default, deserialize_with = "unique")]
    pub evidence: BTreeMap<String, Evidence>,
    /// One line.
    pub summary: Text,
    /// Why this is to blame, with figures.
    pub why: Text,
    /// The value to set where the exporter computes none: one that fits every host.
    pub to: Option<String>,
    /// What stands for the current value where no parameter is to blame.
    pub current: Option<Text>,
    /// What stands for the value to set, likewise.
    pub recommended: Option<Text>,
    /// What to do, a command or sentence each. Empty means `{set}`, where a sysctl is to
    /// blame.
    #[serde(default)]
    pub apply: Vec<Text>,
    /// How to keep it; empty means `{keep}` likewise.
    #[serde(default)]
    pub persist: Vec<Text>,
    /// How to undo both; empty means `{undo}` likewise.
    #[serde(default)]
    pub rollback: Vec<Text>,
    /// How to see that it helped.
    pub verify: Vec<Text>,
    /// Commands of standard tools that show the same, for the runbook.
    pub by_hand: Vec<String>,
    /// What the symptom tempts people to blame, and why that is wrong.
    #[serde(deserialize_with = "unique")]
    pub never: BTreeMap<String, String>,
    /// When to leave it alone, for the runbook.
    pub ignore: String,
    /// Kernel files and documents, with version.
    pub sources: Vec<String>,
}

/// One condition of a diagnosis.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// In words, when it must hold.
    pub is: Option<String>,
    /// In words, when it must not.
    pub not: Option<String>,
    /// PromQL with `$name`.
    pub expr: String,
    /// Labels it has in common with the symptom: `$id` and those of `per` unless said.
    pub on: Option<String>,
}

/// A figure for texts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// PromQL whose selectors have `$pin`, `$host` or `$each` among their matchers.
    pub expr: String,
    /// How its value is shown.
    pub format: Option<Format>,
    /// The label to show instead of the value.
    pub label: Option<String>,
    /// Show that of every sample, not of one: a list.
    #[serde(default)]
    pub every: bool,
    /// What stands where there is no such sample.
    #[serde(default = "unknown")]
    pub otherwise: String,
}

fn unknown() -> String {
    "unknown".into()
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Connections or packets are being lost now.
    Critical,
    /// Throughput or latency is being lost, or a limit is near.
    Warning,
    /// A dangerous or pointless setting, or a boot that will change behaviour.
    Info,
}

/// Who or what is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum Blame {
    Parameter,
    Application,
    Peer,
    Path,
    Hardware,
    /// Another program sets the key.
    Owner,
    Kernel,
    None,
    Exporter,
}

/// How pages are grouped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Losses: by host.
    #[default]
    Host,
    /// Settings: by alert and parameter, since a fleet shares its image.
    Fleet,
}

macro_rules! words {
    ($($type:ident: $($variant:ident $word:literal)*;)*) => {$(
        impl $type {
            /// The word of labels and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    )*};
}

words! {
    Severity: Critical "critical" Warning "warning" Info "info";
    Blame: Parameter "parameter" Application "application" Peer "peer" Path "path" Hardware "hardware"
        Owner "owner" Kernel "kernel" None "none" Exporter "exporter";
    Grouping: Host "host" Fleet "fleet";
}

impl Diagnoses {
    /// Parses and checks diagnoses.
    ///
    /// # Errors
    /// The first field that is unknown, of a wrong type or contradicts another, with line
    /// or alert.
    pub fn parse(yaml: &str) -> Result<Self, String> {
        let all: Self = serde_yaml::from_str(yaml).map_err(|error| error.to_string())?;
        for (index, diagnosis) in all.diagnoses.iter().enumerate() {
            let earlier = &all.diagnoses[..index];
            let twice = earlier.iter().any(|other| other.alert == diagnosis.alert);
            let problem = twice.then(|| "alert: twice in the file".to_owned());
            let section = all.sections.iter().any(|section| section.name == diagnosis.section);
            let problem = problem.or_else(|| (!section).then(|| "section: no such section".to_owned()));
            if let Some(problem) = problem.or_else(|| diagnosis.problem()) {
                return Err(format!("{}: {problem}", diagnosis.alert));
            }
        }
        Ok(all)
    }

    /// A threshold by its name; `None` where there is none that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.values.get(name)?.value {
            Quantity::Number(number) => Some(number),
            Quantity::Text(_) => None,
        }
    }

    /// The diagnosis of this alert.
    pub fn get(&self, alert: &str) -> Option<&Diagnosis> {
        self.diagnoses.iter().find(|diagnosis| diagnosis.alert == alert)
    }
}

impl Diagnosis {
    /// Whether a sysctl is to blame, so that there are commands that set it.
    pub fn has_sysctl(&self) -> bool {
        let known = self.parameter.as_deref().and_then(|name| CATALOGUE.get(name));
        known.is_some_and(|parameter| parameter.kind != Kind::Object) || self.is_of_any_parameter()
    }

    /// Whether its label says which parameter.
    pub fn is_of_any_parameter(&self) -> bool {
        self.per.iter().any(|label| label == "parameter")
    }

    /// Every text of it.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        let steps = [&self.apply, &self.persist, &self.rollback, &self.verify];
        let single = [Some(&self.summary), Some(&self.why), self.current.as_ref(), self.recommended.as_ref()];
        single.into_iter().flatten().chain(steps.into_iter().flatten())
    }

    /// What its fields contradict.
    fn problem(&self) -> Option<String> {
        if !self.alert.starts_with("Nettune") {
            return Some("alert: begins with Nettune".into());
        }
        if self.terms.first().is_none_or(|term| term.is.is_none() || term.on.is_some()) {
            return Some("terms: the first is the symptom, with `is` and without `on`".into());
        }
        if self.terms.iter().any(|term| term.is.is_some() == term.not.is_some()) {
            return Some("terms: each has either `is` or `not`".into());
        }
        if let Some(name) = &self.parameter
            && CATALOGUE.get(name).is_none()
        {
            return Some(format!("parameter: {name} is not in the catalogue"));
        }
        let named = self.parameter.is_some() || self.is_of_any_parameter();
        if self.blame == Blame::Parameter && !named {
            return Some("parameter: needed, since one is to blame".into());
        }
        if self.to.is_some() && !self.has_sysctl() {
            return Some("to: no sysctl is to blame".into());
        }
        if self.evidence.values().any(|evidence| evidence.every && evidence.label.is_none()) {
            return Some("evidence: every needs a label".into());
        }
        if !self.has_sysctl()
            && [&self.apply, &self.persist, &self.rollback].iter().any(|steps| steps.is_empty())
        {
            return Some("apply, persist, rollback: needed where no sysctl is to blame".into());
        }
        let knows = |name: &str| {
            BLANKS.contains(&name)
                || self.evidence.contains_key(name)
                || self.per.iter().any(|label| label == name)
        };
        let blank = self.texts().flat_map(Text::blanks).find(|name| !knows(name))?;
        Some(format!("{{{blank}}}: neither a label in `per` nor an evidence"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "values: {}\nrecords: []\nsections: [{name: s, title: S}]\ndiagnoses:\n";
    const ENTRY: &str = "  - alert: NettuneX\n    section: s\n    severity: info\n    blame: parameter\n    \
        parameter: net.core.somaxconn\n    terms: [{is: i, expr: e}]\n    for: 1m\n    summary: '{host}'\n    \
        why: w\n    verify: [v]\n    by_hand: [b]\n    never: {x: y}\n    ignore: n\n    sources: [s]\n";

    #[test]
    fn the_embedded_diagnoses_are_valid() {
        assert!(!Diagnoses::parse(include_str!("diagnoses.yaml")).unwrap().diagnoses.is_empty());
    }

    #[test]
    fn contradictions_are_refused_with_their_place() {
        assert!(Diagnoses::parse(&format!("{HEAD}{ENTRY}")).is_ok());
        let cases = [
            ("why: w", "why: w\n    wyh: w", "wyh"),
            ("severity: info", "severity: bad", "bad"),
            ("section: s", "section: t", "NettuneX: section: no such section"),
            ("NettuneX", "X", "X: alert: begins with Nettune"),
            ("net.core.somaxconn", "net.core.sommaxconn", "not in the catalogue"),
            ("parameter: net.core.somaxconn", "per: [port]", "parameter: needed"),
            (
                "blame: parameter\n    parameter: net.core.somaxconn",
                "blame: peer",
                "apply, persist, rollback: needed",
            ),
            ("{is: i, expr: e}", "{not: i, expr: e}", "terms: the first"),
            ("{is: i, expr: e}", "{is: i, expr: e}, {expr: e}", "terms: each"),
            ("why: w", "why: w\n    evidence: {e: {expr: x, every: true}}", "every needs a label"),
            (
                "blame: parameter\n    parameter: net.core.somaxconn",
                "blame: peer\n    to: '1'",
                "to: no sysctl",
            ),
            ("'{host}'", "'{port}'", "{port}: neither a label"),
            ("'{host}'", "'{host'", "brace"),
            ("{x: y}", "{x: y, x: z}", "x: duplicate key"),
        ];
        for (from, to, expected) in cases {
            let changed = ENTRY.replace(from, to);
            assert_ne!(changed, ENTRY, "{from}");
            let error = Diagnoses::parse(&format!("{HEAD}{changed}")).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
        assert_eq!(
            Diagnoses::parse(&format!("{HEAD}{ENTRY}{ENTRY}")).unwrap_err(),
            "NettuneX: alert: twice in the file"
        );
    }
}
