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
        (
            "values: {windoww: 5m}\n",
            ":1:10: values: no value is called `windoww`; docs/alerts.md has their names",
        ),
        ("values:\n  window: 5\n", ":2:11: values.window: \"5\" is no duration such as 5m"),
        ("values:\n  refusals: .nan\n", ":2:13: values.refusals: `.nan` is no number of 0 or more"),
        (
            "identity: [job, port, netns]\n",
            ":1:17: identity[1]: `port` is a label of nettune's own, and tells no targets apart",
        ),
        ("runbook_url: '{{ bad'\n", ":1:14: runbook_url: `{{ bad` is no address such as "),
        ("value: {}\n", ":1:1: unknown field `value`"),
        ("values: {refusals: 1, refusals: 2}\n", ":1:9: values: refusals: duplicate key"),
        ("values: [", ":1:9: values: invalid type: sequence, expected a mapping"),
        ("- a\n", ":1:1: invalid type: sequence, expected a mapping with values, identity,"),
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
        let place = format!("nettune: {}{expected}", file.display());
        assert!(said.starts_with(&place), "{text}: {said}");
        assert!(!folder.exists(), "{text}: something was written");
    }
}

fn render(values: &Path, folder: &Path) -> (Option<i32>, String) {
    let [values, folder] = [values, folder].map(|path| path.to_str().unwrap());
    let output = support::run(&["render", "--values", values, "--output", folder]);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Nobody writes into the pipe, and the device never ends.
#[test]
fn a_values_file_that_is_no_file_holds_up_nobody() {
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe");
    run("mkfifo", &[pipe.to_str().unwrap()]);
    for path in [&pipe, Path::new("/dev/zero")] {
        let expected = format!("nettune: {}: not a regular file\n", path.display());
        assert_eq!(render(path, &scratch.path("out")), (Some(1), expected));
    }
}

/// The extremes of what is accepted are rules all the same.
#[test]
fn whatever_is_accepted_makes_rules() {
    let scratch = Scratch::new();
    for text in [
        "values: {window: 100y, refusals: 1e308, ports_out: 0, few_connections: 1e-300}\n",
        "values: {window: 1ms, capacities: 'net.core.(a|b)[.]?.*$', inheritable: '^x+'}\n",
        "identity: [by, on, instance, _, netns]\nrunbook_url: http://[::1]:80/a?b=%20$c#d\n",
    ] {
        let file = scratch.file("values.yaml", text);
        assert_eq!(render(&file, &scratch.path("")), (Some(0), String::new()), "{text}");
        run("promtool", &["check", "rules", scratch.path("alerts/nettune.rules.yml").to_str().unwrap()]);
    }
}

/// What was there stays until all is written.
#[test]
fn documents_that_cannot_be_written_leave_those_that_were() {
    let scratch = Scratch::new();
    let values = scratch.file("values.yaml", "");
    fs::create_dir_all(scratch.path("docs")).unwrap();
    let before = scratch.file("docs/metrics.md", "as it was");
    let file = scratch.file("alerts", "no folder");
    let (code, said) = render(&values, &scratch.path(""));
    let expected = format!("nettune: {}/nettune.rules.yml: ", file.display());
    assert!(code == Some(1) && said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    assert_eq!(fs::read_to_string(before).unwrap(), "as it was");
    assert_eq!(fs::read_dir(scratch.path("docs")).unwrap().count(), 1, "something is left over");
    // A pipe in the place of a file is replaced, and not written into.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let rules = scratch.path("alerts/nettune.rules.yml");
    run("mkfifo", &[rules.to_str().unwrap()]);
    let check = ["render", "--check", "--output", scratch.path("").to_str().unwrap()].map(str::to_owned);
    let check = || support::run(&check.each_ref().map(String::as_str)).status.code();
    assert_eq!(check(), Some(1));
    assert_eq!(render(&values, &scratch.path("")), (Some(0), String::new()));
    assert_eq!(check(), Some(0));
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
