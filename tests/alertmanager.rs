//! The example for Alertmanager: where messages go, and which finding silences which.

use std::collections::BTreeSet;
use std::fs;

use nettune::catalogue::DIAGNOSES;
use nettune::catalogue::diagnoses::Diagnosis;
use regex::Regex;
use serde_json::Value;

use crate::namespace::Namespace;
use crate::pages::Running;
use crate::support::{Scratch, eventually};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/alerts/alertmanager/alertmanager.yml");

fn example() -> serde_yaml::Value {
    serde_yaml::from_str(&fs::read_to_string(EXAMPLE).unwrap()).unwrap()
}

/// A finding of this host as Prometheus sends it.
fn labels(diagnosis: &Diagnosis, host: &str) -> Vec<String> {
    let fixed = [
        ("alertname", diagnosis.alert.as_str()),
        ("instance", host),
        ("severity", diagnosis.severity.name()),
        ("blame", diagnosis.blame.name()),
        ("grouping", diagnosis.grouping.name()),
        ("parameter", diagnosis.parameter.as_deref().unwrap_or("none")),
    ];
    let own = diagnosis.per.iter().filter(|label| *label != "parameter").map(|label| (label.as_str(), "1"));
    fixed.into_iter().chain(own).map(|(label, value)| format!("{label}={value}")).collect()
}

/// Alerts that a matcher such as `alertname=~"A|B.*"` takes; each part of it must take some.
fn matched(matchers: &serde_yaml::Value) -> Option<Vec<&'static Diagnosis>> {
    let text = matchers[0].as_str().unwrap();
    let pattern = text.strip_prefix("alertname=~\"")?.strip_suffix('"').unwrap();
    let found = |pattern: &str| -> Vec<&'static Diagnosis> {
        let pattern = Regex::new(&format!("^(?:{pattern})$")).unwrap();
        DIAGNOSES.diagnoses.iter().filter(|diagnosis| pattern.is_match(&diagnosis.alert)).collect()
    };
    if !pattern.contains('(') {
        for part in pattern.split('|') {
            assert!(!found(part).is_empty(), "{part} takes no alert");
        }
    }
    Some(found(pattern))
}

/// Names and hosts of findings, and whether another silences them.
fn silenced(printed: &str) -> Vec<(String, String, bool)> {
    let all: Value = serde_json::from_str(printed).unwrap_or_default();
    let text = |alert: &Value, label: &str| alert["labels"][label].as_str().unwrap().to_owned();
    let all = all.as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|alert| {
            let by = alert["status"]["inhibitedBy"].as_array().is_some_and(|by| !by.is_empty());
            (text(alert, "alertname"), text(alert, "instance"), by)
        })
        .collect()
}

#[test]
fn a_root_silences_its_symptoms_on_its_own_host() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let _alertmanager = Running::alertmanager(&namespace, &scratch, EXAMPLE.as_ref());
    let amtool = |arguments: &[String]| {
        let mut command = namespace.command("amtool");
        let output =
            command.arg("--alertmanager.url=http://127.0.0.1:9093").args(arguments).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    eventually("Alertmanager answers", || amtool(&words("alert query")));

    let (mut sent, mut expected) = (BTreeSet::new(), BTreeSet::new());
    let mut add = |diagnosis: &'static Diagnosis, host: &str| {
        if sent.insert((diagnosis.alert.clone(), host.to_owned())) {
            let arguments = [words("alert add"), labels(diagnosis, host)].concat();
            assert!(amtool(&arguments).is_some(), "{arguments:?}");
        }
    };
    for rule in example()["inhibit_rules"].as_sequence().unwrap() {
        let Some(roots) = matched(&rule["source_matchers"]) else { continue };
        let symptoms = matched(&rule["target_matchers"]).unwrap();
        roots.iter().for_each(|root| add(root, "ill"));
        for symptom in symptoms {
            add(symptom, "ill");
            // Each on a host of its own, where nothing else is wrong.
            add(symptom, &symptom.alert);
            expected.insert((symptom.alert.clone(), "ill".to_owned()));
        }
    }
    // The first rule is of all parameters.
    let [pressure, beyond] = ["NettuneTcpMemoryPressure", "NettuneTcpMemoryBeyondMemory"]
        .map(|alert| DIAGNOSES.get(alert).unwrap());
    add(pressure, "short");
    add(beyond, "short");
    expected.insert((beyond.alert.clone(), "short".to_owned()));

    let found = eventually("all findings are there", || {
        let found = silenced(&amtool(&words("alert query --active --inhibited --output=json"))?);
        (found.len() == sent.len()).then_some(found)
    });
    let found: BTreeSet<_> =
        found.into_iter().filter(|(.., by)| *by).map(|(alert, host, _)| (alert, host)).collect();
    assert_eq!(found, expected);
}

/// By hand from the example: who hears of what.
#[test]
fn messages_go_by_severity_and_settings_to_tickets() {
    for (labels, receiver) in [
        (["severity=critical", "grouping=host"], "pager"),
        (["severity=warning", "grouping=host"], "chat"),
        (["severity=info", "grouping=host"], "tickets"),
        (["severity=warning", "grouping=fleet"], "tickets"),
        (["severity=critical", "grouping=fleet"], "tickets"),
    ] {
        let arguments = [&["config", "routes", "test", "--config.file", EXAMPLE][..], &labels].concat();
        // What else it says is a warning.
        let said = crate::rules::run("amtool", &arguments);
        assert_eq!(said.lines().next(), Some(receiver), "{labels:?}");
    }
}
