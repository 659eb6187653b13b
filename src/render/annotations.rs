//! Texts of diagnoses → annotations of alerts, in the templates of Prometheus. What is
//! queried has every label of identity pinned, so that no other host's or namespace's
//! value can be printed.

use std::collections::BTreeSet;

use super::values::Values;
use crate::catalogue::diagnoses::{Diagnosis, Evidence};
use crate::catalogue::text::{Format, Piece, Text};
use crate::catalogue::{CATALOGUE, Kind, Parameter, Persist, Scope};

/// A change this recent is taken for the cure, which is undone by the value before it;
/// until there is one, what runs is what to go back to.
const CURE: u32 = 3600;
/// Names of files that are read after [`Annotator::file`], by either program: what
/// `sysctl --system` reads last has the name of its folder, `sysctl.conf`.
const LATER: &str = "/(99-zz-[o-~]|99-zz[.-~]|99-z[{-~]|99-[{-~]|[:-~])[^/]*$";

/// Renders the texts of one diagnosis.
pub(super) struct Annotator<'d> {
    values: &'d Values,
    diagnosis: &'d Diagnosis,
    parameter: Option<&'d Parameter>,
}

type Result<T> = std::result::Result<T, String>;

impl<'d> Annotator<'d> {
    pub(super) fn new(values: &'d Values, diagnosis: &'d Diagnosis) -> Self {
        let parameter = diagnosis.parameter.as_deref().and_then(|name| CATALOGUE.get(name));
        Self { values, diagnosis, parameter }
    }

    /// Annotations in the order in which they are read.
    pub(super) fn all(&self) -> Result<Vec<(&'static str, String)>> {
        let diagnosis = self.diagnosis;
        let has_sysctl = diagnosis.has_sysctl();
        let parameter = match &diagnosis.parameter {
            Some(name) => name.clone(),
            None if diagnosis.is_of_any_parameter() => "{{ $labels.parameter }}".into(),
            None => "none".into(),
        };
        let or = |text: &Option<Text>, known: &str, none: &str| match text {
            Some(text) => self.text(text),
            None if has_sysctl => self.blank(known, None),
            None => Ok(none.to_owned()),
        };
        let current = or(&diagnosis.current, "current", "no parameter binds")?;
        let recommended = or(&diagnosis.recommended, "recommended", "nothing to set")?;
        let steps = |steps: &[Text], usual: &str| match steps {
            [] => self.blank(usual, None),
            steps => Ok(steps.iter().map(|step| self.text(step)).collect::<Result<Vec<_>>>()?.join("\n")),
        };
        let (values, alert) = (self.values, &diagnosis.alert);
        Ok(vec![
            ("summary", self.text(&diagnosis.summary)?),
            ("description", self.text(&diagnosis.why)?),
            ("parameter", parameter),
            ("current", current),
            ("recommended", recommended),
            ("apply", steps(&diagnosis.apply, "set")?),
            ("persist", steps(&diagnosis.persist, "keep")?),
            ("rollback", steps(&diagnosis.rollback, "undo")?),
            ("verify", steps(&diagnosis.verify, "verify")?),
            ("runbook_url", format!("{}/{alert}.md", values.runbook_url)),
            ("dashboard_url", self.dashboard()),
        ])
    }

    fn dashboard(&self) -> String {
        let labels = self.values.identity.iter();
        let labels = labels.map(|label| format!("var-{label}={{{{ $labels.{label} | urlquery }}}}"));
        let labels: Vec<_> = labels.collect();
        format!("{}/d/nettune-host?{}", self.values.dashboard_url, labels.join("&"))
    }

    fn text(&self, text: &Text) -> Result<String> {
        text.pieces()
            .iter()
            .map(|piece| match piece {
                Piece::Words(words) => self.values.words(words),
                Piece::Blank { name, format } => self.blank(name, *format),
            })
            .collect()
    }

