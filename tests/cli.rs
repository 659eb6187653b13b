//! Flags, environment, configuration file and exit codes of the program.

use std::fs;
use std::net::TcpListener;
use std::process::{Output, Stdio};

use crate::support::{Exporter, Scratch, nettune, run};

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("messages are text")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("answers are text")
}

/// The program says just this, on standard error, and exits with 1.
fn refuses(flags: &[&str], expected: &str) {
    let output = run(flags);
    assert_eq!(stderr(&output), format!("nettune: {expected}\n"), "{flags:?}");
    assert_eq!(stdout(&output), "", "{flags:?}");
    assert_eq!(output.status.code(), Some(1), "{flags:?}");
}

#[test]
fn bad_flags_are_refused_with_one_line() {
    for (flags, expected) in [
        (
            &["--web.listen-adress=:1"][..],
            "unexpected argument '--web.listen-adress' found; tip: a similar argument exists: '--web.listen-address'",
        ),
        (&["nosuch"], "unrecognized subcommand 'nosuch'"),
        (&["serve", "nosuch"], "unexpected argument 'nosuch' found"),
        (
            &["--web.listen-address"],
            "a value is required for '--web.listen-address <ADDRESS>' but none was supplied",
        ),
        (
            &["--web.listen-address=10109"],
            "invalid value '10109' for '--web.listen-address <ADDRESS>': \
             expected :PORT, HOST:PORT, [IPV6]:PORT or unix:PATH",
        ),
        (
            &["--web.listen-address=::1:10109"],
            "invalid value '::1:10109' for '--web.listen-address <ADDRESS>': \
             an IPv6 address must be in brackets: [::1]:10109",
        ),
        (
            &["--web.telemetry-path=metrics"],
            "invalid value 'metrics' for '--web.telemetry-path <PATH>': \
             must start with / and consist of plain path characters",
        ),
        (
            &["--web.telemetry-path=/"],
            "invalid value '/' for '--web.telemetry-path <PATH>': \
             /, /changes and /-/ are taken by the exporter's own pages",
        ),
        (
            &["--web.max-connections=0"],
            "invalid value '0' for '--web.max-connections <COUNT>': 0 is not in 1..=65536",
        ),
        (
            &["serve", "--sample.interval=500ms"],
            "invalid value '500ms' for '--sample.interval <DURATION>': must be between 1s and 10m",
        ),
        (
            &["--sample.interval=15"],
            "invalid value '15' for '--sample.interval <DURATION>': \
             expected a duration such as 15s, 1m or 1m30s (units: ms, s, m, h)",
        ),
        (
            &["--log.level=loud"],
            "invalid value 'loud' for '--log.level <LEVEL>' [possible values: error, warn, info, debug, trace]",
        ),
        (
            &["--log.format=xml"],
            "invalid value 'xml' for '--log.format <FORMAT>' [possible values: text, json]",
        ),
        (
            &["--collector.netdev.device-include=("],
            "invalid value '(' for '--collector.netdev.device-include <REGEX>': \
             not a regular expression: unclosed group",
        ),
        (
            &["--collector.netdev.device-include=a", "--collector.netdev.device-exclude=b"],
            "'--collector.netdev.device-include' and '--collector.netdev.device-exclude' exclude each other",
        ),
        (&["--collector.nosuch"], "unexpected argument '--collector.nosuch' found"),
        (
            &["changes", "--format=xml"],
            "invalid value 'xml' for '--format <FORMAT>' [possible values: text, json]",
        ),
        (
            &["changes"],
            "neither '--state.dir' nor $STATE_DIRECTORY says where changes are kept; \
             a running exporter shows its own at /changes",
        ),
        (&["render", "--web.max-connections=1"], "unexpected argument '--web.max-connections' found"),
    ] {
        let output = run(flags);
        // Which name is the most similar one is clap's matter.
        let line = stderr(&output).trim_start_matches("nettune: ").trim_end();
        let line = if expected.contains("tip:") { line } else { line.split("; tip:").next().unwrap_or(line) };
        assert_eq!(line, expected, "{flags:?}");
        assert_eq!(stderr(&output).lines().count(), 1, "{flags:?}");
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
    }
}

