//! Rendered rules against promtool: what fires, with which words, and what must not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nettune::catalogue::DIAGNOSES;

/// What every alert is tested for: that it fires with its page word for word, that a
/// look-alike does not, nor a host at rest, nor the healthy one of two.
const CASES: [&str; 4] = ["fires", "look-alike", "idle", "two instances"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; `make tools` installs it"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "yml"));
    found.sort();
    assert!(!found.is_empty(), "{folder}");
    found
}

#[test]
fn promtool_takes_the_rules() {
    let said = run("promtool", &["check", "rules", "--lint-fatal", "alerts/nettune.rules.yml"]);
    assert!(said.contains("SUCCESS"), "{said}");
}

#[test]
fn every_page_reads_as_reviewed() {
    let files = yaml_files("alerts/tests");
    let files: Vec<_> = files.iter().map(|path| path.to_str().unwrap()).collect();
    run("promtool", &[&["test", "rules"], files.as_slice()].concat());
}

#[test]
fn every_incident_gets_the_right_verdict() {
    let files = yaml_files("alerts/tests/incidents");
    let files: Vec<_> = files.iter().map(|path| path.to_str().unwrap()).collect();
    run("promtool", &[&["test", "rules"], files.as_slice()].concat());
}

#[test]
fn every_alert_has_its_tests_and_nothing_else_has() {
    let expected: BTreeSet<_> = DIAGNOSES.diagnoses.iter().map(|diagnosis| diagnosis.alert.clone()).collect();
    let files = yaml_files("alerts/tests");
    let named: BTreeSet<_> =
        files.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(named, expected);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let tests: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
        let names: Vec<_> =
            tests["tests"].as_sequence().unwrap().iter().filter_map(|test| test["name"].as_str()).collect();
        for case in CASES {
            assert!(names.iter().any(|name| name.starts_with(case)), "{}: no test of {case}", path.display());
        }
        // One that fires has its page compared, all of it.
        let alert = path.file_stem().unwrap().to_str().unwrap();
        let fires = format!("runbooks/{alert}.md");
        assert!(text.contains(&fires), "{}: no page is compared", path.display());
    }
}

/// Runbooks and tests that belong to no alert any more.
#[test]
fn every_runbook_has_its_alert() {
    for entry in fs::read_dir(root().join("alerts/runbooks")).unwrap() {
        let path = entry.unwrap().path();
        let alert = path.file_stem().unwrap().to_str().unwrap();
        assert!(DIAGNOSES.get(alert).is_some(), "{}", path.display());
    }
}
