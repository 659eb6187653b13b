//! The ledger of the real program: changes in namespaces of the test's own, and what
//! happens to its file.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::exposition::{Samples, samples};
use crate::fixture::Fixture;
use crate::listeners::{listen, until};
use crate::namespace::Namespace;
use crate::support::{Exporter, Scratch, eventually, run};

const PARAMETER: &str = "net.ipv4.tcp_fin_timeout";

fn of(metric: &str) -> String {
    format!("nettune_sysctl_{metric}{{parameter=\"{PARAMETER}\"}}")
}

fn previous() -> String {
    format!("nettune_sysctl_previous_value{{parameter=\"{PARAMETER}\",field=\"\"}}")
}

fn scrape(exporter: &Exporter) -> Samples {
    samples(exporter.get("/metrics?collect[]=sysctl", &[]).text())
}

fn state(directory: &Path) -> String {
    format!("--state.dir={}", directory.display())
}

/// What `nettune changes` prints as JSON, and on standard error.
fn printed(directory: &Path) -> (Vec<Value>, String) {
    let output = run(&["changes", &state(directory), "--format=json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["version"], 1);
    (json["changes"].as_array().unwrap().clone(), String::from_utf8(output.stderr).unwrap())
}

/// Each change starts from the value that the one before led to.
fn is_a_chain(changes: &[Value]) {
    let of_one: Vec<_> = changes.iter().filter(|change| change["parameter"] == PARAMETER).collect();
    for pair in of_one.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"], "{pair:#?}");
    }
}

fn stop(mut exporter: Exporter) {
    exporter.signal("TERM");
    assert_eq!(exporter.wait().code(), Some(0));
}

#[test]
fn a_change_is_noticed_without_a_scrape_and_kept_through_a_restart() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let directory = scratch.path("state");
    namespace.sysctl(PARAMETER, "61");
    let flags = [&*state(&directory), "--sample.interval=1s"];
    let exporter = namespace.exporter(&flags);
    let before = scrape(&exporter);
    assert!(!before.contains_key(&previous()) && !before.contains_key(&of("last_change_timestamp_seconds")));
    assert_eq!(before["nettune_ledger_persistent"], 1.0);
    namespace.sysctl(PARAMETER, "62");
    namespace.sysctl("net.ipv4.tcp_congestion_control", "reno");
    let changes = eventually("nobody noticed", || {
        let (changes, problems) = printed(&directory);
        assert_eq!(problems, "");
        (changes.len() >= 2).then_some(changes)
    });
    assert_eq!(changes.len(), 2);
    let change = changes.iter().find(|change| change["parameter"] == PARAMETER).unwrap();
    assert_eq!((&change["from"], &change["to"], &change["kind"]), (&61.into(), &62.into(), &"change".into()));

    let during = scrape(&exporter);
    assert_eq!(during[&previous()], 61.0);
    let text = "nettune_sysctl_previous_text_info{parameter=\"net.ipv4.tcp_congestion_control\",value=";
    assert_eq!(during.keys().filter(|series| series.starts_with(text)).count(), 1);
    assert_eq!((during["nettune_ledger_changes_total"], during["nettune_ledger_entries"]), (2.0, 2.0));
    let page = exporter.get("/", &[]).text().to_owned();
    assert!(page.contains(&format!("{PARAMETER}: 61 → 62")) && page.contains("They survive a restart."));
    let text = exporter.get("/changes", &[]).text().to_owned();
    let line = text.lines().find(|line| line.contains(PARAMETER)).unwrap();
    assert!(line.ends_with(&format!("Z  {PARAMETER}: 61 → 62")), "{line}");
    assert_eq!(String::from_utf8(run(&["changes", &state(&directory)]).stdout).unwrap(), text);
    exporter.wait_for_log(&format!("{PARAMETER}: 61 → 62"));
    stop(exporter);

    let exporter = namespace.exporter(&flags);
    let after = scrape(&exporter);
    for series in [previous(), of("last_change_timestamp_seconds")] {
        assert_eq!(after[&series], during[&series], "{series}");
    }
    assert_eq!((after["nettune_ledger_changes_total"], after["nettune_ledger_entries"]), (0.0, 2.0));
    stop(exporter);

    // By somebody, while nobody looked.
    namespace.sysctl(PARAMETER, "63");
    let exporter = namespace.exporter(&flags);
    assert_eq!(scrape(&exporter)[&previous()], 62.0);
    let text = exporter.get("/changes", &[]).text().to_owned();
    let expected = format!("{PARAMETER}: 62 → 63 (while no exporter ran, after ");
    assert!(text.lines().last().unwrap().contains(&expected), "{text}");
    stop(exporter);

    // Another namespace has other values, which nobody changed.
    let Some(other) = Namespace::new() else { return };
    let exporter = other.exporter(&flags);
    let text = exporter.get("/changes", &[]).text().to_owned();
    assert!(text.contains(": 63 → 60 (in another network namespace than before"), "{text}");
}

#[test]
fn what_a_namespace_sees_comes_and_goes_without_being_a_change() {
    let Some(namespace) = Namespace::new() else { return };
    let exporter = namespace.exporter(&["--sample.interval=1s"]);
    namespace
        .run("ip link add some0 type veth peer name some1 && sysctl -qw net.ipv4.conf.some0.rp_filter=2");
    eventually("it is not there", || {
        let series = "nettune_sysctl_value{parameter=\"net.ipv4.conf.some0.rp_filter\",field=\"\"}";
        scrape(&exporter).contains_key(series).then_some(())
    });
    namespace.run("ip link del some0");
    scrape(&exporter);
    namespace.run("ip link add some0 type veth peer name some1");
    let found = scrape(&exporter);
    assert_eq!((found["nettune_ledger_changes_total"], found["nettune_ledger_persistent"]), (0.0, 0.0));
    assert!(exporter.get("/changes", &[]).text().starts_with("no changes"));

    // One that takes the place of another between two looks.
    stop(exporter);
    let exporter = namespace.exporter(&["--sample.interval=10m"]);
    namespace.run("sysctl -qw net.ipv4.conf.some0.rp_filter=2");
    assert_eq!(scrape(&exporter)["nettune_ledger_changes_total"], 1.0);
    namespace.run("ip link del some0 && ip link add some0 type veth peer name some1");
    let found = scrape(&exporter);
    assert_eq!(found["nettune_ledger_changes_total"], 1.0);
    // The one that was changed is no more.
    assert!(found.keys().all(|series| !series.starts_with("nettune_sysctl_previous")), "{found:#?}");
}

/// 10,000 changes while exporters are killed in the midst of writing them.
#[test]
fn killed_in_the_midst_of_writing_it_loses_nothing_that_was_written() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let directory = scratch.path("state");
    // What the shell writes itself starts no process; the pause leaves time to look.
    let file = "/proc/sys/net/ipv4/tcp_fin_timeout";
    let line = format!(
        "for ((i = 0; i < 10000; i++)); do echo $((10 + i % 97)) > {file}; read -rt 0.001 <&9; done 9<> <(:)"
    );
    let mut writer = namespace.command("bash").args(["-c", &line]).stdin(Stdio::null()).spawn().unwrap();
    let (mut rounds, mut seen, mut last) = (0u32, 0, Value::Null);
    while writer.try_wait().unwrap().is_none() {
        let exporter = namespace.exporter(&[&state(&directory), "--sample.interval=1s"]);
        // One that was killed leaves half a line at most.
        let found = scrape(&exporter);
        assert!(found["nettune_ledger_unreadable_lines"] <= 1.0, "{}", exporter.log());
        for _ in 0..(60 + rounds * 37 % 101) {
            seen += 1;
            scrape(&exporter);
            thread::sleep(Duration::from_millis(2));
        }
        exporter.signal("KILL");
        drop(exporter);
        let (changes, problems) = printed(&directory);
        assert_eq!(problems, "");
        is_a_chain(&changes);
        // What was written before is there still.
        assert!(last.is_null() || changes.contains(&last), "{last}");
        last = changes.last().cloned().unwrap_or_default();
        rounds += 1;
    }
    assert!(rounds > 2 && seen > 200, "{rounds} rounds, {seen} scrapes");
    let exporter = namespace.exporter(&[&state(&directory)]);
    let found = scrape(&exporter);
    let (changes, _) = printed(&directory);
    is_a_chain(&changes);
    assert_eq!(found["nettune_ledger_entries"], changes.len() as f64);
    assert!(changes.len() > 100, "{} changes", changes.len());
    assert_eq!(found[&previous()], changes.last().unwrap()["from"].as_f64().unwrap());
}