#[test]
fn what_the_host_lacks_is_said_in_one_line() {
    refuses(
        &["--path.procfs=/nonexistent"],
        "--path.procfs: /nonexistent/net: No such file or directory (os error 2)",
    );
    refuses(
        &["--web.systemd-socket"],
        "--web.systemd-socket: no socket was passed; is the .socket unit active?",
    );
    refuses(
        &["--path.recorded=/nonexistent"],
        "--path.recorded: /nonexistent/constants: No such file or directory (os error 2)",
    );
    refuses(
        &["changes", "--state.dir=/nonexistent"],
        "/nonexistent/changes.jsonl: No such file or directory (os error 2)",
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = format!("--web.listen-address={}", taken.local_addr().unwrap());
    refuses(&[&flag], &format!("{flag}: Address already in use (os error 98)"));
    // A documentation address (RFC 5737) that no host has.
    let flag = "--web.listen-address=192.0.2.1:10109";
    refuses(&[flag], &format!("{flag}: Cannot assign requested address (os error 99)"));
    let flag = "--web.listen-address=unix:/nonexistent/socket";
    refuses(&[flag], &format!("{flag}: No such file or directory (os error 2)"));
}

#[test]
fn a_bad_file_is_refused_where_it_is_bad() {
    let scratch = Scratch::new();
    for (content, expected) in [
        (
            "accepted:\n- {alert: NettuneX, reason: r, until: 2027-01-31}\n",
            ":2:11: accepted[0].alert: no alert is called `NettuneX`; docs/alerts.md has their names",
        ),
        (
            "accepted:\n- {alert: NettuneBacklogFull, reason: r, until: 2027-01-31}\n\
             - {alert: NettuneBacklogFull, reason: s, until: 2028-01-31}\n",
            ":3:3: accepted[1]: NettuneBacklogFull is accepted already for the same",
        ),
        (
            "limits: {devices: {eth0: fast}}\n",
            ":1:26: limits.devices.eth0: `fast` is no bandwidth: expected a number with kbit/s, Mbit/s or Gbit/s, such as 500Mbit/s",
        ),
        (
            "device: 1\n",
            ":1:1: unknown field `device`, expected one of `devices`, `collectors`, `paths`, `limits`, `accepted`",
        ),
        ("devices:\n  include: (\n", ":2:12: devices.include: not a regular expression: unclosed group"),
        (
            "devices:\n  include: [1]\n",
            ":2:12: devices.include: invalid type: sequence, expected a regular expression",
        ),
        ("devices:\n  include: a\n  include: b\n", ":2:3: devices: duplicate field `include`"),
        ("devices:\n  include: a\n  exclude: b\n", ":2:3: devices: include and exclude exclude each other"),
        ("devices: {\n", ":2:1: did not find expected node content, while parsing a flow node"),
    ] {
        let path = scratch.file("nettune.yaml", content);
        let path = path.to_str().unwrap();
        refuses(&["--config.file", path], &format!("{path}{expected}"));
        refuses(&["serve", "--config.check", "--config.file", path], &format!("{path}{expected}"));
    }
    let path = scratch.file("nettune.yaml", "collectors:\n  disabled:\n    - nosuch\n");
    let output = run(&["--config.file", path.to_str().unwrap()]);
    let place =
        format!("nettune: {}:3:7: collectors.disabled[0]: unknown collector `nosuch`, ", path.display());
    assert!(stderr(&output).starts_with(&place), "{}", stderr(&output));
    assert!(stderr(&output).contains("softnet"));
    refuses(&["--config.file=/nonexistent"], "/nonexistent: No such file or directory (os error 2)");
}

#[test]
fn a_good_file_passes_the_check_without_a_server() {
    let scratch = Scratch::new();
    let path =
        scratch.file("nettune.yaml", "devices:\n  include: ^eth\ncollectors:\n  disabled: [softnet]\n");
    let path = path.to_str().unwrap();
    // Checked on another host than the one it is for.
    let output = run(&["--config.check", "--config.file", path, "--path.procfs=/nonexistent"]);
    assert_eq!(stdout(&output), format!("{path}: good\n"));
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
    let output = run(&["--config.check"]);
    assert_eq!(stdout(&output), "flags: good; no --config.file was given\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn help_and_version_are_answers() {
    for flags in [&["--help"][..], &["-h"], &["serve", "--help"]] {
        let output = run(flags);
        assert_eq!((stderr(&output), output.status.code()), ("", Some(0)), "{flags:?}");
        assert!(stdout(&output).contains("--web.listen-address <ADDRESS>"), "{flags:?}");
        for line in stdout(&output).lines() {
            assert!(line.chars().count() <= 80 && line == line.trim_end(), "{line:?}");
        }
    }
    let output = run(&["--version"]);
    assert!(stdout(&output).starts_with(concat!("nettune ", env!("CARGO_PKG_VERSION"), " (revision ")));
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
}

#[test]
fn a_reader_that_has_had_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = nettune(&["--help"]).stdout(Stdio::from(writer)).output().unwrap();
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
}

#[test]
fn every_flag_is_an_environment_variable() {
    let mut command = nettune(&["--no-collector.netstat"]);
    command.envs([
        ("NETTUNE_WEB_LISTEN_ADDRESS", "127.0.0.1:0,127.0.0.1:0"),
        ("NETTUNE_WEB_TELEMETRY_PATH", "/scrape"),
        ("NETTUNE_NO_COLLECTOR_SOFTNET", "yes"),
        ("NETTUNE_COLLECTOR_CONNTRACK", "false"),
        // The command line wins.
        ("NETTUNE_COLLECTOR_NETSTAT", "true"),
        // Empty is as good as not set.
        ("NETTUNE_CONFIG_FILE", ""),
        // What Kubernetes sets for a service of this name.
        ("NETTUNE_PORT", "tcp://10.0.0.1:10109"),
        ("NETTUNE_SERVICE_HOST", "10.0.0.1"),
    ]);
    let exporter = Exporter::launch(command);
    assert_eq!(exporter.addresses().len(), 2);
    let response = exporter.get("/scrape", &[]);
    assert_eq!(response.status, 200);
    for off in ["softnet", "conntrack", "netstat"] {
        let series = format!("nettune_collector_success{{collector=\"{off}\"}}");
        assert!(!response.text().contains(&series), "{off} is on");
    }

    let output = nettune(&[]).env("NETTUNE_LOG_LEVEL", "loud").output().unwrap();
    assert!(stderr(&output).starts_with("nettune: invalid value 'loud' for '--log.level <LEVEL>'"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_parameter_and_an_alert_are_explained() {
    let output = run(&["explain", "net.core.somaxconn"]);
    let text = stdout(&output);
    let running = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    assert!(output.status.success() && text.contains(&format!("Here         {}", running.trim())), "{text}");
    for part in [
        "backlog",
        "the often quoted 1024 would",
        "NettuneAcceptQueueFullSomaxconn (critical)",
        "net/socket.c",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(stdout(&run(&["explain", "net/core/somaxconn"])), stdout(&output));
    let output = run(&["explain", "NettuneAcceptQueueFullSomaxconn"]);
    let runbook = concat!(env!("CARGO_MANIFEST_DIR"), "/alerts/runbooks/NettuneAcceptQueueFullSomaxconn.md");
    assert_eq!(stdout(&output), fs::read_to_string(runbook).unwrap());
    refuses(
        &["explain", "net.core.somaxcon"],
        "no parameter and no alert is called net.core.somaxcon; did you mean net.core.somaxconn, net.core.busy_poll, net.core.rmem_max?",
    );
}
