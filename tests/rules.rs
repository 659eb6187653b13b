//! Rendered rules against promtool: what fires, with which words, and what must not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nettune::catalogue::{CATALOGUE, DIAGNOSES};
use regex::Regex;

use crate::layers;
use crate::promql;
use crate::support::{self, Scratch};

/// What every alert is tested for: that it fires with its page word for word, that a
/// look-alike does not, nor a host at rest, nor the healthy one of two.
const CASES: [&str; 4] = ["fires", "look-alike", "idle", "two instances"];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; `make tools` installs it"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

pub(crate) fn yaml_files(folder: &str) -> Vec<PathBuf> {
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

/// One rule as it is rendered.
struct Rule {
    name: String,
    expr: String,
    labels: Vec<String>,
    annotations: Vec<(String, String)>,
}

fn rendered() -> Vec<Rule> {
    let text = fs::read_to_string(root().join("alerts/nettune.rules.yml")).unwrap();
    let file: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    let groups = file["groups"].as_sequence().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_sequence().unwrap());
    let text = |value: &serde_yaml::Value| value.as_str().unwrap_or_default().to_owned();
    let pairs = |value: &serde_yaml::Value| -> Vec<(String, String)> {
        value.as_mapping().into_iter().flatten().map(|(name, value)| (text(name), text(value))).collect()
    };
    rules
        .map(|rule| Rule {
            name: text(&rule["alert"]) + &text(&rule["record"]),
            expr: text(&rule["expr"]),
            labels: pairs(&rule["labels"]).into_iter().map(|(_, value)| value).collect(),
            annotations: pairs(&rule["annotations"]),
        })
        .collect()
}

/// A rule looks at many hosts, jobs and clusters at once.
#[test]
fn expressions_match_by_identity_and_name_what_exists() {
    let rules = rendered();
    let recorded: BTreeSet<_> = rules.iter().map(|rule| rule.name.as_str()).collect();
    let mut known: BTreeSet<String> = BTreeSet::from(["up".to_owned()]);
    for metric in nettune::metrics::all() {
        known.extend(["", "_bucket", "_sum", "_count"].map(|suffix| format!("{}{suffix}", metric.name)));
    }
    for rule in &rules {
        let parts = promql::parts(&rule.expr);
        assert_eq!(parts.unusual, [""; 0], "{}", rule.name);
        for series in &parts.series {
            assert!(known.contains(series) || recorded.contains(series.as_str()), "{}: {series}", rule.name);
        }
        for labels in &parts.labels {
            let has = |name: &str| labels.iter().flatten().any(|label| label == name);
            assert!(["cluster", "job", "instance"].iter().all(|name| has(name)), "{}: {labels:?}", rule.name);
        }
    }
}

/// A matcher that nothing can match would never fire, and no test of series made by hand
/// would notice.
#[test]
fn matchers_name_labels_and_values_that_exist() {
    let sources: String = layers::sources().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let quoted = |value: &str| sources.contains(&format!("\"{value}\""));
    let parameters = &CATALOGUE.parameters;
    let fields: BTreeSet<_> = parameters.iter().flat_map(|parameter| &parameter.fields).collect();
    let of_devices = |name: &str| ["eth0", "all"].map(|device| name.replace('*', device));
    let names: BTreeSet<_> = parameters.iter().flat_map(|parameter| of_devices(&parameter.name)).collect();
    // Of a choice each part, of another pattern nothing.
    let choice = Regex::new(r"^[\w-]+(\|[\w-]+)*$").unwrap();
    let mut wrong = Vec::new();
    for rule in rendered() {
        for [metric, label, value] in promql::parts(&rule.expr).matchers {
            let place = format!("{}: {metric}{{{label}={value}}}", rule.name);
            let known = nettune::metrics::all().into_iter().find(|known| {
                let rest = metric.strip_prefix(known.name);
                rest.is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
            });
            // Labels of what is recorded are those of what it is recorded from.
            let Some(known) = known else { continue };
            let everywhere = known.everywhere.then_some("netns");
            assert!(known.labels.iter().copied().chain(everywhere).any(|own| own == label), "{place}: label");
            let pattern = Regex::new(&format!("^(?:{value})$")).unwrap();
            let exists = match label.as_str() {
                _ if value.is_empty() => true,
                "parameter" => names.iter().any(|name| pattern.is_match(name)),
                "alert" => DIAGNOSES.get(&value).is_some(),
                "field" => fields.iter().any(|field| pattern.is_match(field)),
                // Names of the kernel's, which we pass on.
                "congestion" => true,
                _ => !choice.is_match(&value) || value.split('|').all(quoted),
            };
            if !exists {
                wrong.push(place);
            }
        }
    }
    assert!(wrong.is_empty(), "no such value: {wrong:#?}");
}