    fn blank(&self, name: &str, format: Option<Format>) -> Result<String> {
        if let Some(evidence) = self.diagnosis.evidence.get(name) {
            return self.evidence(evidence, format);
        }
        Ok(match name {
            "value" => shown("$value", format.unwrap_or(Format::Count)),
            "host" => "{{ $labels.instance | stripPort }}".into(),
            "enter" => self.inside()?,
            "current" => self.with(Series::Running, str::to_owned, "unknown")?,
            "recommended" => {
                self.with(Series::Recommended, str::to_owned, "no value can be computed here")?
            }
            "previous" => self.with(Series::Previous, str::to_owned, "unknown")?,
            "set" => self.set()?,
            "keep" => self.keep()?,
            "undo" => self.undo()?,
            "own_file" => self.file(),
            label => format!("{{{{ $labels.{label} }}}}"),
        })
    }

    fn evidence(&self, evidence: &Evidence, format: Option<Format>) -> Result<String> {
        let query = self.query(&evidence.expr)?;
        let shown = match &evidence.label {
            Some(label) if evidence.every => format!(
                "{{{{ range $place, $sample := sortByLabel {label:?} . }}}}{{{{ if $place }}}}, {{{{ end }}}}\
                {{{{ $sample | label {label:?} }}}}{{{{ end }}}}"
            ),
            Some(label) => format!("{{{{ . | first | label {label:?} }}}}"),
            None => shown("(. | first | value)", format.or(evidence.format).unwrap_or(Format::Count)),
        };
        let otherwise = self.values.words(&evidence.otherwise)?;
        Ok(format!("{{{{ with {query} }}}}{shown}{{{{ else }}}}{otherwise}{{{{ end }}}}"))
    }

    /// A query in which `$pin` stands for matchers of this alert's own identity, `$node`
    /// for those without the namespace, and `$each` for those with the labels of `per`.
    fn query(&self, expr: &str) -> Result<String> {
        let identity: Vec<&str> = self.values.identity.iter().map(String::as_str).collect();
        let per = self.diagnosis.per.iter().map(String::as_str);
        let mut arguments = String::new();
        let mut argument = |label: &str| {
            arguments.push_str(&format!(" $labels.{label}"));
            "%q"
        };
        let mut matchers = |labels: &[&str]| {
            let each: Vec<_> = labels.iter().map(|label| format!("{label}={}", argument(label))).collect();
            Some(each.join(","))
        };
        // `%` of an expression is none of printf's.
        let filled = self.values.fill_but(&expr.trim().replace('%', "%%"), |name| match name {
            "pin" => matchers(&identity),
            "node" => matchers(&identity[..identity.len() - 1]),
            "each" => matchers(&identity.iter().copied().chain(per.clone()).collect::<Vec<_>>()),
            "parameter" => matchers(&["parameter"]).map(|matcher| matcher.replace("parameter=", "")),
            _ => None,
        })?;
        if filled.contains('`') {
            return Err(format!("a backquote in {expr:?}"));
        }
        Ok(format!("printf `{filled}`{arguments} | query"))
    }

    /// A query of one series of the parameter to blame.
    fn of_parameter(&self, series: &str, matcher: &str, after: &str) -> Result<String> {
        let pin = match self.parameter.map(|parameter| parameter.scope) {
            Some(Scope::Initial) => "$node,netns=\"\"",
            _ => "$pin",
        };
        let name = self.parameter.map_or("$parameter".into(), |parameter| format!("\"{}\"", parameter.name));
        self.query(&format!("{series}{{{pin},parameter={name}{matcher}}}{after}"))
    }

    /// A query of its running value. Of another namespace only values are shown that are
    /// neither ours nor the default: what it does not show is ours.
    fn running(&self, series: &str) -> Result<String> {
        match self.parameter {
            Some(parameter) if parameter.scope == Scope::Namespace => {
                let name = &parameter.name;
                self.query(&format!(
                    "{series}{{$pin,parameter=\"{name}\"}} \
                    or on (field) {series}{{$node,netns=\"\",parameter=\"{name}\"}}"
                ))
            }
            _ => self.of_parameter(series, "", ""),
        }
    }