#[test]
fn of_two_exporters_one_writes() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let state = state(&scratch.path("state"));
    let first = namespace.exporter(&[&state]);
    let mut command = namespace.command(env!("CARGO_BIN_EXE_nettune"));
    let socket = scratch.path("second.socket");
    command.args([&state, &format!("--web.listen-address=unix:{}", socket.display())]);
    let second = Exporter::launch(command);
    second.wait_until_ready();
    let line = second.wait_for_log("memory only");
    assert!(line.ends_with("/changes.lock: held by another exporter"), "{line}");
    namespace.sysctl(PARAMETER, "61");
    let (one, two) = (scrape(&first), scrape(&second));
    assert_eq!((one["nettune_ledger_persistent"], two["nettune_ledger_persistent"]), (1.0, 0.0));
    assert_eq!((one[&previous()], two[&previous()]), (60.0, 60.0));
}

#[test]
fn a_corrupt_file_is_read_as_far_as_it_goes() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let directory = scratch.path("state");
    let exporter = namespace.exporter(&[&state(&directory)]);
    for value in ["61", "62"] {
        namespace.sysctl(PARAMETER, value);
        scrape(&exporter);
    }
    stop(exporter);
    let file = directory.join("changes.jsonl");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{}\nnot a change\n{good}{}", "\u{0}".repeat(4096), "{\"v\":1,")).unwrap();

    let output = run(&["changes", &state(&directory)]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("nettune: left out 2 lines that cannot be read; line 1: record: "), "{said}");
    let exporter = namespace.exporter(&[&state(&directory)]);
    let found = scrape(&exporter);
    assert_eq!((found[&previous()], found["nettune_ledger_unreadable_lines"]), (61.0, 3.0));
    assert_eq!((found["nettune_ledger_entries"], found["nettune_ledger_persistent"]), (2.0, 1.0));
    assert_eq!(exporter.log().matches("left out 2 lines").count(), 1, "{}", exporter.log());
    stop(exporter);
    assert!(directory.join("changes.jsonl.damaged").exists());
    assert_eq!(printed(&directory).1, "");
}

