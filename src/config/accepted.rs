//! Findings that people accepted, in the configuration file.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::checked::{FromText, Text};
use crate::catalogue::DIAGNOSES;
use crate::model::accepted::Accepted;

/// One of them.
#[derive(Debug)]
pub(super) struct Finding(Accepted);

impl Finding {
    pub(super) fn accepted(&self) -> Accepted {
        self.0.clone()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    alert: Text<Alert>,
    netns: Option<Text<Words>>,
    port: Option<Text<Words>>,
    device: Option<Text<Words>>,
    parameter: Option<Text<Words>>,
    path: Option<Text<Words>>,
    cpu: Option<Text<Words>>,
    reason: Text<Words>,
    until: Text<Until>,
}

const EXPECTED: &str = "a mapping with alert, reason and until, and one of port, device, parameter, path or cpu where it is about one";

impl<'de> Deserialize<'de> for Finding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FindingVisitor)
    }
}

struct FindingVisitor;

impl<'de> Visitor<'de> for FindingVisitor {
    type Value = Finding;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Finding, A::Error> {
        let fields = Fields::deserialize(MapAccessDeserializer::new(map))?;
        let alert = fields.alert.0.0;
        let given = [
            ("port", fields.port),
            ("device", fields.device),
            ("parameter", fields.parameter),
            ("path", fields.path),
            ("cpu", fields.cpu),
        ];
        let mut given = given.into_iter().filter_map(|(label, value)| Some((label, value?.0.0)));
        let of = given.next();
        if given.next().is_some() {
            return Err(A::Error::custom("more than one of port, device, parameter, path and cpu"));
        }
        let labels = DIAGNOSES.get(&alert).map(|diagnosis| diagnosis.per.as_slice()).unwrap_or_default();
        if let Some((label, _)) = &of
            && !labels.iter().any(|known| known == label)
        {
            return Err(A::Error::custom(format!("{alert} is not about a {label}")));
        }
        Ok(Finding(Accepted {
            alert,
            netns: fields.netns.map(|netns| netns.0.0),
            of,
            reason: fields.reason.0.0,
            until: fields.until.0.0,
        }))
    }
}

#[derive(Debug)]
struct Alert(String);

impl FromText for Alert {
    const EXPECTED: &'static str = "the name of an alert";

    fn from_text(text: &str) -> Result<Self, String> {
        match DIAGNOSES.get(text) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(format!("no alert is called `{text}`; docs/alerts.md has their names")),
        }
    }
}

#[derive(Debug)]
struct Words(String);

impl FromText for Words {
    const EXPECTED: &'static str = "a text";

    fn from_text(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the text is empty".into());
        }
        Ok(Self(text.to_owned()))
    }
}

/// The end of a day, by UTC.
#[derive(Debug)]
struct Until(Timestamp);

impl FromText for Until {
    const EXPECTED: &'static str = "a date such as 2027-01-31";

    fn from_text(text: &str) -> Result<Self, String> {
        let end =
            text.parse().and_then(|date: Date| date.tomorrow()).and_then(|next| next.to_zoned(TimeZone::UTC));
        end.map(|end| Self(end.timestamp())).map_err(|_| format!("`{text}` is no date such as 2027-01-31"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "{alert: NettuneAcceptQueueFullSomaxconn, port: '443', reason: known, until: 2027-01-31}";

    fn parse(text: &str) -> Result<Accepted, String> {
        serde_yaml::from_str::<Finding>(text).map(|found| found.0).map_err(|error| error.to_string())
    }

    #[test]
    fn a_finding_is_accepted_until_the_end_of_a_day() {
        let expected = Accepted {
            alert: "NettuneAcceptQueueFullSomaxconn".into(),
            netns: None,
            of: Some(("port", "443".into())),
            reason: "known".into(),
            until: "2027-02-01T00:00:00Z".parse().unwrap(),
        };
        assert_eq!(parse(GOOD), Ok(expected.clone()));
        assert_eq!(parse(&GOOD.replace("'443'", "443")), Ok(expected));
    }

    #[test]
    fn nonsense_is_refused_where_it_stands() {
        let cases = [
            ("NettuneAcceptQueueFullSomaxconn", "NettuneX", "no alert is called `NettuneX`"),
            ("port: '443'", "port: [443]", "expected a text"),
            ("port: '443'", "device: eth0", "is not about a device"),
            ("port: '443'", "port: '443', path: long", "more than one"),
            ("port: '443'", "address: '*'", "address"),
            ("reason: known, ", "", "reason"),
            ("reason: known", "reason: ' '", "empty"),
            (", until: 2027-01-31", "", "until"),
            ("2027-01-31", "soon", "`soon` is no date"),
            ("2027-01-31", "2027-02-30", "no date"),
        ];
        for (from, to, expected) in cases {
            let error = parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }
}
