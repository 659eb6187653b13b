//! The file that overrides values, and labels and addresses of rules. All that it says
//! goes into PromQL, templates or documents, so that it is checked where it stands.

use std::collections::BTreeMap;
use std::fmt;

use regex::Regex;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::values::{duration, seconds};
use crate::catalogue::diagnoses::Quantity;
use crate::catalogue::{DIAGNOSES, FromText, Text};
use crate::metrics;

/// What a values file may say.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping with values, identity, runbook_url or dashboard_url")]
pub struct Overrides {
    /// Thresholds and windows by name, as they are rendered.
    #[serde(default, deserialize_with = "values")]
    pub(super) values: BTreeMap<String, String>,
    /// Labels that tell targets and namespaces apart, `netns` last.
    #[serde(default, deserialize_with = "identity")]
    pub(super) identity: Option<Vec<String>>,
    /// Where runbooks are, without a slash at the end.
    pub(super) runbook_url: Option<Text<Url>>,
    /// Where Grafana is, likewise.
    pub(super) dashboard_url: Option<Text<Url>>,
    /// The length of `$window`; other windows change in proportion.
    #[serde(skip)]
    pub window: Option<String>,
    /// What every `for` is multiplied with; 1 where not given.
    #[serde(skip)]
    pub for_scale: Option<f64>,
}

fn values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    deserializer.deserialize_map(ValuesVisitor)
}

struct ValuesVisitor;

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of values")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut all = BTreeMap::new();
        while let Some(Text(Name(name, usual))) = entries.next_key()? {
            let value = entries.next_value_seed(InPlaceOf(usual))?;
            if all.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("{name}: duplicate key")));
            }
        }
        Ok(all)
    }
}

/// The name of a value, and what it usually is.
struct Name(String, &'static Quantity);

impl FromText for Name {
    const EXPECTED: &'static str = "the name of a value";

    fn from_text(text: &str) -> Result<Self, String> {
        let known = DIAGNOSES.values.get(text);
        let known = known.map(|known| Self(text.to_owned(), &known.value));
        known.ok_or_else(|| format!("no value is called `{text}`; docs/alerts.md has their names"))
    }
}

/// Characters of a pattern, which stands in quotes of PromQL.
const PATTERN: &str = "._-/*+?|()[]^$";

/// Another value of the same kind.
struct InPlaceOf(&'static Quantity);

impl<'de> DeserializeSeed<'de> for InPlaceOf {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for InPlaceOf {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Quantity::Number(_) => "a number",
            Quantity::Text(_) => "a text",
        })
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        let usual = match self.0 {
            Quantity::Number(_) => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
                let number =
                    number.ok_or_else(|| E::custom(format!("`{text}` is no number of 0 or more")))?;
                return Ok(number.to_string());
            }
            Quantity::Text(usual) => usual,
        };
        if seconds(usual).is_ok() {
            return seconds(text).and_then(duration).map_err(E::custom);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || PATTERN.contains(c);
        if text.is_empty() || !text.chars().all(plain) || Regex::new(text).is_err() {
            return Err(E::custom(format!("`{text}` is no pattern of letters, digits and {PATTERN}")));
        }
        Ok(text.to_owned())
    }
}

fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    deserializer.deserialize_seq(IdentityVisitor).map(Some)
}

struct IdentityVisitor;

impl<'de> Visitor<'de> for IdentityVisitor {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of labels")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut labels: A) -> Result<Vec<String>, A::Error> {
        let mut found: Vec<String> = Vec::new();
        while let Some(Text(Label(label))) = labels.next_element()? {
            if found.contains(&label) {
                return Err(A::Error::custom(format!("`{label}` is there twice")));
            }
            found.push(label);
        }
        if found.last().is_none_or(|last| last != NAMESPACE) {
            return Err(A::Error::custom("netns must be the last"));
        }
        if !found.iter().any(|label| label == "instance") {
            return Err(A::Error::custom("instance must be one of them: pages name hosts by it"));
        }
        Ok(found)
    }
}

/// The label of identity that is nettune's own.
const NAMESPACE: &str = "netns";

/// A label that Prometheus gives to targets.
struct Label(String);

impl FromText for Label {
    const EXPECTED: &'static str = "the name of a label";