/// An exporter in a namespace, with mounts of its own made by a shell line.
fn with_mounts(namespace: &Namespace, mounts: &str, directory: &Path) -> Exporter {
    let script = format!("{mounts} && exec \"$@\"");
    let mut command = namespace.command("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_nettune")]);
    let listen = format!("--web.listen-address=unix:{}", namespace.socket().display());
    command.args([&listen, &state(directory), "--sample.interval=1s"]);
    let exporter = Exporter::launch(command);
    exporter.wait_until_ready();
    exporter
}

#[test]
fn a_full_file_system_loses_nothing_that_fits_later() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let directory = scratch.path("state");
    fs::create_dir_all(&directory).unwrap();
    let mount = format!("mount -t tmpfs -o size=256k nettune-test {}", directory.display());
    let exporter = with_mounts(&namespace, &mount, &directory);
    let inside = format!("/proc/{}/root{}", exporter.pid(), directory.display());
    let inside = Path::new(&inside);
    namespace.sysctl(PARAMETER, "61");
    eventually("it is not written", || {
        scrape(&exporter);
        (printed(inside).0.len() == 1).then_some(())
    });
    // All that is left.
    let filler = inside.join("filler");
    assert!(
        !Command::new("dd")
            .arg("if=/dev/zero")
            .arg(format!("of={}", filler.display()))
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    );

    for value in 62..=100 {
        namespace.sysctl(PARAMETER, &value.to_string());
        scrape(&exporter);
    }
    let full = eventually("it does not fail", || {
        let found = scrape(&exporter);
        (found["nettune_ledger_write_failures_total"] > 0.0).then_some(found)
    });
    assert_eq!((full["nettune_ledger_persistent"], full["nettune_ledger_entries"]), (0.0, 40.0));
    assert_eq!(full[&previous()], 99.0);
    assert_eq!(exporter.log().matches("in memory only until").count(), 1, "{}", exporter.log());
    // What was whole is whole.
    let (changes, problems) = printed(inside);
    assert!(!changes.is_empty() && problems.is_empty());
    is_a_chain(&changes);

    fs::remove_file(filler).unwrap();
    eventually("it is not written", || (scrape(&exporter)["nettune_ledger_persistent"] == 1.0).then_some(()));
    exporter.wait_for_log("written again");
    let (changes, _) = printed(inside);
    is_a_chain(&changes);
    assert_eq!(changes.len(), 40);
}

