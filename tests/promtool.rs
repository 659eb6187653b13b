//! promtool over those rules that a file of tests can reach: it evaluates every rule it is
//! given at every step, and all of them take twenty times as long.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nettune::catalogue::DIAGNOSES;
use regex::Regex;
use serde_yaml::Value;

use crate::rules::{root, run, yaml_files};
use crate::support::Scratch;

/// The rules as they are rendered, and a file of tests.
struct Narrow {
    file: Value,
    test: String,
    /// Names of series in a text.
    series: Regex,
}

impl Narrow {
    fn new(path: &Path) -> Self {
        let rules = fs::read_to_string(root().join("alerts/nettune.rules.yml")).unwrap();
        assert!(!rules.contains("absent(") && !rules.contains("vector("), "a rule fires on nothing");
        Self {
            file: serde_yaml::from_str(&rules).unwrap(),
            test: fs::read_to_string(path).unwrap(),
            series: Regex::new(r"\b(nettune[\w:]+|up)\b").unwrap(),
        }
    }

    fn rules(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let groups = self.file["groups"].as_sequence().unwrap();
        let rules: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_sequence().unwrap()).collect();
        rules.into_iter()
    }

    fn names<'t>(&'t self, text: &'t str) -> impl Iterator<Item = String> + 't {
        self.series.find_iter(text).map(|name| name.as_str().to_owned())
    }

    /// What is recorded for those, and for what is recorded of them.
    fn with_records(&self, mut wanted: BTreeSet<String>) -> BTreeSet<String> {
        // Alerts come after what is recorded, which comes after what it is recorded from.
        for rule in self.rules().rev() {
            if wanted.contains(name(rule)) {
                let text = serde_yaml::to_string(rule).unwrap();
                wanted.extend(self.names(&text));
            }
        }
        wanted
    }

    /// Alerts that the tests name, and what is recorded for them.
    fn named(&self) -> BTreeSet<String> {
        let named = Regex::new(r#"alertname(?:: |=")(\w+)|\b(nettune:[\w:]+)"#).unwrap();
        let names = named.captures_iter(&self.test).filter_map(|found| found.get(1).or(found.get(2)));
        self.with_records(names.map(|name| name.as_str().to_owned()).collect())
    }

    /// Alerts that may fire: each of their terms selects a series that the tests have, or
    /// that is recorded of these.
    fn reachable(&self) -> BTreeSet<String> {
        let mut live: BTreeSet<_> = self.names(&self.test).collect();
        for rule in self.rules().filter(|rule| !rule["record"].is_null()) {
            if self.names(rule["expr"].as_str().unwrap()).any(|series| live.contains(&series)) {
                live.insert(name(rule).to_owned());
            }
        }
        let may_fire = DIAGNOSES.diagnoses.iter().filter(|diagnosis| {
            let mut terms = diagnosis.terms.iter().filter(|term| term.is.is_some());
            terms.all(|term| self.names(&term.expr).any(|series| live.contains(&series)))
        });
        let wanted = self.with_records(may_fire.map(|diagnosis| diagnosis.alert.clone()).collect());
        let dead = self.rules().map(name).filter(|name| name.contains(':') && !live.contains(*name));
        let dead: BTreeSet<_> = dead.map(str::to_owned).collect();
        wanted.difference(&dead).cloned().collect()
    }

    /// Writes both with these rules only.
    fn write(mut self, kept: &BTreeSet<String>, path: &Path, scratch: &Scratch) -> PathBuf {
        let groups = self.file["groups"].as_sequence_mut().unwrap();
        for group in groups.iter_mut() {
            group["rules"].as_sequence_mut().unwrap().retain(|rule| kept.contains(name(rule)));
        }
        groups.retain(|group| !group["rules"].as_sequence().unwrap().is_empty());
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let rules = scratch.file(&format!("{stem}.rules.yml"), &serde_yaml::to_string(&self.file).unwrap());
        let place = Regex::new(r"(?m)^rule_files: \[[./]+nettune\.rules\.yml\]$").unwrap();
        assert!(place.is_match(&self.test), "{}: rule_files", path.display());
        let line = format!("rule_files: [{}]", rules.display());
        scratch.file(&format!("{stem}.yml"), &place.replace(&self.test, line))
    }
}

/// The name of an alert or of a recorded series.
fn name(rule: &Value) -> &str {
    rule["alert"].as_str().or_else(|| rule["record"].as_str()).unwrap_or_default()
}

/// Tests the files of a folder against what `kept` leaves of the rules, as many at the same
/// time as there are CPUs: promtool uses one.
fn promtool_tests(folder: &str, kept: impl Fn(&Narrow) -> BTreeSet<String>) {
    let scratch = Scratch::new();
    let write = |path: &PathBuf| {
        let narrow = Narrow::new(path);
        let kept = kept(&narrow);
        narrow.write(&kept, path, &scratch)
    };
    let files: Vec<_> = yaml_files(folder).iter().map(write).collect();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for first in 0..cpus {
            let part = files.iter().skip(first).step_by(cpus);
            let names: Vec<_> = part.map(|path| path.to_str().unwrap()).collect();
            scope.spawn(move || run("promtool", &[&["test", "rules"], names.as_slice()].concat()));
        }
    });
}

#[test]
fn every_page_reads_as_reviewed() {
    promtool_tests("alerts/tests", Narrow::named);
}

/// Every rule that has something to look at looks at each of them.
#[test]
fn every_incident_gets_the_right_verdict() {
    assert_eq!(yaml_files("alerts/tests/incidents").len(), 60);
    promtool_tests("alerts/tests/incidents", Narrow::reachable);
}