/// Labels are identity: one that changes with a value would start the alert anew.
#[test]
fn labels_are_constant_and_pages_complete() {
    let expected = [
        "summary",
        "description",
        "parameter",
        "current",
        "recommended",
        "apply",
        "persist",
        "rollback",
        "verify",
        "runbook_url",
        "dashboard_url",
    ];
    for rule in rendered().iter().filter(|rule| rule.name.starts_with("Nettune")) {
        assert!(!rule.labels.iter().any(|value| value.contains("{{")), "{}", rule.name);
        let names: Vec<_> = rule.annotations.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{}", rule.name);
        for (name, text) in &rule.annotations {
            // Left over from our own placeholders.
            let plain = text.replace("{{", "").replace("}}", "");
            // A command may have a `$(…)` of the shell.
            let text = text.replace("$(", "");
            let left = plain.contains(" {") && plain.contains('|') && !text.contains("{{");
            assert!(
                !text.is_empty() && !left && !text.contains('$') | text.contains("{{"),
                "{}: {name}",
                rule.name
            );
        }
        let runbook = root().join("alerts/runbooks").join(format!("{}.md", rule.name));
        assert!(runbook.is_file(), "{}", runbook.display());
    }
}

/// Whatever the windows are: a lab uses short ones.
#[test]
fn rules_can_be_rendered_for_other_windows_and_labels() {
    let scratch = Scratch::new();
    let values = scratch.file(
        "values.yaml",
        "values: {refusals: 1}\nidentity: [region, job, instance, netns]\nrunbook_url: https://runbooks.example\n\
        dashboard_url: https://grafana.example\n",
    );
    let folder = scratch.path("out");
    let flags = ["render", "--window", "10s", "--for-scale", "0.1", "--values"];
    let flags = [&flags[..], &[values.to_str().unwrap(), "--output", folder.to_str().unwrap()]].concat();
    let output = support::run(&flags);
    assert!(output.status.success(), "{output:?}");
    let rules = folder.join("alerts/nettune.rules.yml");
    run("promtool", &["check", "rules", rules.to_str().unwrap()]);
    let text = fs::read_to_string(&rules).unwrap();
    assert!(text.contains("by (region, job, instance, netns") && !text.contains("cluster"));
    assert!(text.contains("[10s]") && !text.contains("[5m]") && text.contains("for: 6s"));
    assert!(text.contains("https://runbooks.example/Nettune") && text.contains("https://grafana.example/d/"));
}

#[test]
fn a_bad_values_file_is_refused_in_one_line() {
    let scratch = Scratch::new();
    for (text, expected) in [
        ("values: {windoww: 5m}\n", "values: no value is called windoww"),
        ("values: {window: 5}\n", "values: window: expected a text, such as 5m for a duration"),
        ("value: {}\n", "unknown field `value`"),
        ("values: {refusals: 1, refusals: 2}\n", "refusals: duplicate key"),
        ("values: [", "values: invalid type: sequence, expected a mapping"),
    ] {
        let file = scratch.file("values.yaml", text);
        let folder = scratch.path("out");
        let output = support::run(&[
            "render",
            "--values",
            file.to_str().unwrap(),
            "--output",
            folder.to_str().unwrap(),
        ]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.lines().count() == 1, "{text}: {said}");
        assert!(said.contains(expected) && said.starts_with("nettune: "), "{text}: {said}");
        assert!(!folder.exists(), "{text}: something was written");
    }
}

#[test]
fn the_example_for_alertmanager_is_good() {
    let said = run("amtool", &["check-config", "alerts/alertmanager/alertmanager.yml"]);
    assert!(said.contains("SUCCESS"), "{said}");
}

/// The page that the README shows is one that was reviewed.
#[test]
fn the_example_of_the_readme_is_a_page() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let test = fs::read_to_string(root().join("alerts/tests/NettuneAcceptQueueFullSomaxconn.yml")).unwrap();
    let test: serde_yaml::Value = serde_yaml::from_str(&test).unwrap();
    let page = &test["tests"][0]["alert_rule_test"][1]["exp_alerts"][0]["exp_annotations"];
    let readme = words(&fs::read_to_string(root().join("README.md")).unwrap());
    for (name, text) in page.as_mapping().unwrap() {
        let (name, text) = (name.as_str().unwrap(), text.as_str().unwrap());
        assert!(name.ends_with("_url") || readme.contains(&words(text)), "{name}: {text}");
    }
}