#[test]
fn a_directory_that_cannot_be_written_is_read() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let directory = scratch.path("state");
    let exporter = namespace.exporter(&[&state(&directory)]);
    namespace.sysctl(PARAMETER, "61");
    scrape(&exporter);
    stop(exporter);
    let written = fs::read(directory.join("changes.jsonl")).unwrap();

    let shown = directory.display();
    let mount = format!("mount --bind {shown} {shown} && mount -o remount,bind,ro {shown}");
    let exporter = with_mounts(&namespace, &mount, &directory);
    let line = exporter.wait_for_log("in memory only");
    assert!(line.contains("changes.lock: Read-only file system"), "{line}");
    let found = scrape(&exporter);
    assert_eq!((found[&previous()], found["nettune_ledger_persistent"]), (60.0, 0.0));
    namespace.sysctl(PARAMETER, "62");
    let found = scrape(&exporter);
    assert_eq!((found[&previous()], found["nettune_ledger_entries"]), (61.0, 2.0));
    assert!(found["nettune_ledger_write_failures_total"] >= 1.0);
    stop(exporter);
    assert_eq!(fs::read(directory.join("changes.jsonl")).unwrap(), written);
}

#[test]
fn a_disk_that_never_answers_does_not_hold_up_the_start() {
    let scratch = Scratch::new();
    // Opening this waits for a writer, as a file of a server that is gone would.
    scratch.file("state/changes.jsonl", "");
    let lock = scratch.path("state/changes.lock");
    assert!(Command::new("mkfifo").arg(&lock).status().unwrap().success());
    let exporter = Exporter::start(&[&state(&scratch.path("state"))]);
    let found = scrape(&exporter);
    assert_eq!(found["nettune_ledger_persistent"], 0.0);
    stop(exporter);
}

/// The usual repair is a raise, and the program is not started again; now the exporter is.
#[test]
fn a_listener_that_is_older_than_a_raise_is_known_after_a_restart() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let state = state(&scratch.path("state"));
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let cause = |port: u16, cause: &str| {
        format!("nettune_listener_limited_by{{address=\"127.0.0.1\",port=\"{port}\",cause=\"{cause}\"}}")
    };
    namespace.sysctl("net.core.somaxconn", "64");
    let older = namespace.inside(|| [listen(at(9001), 4096), listen(at(9002), 8)]);
    let exporter = namespace.exporter(&[&state]);
    until(&exporter, |found| found.contains_key(&cause(9001, "somaxconn")));
    namespace.sysctl("net.core.somaxconn", "4096");
    scrape(&exporter);
    stop(exporter);

    let exporter = namespace.exporter(&[&state]);
    until(&exporter, |found| found.contains_key(&cause(9001, "older_somaxconn")));
    // It asked for this itself, as this exporter saw.
    let newer = namespace.inside(|| listen(at(9003), 64));
    let found = until(&exporter, |found| found.contains_key(&cause(9003, "application")));
    assert!(found.contains_key(&cause(9002, "application")));
    assert!(found.contains_key(&cause(9001, "older_somaxconn")));
    drop((older, newer));
}

/// In files of the test's own, since nothing else boots anew.
#[test]
fn what_a_reboot_sets_is_nobody_s_change() {
    let (scratch, fixture) = (Scratch::new(), Fixture::copy("6.18-host"));
    let boot = |digit: char| {
        let id = digit.to_string().repeat(8) + "-0000-4000-8000-000000000000\n";
        fixture.write("proc/sys/kernel/random/boot_id", id.as_bytes());
    };
    let mut flags = fixture.flags();
    flags.push(state(&scratch.path("state")));
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    boot('a');
    stop(Exporter::start(&flags));
    boot('b');
    fixture.write("proc/sys/net/core/somaxconn", b"77\n");
    let exporter = Exporter::start(&flags);
    let text = exporter.get("/changes", &[]).text().to_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("net.core.somaxconn: 4096 → 77 (by a reboot, after "), "{text}");
}