    fn from_text(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let digit = text.starts_with(|c: char| c.is_ascii_digit());
        if text.is_empty() || digit || text.starts_with("__") || !text.chars().all(plain) {
            return Err(format!("`{text}` is no name of a label"));
        }
        // Of metrics, of histograms and of alerts.
        let of_metrics = metrics::all().into_iter().any(|metric| metric.labels.contains(&text));
        let own = of_metrics || ["le", "alertname", "severity", "blame", "grouping"].contains(&text);
        if own && text != NAMESPACE {
            return Err(format!("`{text}` is a label of nettune's own, and tells no targets apart"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Longest address.
const URL_LIMIT: usize = 2000;

/// An address without a slash at the end, in which no template of Prometheus begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Url(pub(super) String);

impl FromText for Url {
    const EXPECTED: &'static str = "an address such as https://grafana.example.org";

    fn from_text(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let plain = |c: char| c.is_ascii_graphic() && !"{}<>\"'`\\".contains(c);
        if rest.is_none_or(str::is_empty) || text.len() > URL_LIMIT || !text.chars().all(plain) {
            return Err(format!("`{text}` is no {}", Self::EXPECTED.trim_start_matches("an ")));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<Overrides, String> {
        serde_yaml::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_taken_as_they_are_rendered() {
        let found = parse(
            "values: {window: 90s, refusals: 1e-2, long_chains: 0, inheritable: 'net.ipv4.tcp_[rw]mem'}\n\
            identity: [region, instance, netns]\nrunbook_url: https://runbooks.example/\n",
        );
        let found = found.unwrap();
        let values: Vec<_> =
            found.values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("inheritable", "net.ipv4.tcp_[rw]mem"),
            ("long_chains", "0"),
            ("refusals", "0.01"),
            ("window", "1m30s"),
        ];
        assert_eq!(values, expected);
        assert_eq!(found.identity.unwrap(), ["region", "instance", "netns"]);
        assert_eq!(found.runbook_url.unwrap().0.0, "https://runbooks.example");
        for nothing in ["values:", "{}", "values: {}", "runbook_url:"] {
            assert_eq!(parse(nothing), Ok(Overrides::default()), "{nothing}");
        }
    }

    #[test]
    fn overrides_are_checked_where_they_stand() {
        let cases = [
            ("values: {windoww: 5m}", "no value is called `windoww`"),
            ("values: {id: 5}", "no value is called `id`"),
            ("values: {window: 5}", "values.window: \"5\" is no duration"),
            ("values: {window: 1000y}", "values.window: more than the 292 years that Prometheus can hold"),
            ("values: {refusals: 5m}", "values.refusals: `5m` is no number"),
            ("values: {refusals: nan}", "values.refusals: `nan` is no number"),
            ("values: {refusals: .inf}", "values.refusals: `.inf` is no number"),
            ("values: {refusals: -1}", "values.refusals: `-1` is no number"),
            ("values: {refusals: true}", "values.refusals: `true` is no number"),
            ("values: {refusals: [1]}", "values.refusals: invalid type: sequence, expected a number"),
            ("values: {refusals: 1, refusals: 2}", "refusals: duplicate key"),
            (
                "values: {capacities: 'x\"} or vector(1) #'}",
                "values.capacities: `x\"} or vector(1) #` is no pattern",
            ),
            ("values: {capacities: 'a\\.b'}", "is no pattern"),
            ("values: {capacities: (}", "`(` is no pattern"),
            ("values: {capacities: ''}", "`` is no pattern"),
            ("values: {capacities: \"a\\nb\"}", "is no pattern"),
            ("identity: []", "netns must be the last"),
            ("identity: [job, instance]", "netns must be the last"),
            ("identity: [netns]", "instance must be one of them"),
            ("identity: [instance, instance, netns]", "`instance` is there twice"),
            ("identity: [a-b, instance, netns]", "identity[0]: `a-b` is no name"),
            ("identity: [1a, instance, netns]", "`1a` is no name"),
            ("identity: [__name__, instance, netns]", "`__name__` is no name"),
            ("identity: [port, instance, netns]", "`port` is a label of nettune's own"),
            ("identity: [severity, instance, netns]", "`severity` is a label of nettune's own"),
            ("runbook_url: ''", "runbook_url: `` is no address"),
            ("runbook_url: 'https://x/{{ nope }}'", "is no address"),
            ("dashboard_url: \"https://x\\n\"", "dashboard_url: "),
            ("dashboard_url: javascript:alert(1)", "is no address"),
            ("valeus: {}", "valeus"),
        ];
        for (yaml, expected) in cases {
            let error = parse(yaml).unwrap_err();
            assert!(
                error.contains(expected) && error.contains(" line 1 column ") | expected.contains("valeus"),
                "{yaml}: {error}"
            );
        }
    }
}
