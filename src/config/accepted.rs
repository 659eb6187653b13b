//! Findings that people accepted, in the configuration file.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::catalogue::{CATALOGUE, DIAGNOSES, FromText, Text};
use crate::model::accepted::Accepted;

/// All of them, each once: one that came twice would be a series that comes twice.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Accepted>);

impl Findings {
    pub(super) fn accepted(&self) -> Vec<Accepted> {
        self.0.clone()
    }
}

impl<'de> Deserialize<'de> for Findings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FindingsVisitor)
    }
}

struct FindingsVisitor;

impl<'de> Visitor<'de> for FindingsVisitor {
    type Value = Findings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of findings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut findings: A) -> Result<Findings, A::Error> {
        let mut found = Vec::new();
        while let Some(finding) = findings.next_element_seed(AfterOthers(&found))? {
            found.push(finding);
        }
        Ok(Findings(found))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    alert: Text<Alert>,
    netns: Option<Text<Words>>,
    port: Option<Text<Port>>,
    device: Option<Text<Words>>,
    parameter: Option<Text<Parameter>>,
    path: Option<Text<Words>>,
    cpu: Option<Text<Cpu>>,
    reason: Text<Words>,
    until: Text<Until>,
}

const EXPECTED: &str = "a mapping with alert, reason and until, and one of port, device, parameter, path or cpu where it is about one";

/// One of them, checked where it stands.
struct AfterOthers<'a>(&'a [Accepted]);

impl<'de> DeserializeSeed<'de> for AfterOthers<'_> {
    type Value = Accepted;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Accepted, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AfterOthers<'_> {
    type Value = Accepted;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Accepted, A::Error> {
        let fields = Fields::deserialize(MapAccessDeserializer::new(map))?;
        let alert = fields.alert.0.0;
        let given = [
            ("port", fields.port.map(|port| port.0.0)),
            ("device", fields.device.map(|device| device.0.0)),
            ("parameter", fields.parameter.map(|parameter| parameter.0.0)),
            ("path", fields.path.map(|path| path.0.0)),
            ("cpu", fields.cpu.map(|cpu| cpu.0.0)),
        ];
        let mut given = given.into_iter().filter_map(|(label, value)| Some((label, value?)));
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
        let netns = fields.netns.map(|netns| netns.0.0);
        if self.0.iter().any(|other| (&other.alert, &other.netns, &other.of) == (&alert, &netns, &of)) {
            return Err(A::Error::custom(format!("{alert} is accepted already for the same")));
        }
        Ok(Accepted { alert, netns, of, reason: fields.reason.0.0, until: fields.until.0.0 })
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

/// As the label has it: no other spelling would silence anything.
#[derive(Debug)]
struct Port(String);

impl FromText for Port {
    const EXPECTED: &'static str = "the number of a port";

    fn from_text(text: &str) -> Result<Self, String> {
        // Those that have no series of their own.
        if text == "other" || text.parse().is_ok_and(|port: u16| port.to_string() == text) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("`{text}` is no port such as 443"))
    }
}

/// Likewise.
#[derive(Debug)]
struct Parameter(String);

impl FromText for Parameter {
    const EXPECTED: &'static str = "the name of a parameter";

    fn from_text(text: &str) -> Result<Self, String> {
        match CATALOGUE.of(text) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(format!("no parameter is called `{text}`; docs/parameters.md has their names")),
        }
    }
}

/// Likewise.
#[derive(Debug)]
struct Cpu(String);

impl FromText for Cpu {
    const EXPECTED: &'static str = "the number of a CPU";

    fn from_text(text: &str) -> Result<Self, String> {
        if text.parse().is_ok_and(|cpu: u32| cpu.to_string() == text) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("`{text}` is no number of a CPU"))
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
        let found = serde_yaml::from_str::<Findings>(&format!("[{text}]"));
        found.map(|mut found| found.0.remove(0)).map_err(|error| error.to_string())
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
            ("port: '443'", "port: [443]", "expected the number of a port"),
            ("port: '443'", "port: '0443'", "`0443` is no port"),
            ("port: '443'", "port: 65536", "`65536` is no port"),
            ("port: '443'", "port: https", "`https` is no port"),
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
        let lost =
            "{alert: NettuneLostAtReboot, parameter: net/core/somaxconn, reason: known, until: 2027-01-31}";
        assert!(parse(lost).unwrap_err().contains("no parameter is called `net/core/somaxconn`"));
        for good in ["net.core.somaxconn", "net.ipv4.conf.eth0.rp_filter"] {
            assert!(parse(&lost.replace("net/core/somaxconn", good)).is_ok(), "{good}");
        }
        let cpu = "{alert: NettuneBacklogOneCpu, cpu: first, reason: known, until: 2027-01-31}";
        assert!(parse(cpu).unwrap_err().contains("`first` is no number of a CPU"));
        assert!(parse(&cpu.replace("first", "0")).is_ok());
    }

    #[test]
    fn nothing_is_accepted_twice() {
        let again = GOOD.replace("known", "again").replace("2027", "2028");
        let error = parse(&format!("{GOOD}, {again}")).unwrap_err();
        assert!(
            error.contains("[1]: NettuneAcceptQueueFullSomaxconn is accepted already for the same"),
            "{error}"
        );
        for (from, to) in [("'443'", "80"), ("port: '443', ", ""), ("port", "netns: pod, port")] {
            assert!(parse(&format!("{GOOD}, {}", again.replace(from, to))).is_ok(), "{to}");
        }
    }
}