    /// The parameters that it may be about.
    fn candidates(&self) -> &'d [Parameter] {
        match self.parameter {
            Some(parameter) => std::slice::from_ref(parameter),
            None => &CATALOGUE.parameters,
        }
    }

    /// Names of the first number, of the second, and so on; none of a text.
    fn fields(&self) -> Vec<BTreeSet<&'d str>> {
        let mut names: Vec<BTreeSet<&str>> = Vec::new();
        for parameter in self.candidates().iter().filter(|known| matches!(known.kind, Kind::Int | Kind::Ints))
        {
            let single = parameter.fields.is_empty().then_some("");
            let fields = parameter.fields.iter().map(String::as_str).chain(single);
            for (place, field) in fields.enumerate() {
                names.resize(names.len().max(place + 1), BTreeSet::new());
                names[place].insert(field);
            }
        }
        names
    }

    /// `body` with the value where it is known, or with that which fits every host where
    /// one is to be set, else `otherwise`.
    fn with(&self, series: Series, body: impl Fn(&str) -> String, otherwise: &str) -> Result<String> {
        let (numbers, texts) = series.names();
        let query = |name| match series {
            Series::Running => self.running(name),
            Series::Recommended | Series::Previous => self.of_parameter(name, "", ""),
        };
        let mut text = String::new();
        let mut word = "if";
        let fields = self.fields();
        if !fields.is_empty() {
            let query = query(numbers)?;
            let value: String = (0..).zip(fields).map(|(place, names)| number(place, &names)).collect();
            text.push_str(&format!("{{{{ $numbers := {query} }}}}{{{{ if $numbers }}}}{}", body(&value)));
            word = "else if";
        }
        if self.candidates().iter().any(|known| known.kind == Kind::Text) {
            let query = query(texts)?;
            let value = format!("{{{{ {query} | first | label \"value\" }}}}");
            text.push_str(&format!("{{{{ {word} {query} }}}}{}", body(&value)));
        }
        let otherwise = match (series, &self.diagnosis.to) {
            (Series::Recommended, Some(value)) => body(value),
            _ => otherwise.to_owned(),
        };
        Ok(text + &format!("{{{{ else }}}}{otherwise}{{{{ end }}}}"))
    }

    fn name(&self) -> String {
        self.parameter.map_or("{{ $labels.parameter }}".into(), |parameter| parameter.name.clone())
    }

    /// A value that a shell would take for several words stands between apostrophes.
    fn assignment(&self, value: &str) -> String {
        let quote = if self.fields().len() == 1 && self.parameter.is_some() { "" } else { "'" };
        format!("sysctl -w {}={quote}{value}{quote}", self.name())
    }

    /// What a command that sets the parameter is preceded by: one of the host's is set
    /// there, whichever namespace the finding is of.
    fn enter(&self) -> Result<String> {
        match self.parameter.map(|parameter| parameter.scope) {
            Some(Scope::Initial) => Ok(String::new()),
            _ => self.inside(),
        }
    }

    /// What a command is preceded by that is to run in the namespace of the finding.
    fn inside(&self) -> Result<String> {
        let query = self.query("nettune_netns_info{$pin}")?;
        Ok(format!("{{{{ with {query} }}}}{{{{ . | first | label \"enter\" }}}} {{{{ end }}}}"))
    }

    fn set(&self) -> Result<String> {
        let enter = self.enter()?;
        let command = |value: &str| format!("{enter}{}", self.assignment(value));
        self.with(Series::Recommended, command, "no value can be computed here; see the runbook")
    }

    /// The file that keeps a value.
    fn file(&self) -> String {
        let name = match self.parameter {
            Some(parameter) => parameter.short_name().to_owned(),
            None => "{{ $labels.parameter | reReplaceAll \"/\" \"-\" }}".into(),
        };
        format!("/etc/sysctl.d/99-zz-nettune-{name}.conf")
    }

    fn module(&self) -> Option<(String, &str)> {
        let parameter = self.parameter.filter(|parameter| parameter.persist == Persist::ModuleAndSysctl)?;
        let module = parameter.module.as_deref()?;
        Some((format!("/etc/modules-load.d/nettune-{module}.conf"), module))
    }

    fn keep(&self) -> Result<String> {
        let (name, file) = (self.name(), self.file());
        let module = self.module().map(|(file, module)| format!("echo {module} | tee {file}\n"));
        let module = module.unwrap_or_default();
        let later = self.of_parameter("nettune_sysctl_persisted_info", "", "")?;
        let later = format!(
            "{{{{ with {later} }}}}{{{{ $file := . | first | label \"file\" }}}}{{{{ if match {LATER:?} $file }}}}\n\
            # {{{{ $file }}}} sets it too and is read later: change its line as well{{{{ end }}}}{{{{ end }}}}"
        );
        let command = |value: &str| {
            let line = format!("{module}echo \"{name} = {value}\" | tee {file}{later}");
            if self.parameter.is_some_and(|parameter| parameter.scope == Scope::Initial) {
                return line;
            }
            format!(
                "{{{{ if $labels.netns }}}}where the namespace is made: securityContext.sysctls of the pod, \
                docker run --sysctl {name}='{value}', or the unit that makes it{{{{ else }}}}{line}{{{{ end }}}}"
            )
        };
        self.with(Series::Recommended, command, "nothing to keep before a value is chosen")
    }

    fn undo(&self) -> Result<String> {
        let enter = self.enter()?;
        let module = self.module().map(|(file, _)| format!(" {file}")).unwrap_or_default();
        let remove = format!(" && rm -f {}{module}", self.file());
        let remove = match self.parameter.map(|parameter| parameter.scope) {
            Some(Scope::Initial) => remove,
            _ => format!("{{{{ if not $labels.netns }}}}{remove}{{{{ end }}}}"),
        };
        let command = |value: &str| format!("{enter}{}{remove}", self.assignment(value));
        let running = self.with(Series::Running, command, "note the value before changing it")?;
        let previous = self.with(Series::Previous, command, "the value before is not known")?;
        let since = format!(" > time() - {CURE}");
        let cured = self.of_parameter("nettune_sysctl_last_change_timestamp_seconds", "", &since)?;
        Ok(format!("{{{{ if {cured} }}}}{previous}{{{{ else }}}}{running}{{{{ end }}}}"))
    }
}

/// Values of a parameter that can be asked for.
#[derive(Clone, Copy)]
enum Series {
    Running,
    Recommended,
    Previous,
}

impl Series {
    /// Of numbers, and of texts.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Running => ("nettune_sysctl_value", "nettune_sysctl_text_info"),
            Self::Recommended => ("nettune_sysctl_recommended_value", "nettune_sysctl_recommended_text_info"),
            Self::Previous => ("nettune_sysctl_previous_value", "nettune_sysctl_previous_text_info"),
        }
    }
}

/// The number at one place of what was queried, which comes in no order.
fn number(place: usize, names: &BTreeSet<&str>) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    let (space, names) = (if place > 0 { " " } else { "" }, names.join(" "));
    let shown = shown("(. | value)", Format::Count);
    format!(
        "{{{{ range $numbers }}}}{{{{ if eq (. | label \"field\") {names} }}}}{space}{shown}{{{{ end }}}}{{{{ end }}}}"
    )
}

/// A number in the template language.
fn shown(number: &str, format: Format) -> String {
    match format {
        Format::Count => format!("{{{{ {number} | printf \"%.0f\" }}}}"),
        Format::Rate => format!("{{{{ {number} | printf \"%.1f\" }}}}"),
        Format::Ratio => format!("{{{{ {number} | printf \"%.2f\" }}}}"),
        Format::Percent => format!("{{{{ {number} | humanizePercentage }}}}"),
        Format::Bytes => format!("{{{{ {number} | humanize1024 }}}}B"),
        Format::Duration => format!("{{{{ {number} | humanizeDuration }}}}"),
    }
}
