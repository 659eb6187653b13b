//! Tracked flows by state, on the running kernel, beside what conntrack(8) says.

use std::collections::BTreeMap;

use crate::exposition::{Samples, samples};
use crate::namespace::Namespace;
use crate::support::{Exporter, Scratch};

/// A flow that conntrack(8) puts into the table: protocol, state and seconds left.
fn insert(namespace: &Namespace, number: usize, what: &str, left: u32) {
    let port = 1000 + number;
    let tuple = format!("-s 192.0.2.1 -d 192.0.2.2 --sport {port} --dport 80");
    namespace.run(&format!("conntrack -I {what} {tuple} -t {left}"));
}

/// Files as of a table of 16 entries: the limit is the host's, and not ours to set.
fn procfs(entries: usize) -> Scratch {
    let scratch = Scratch::new();
    scratch.file("net/stat/nf_conntrack", "entries drop\n0000000a 00000000\n");
    let values =
        [("count", entries.to_string()), ("max", "16".into()), ("tcp_timeout_established", "432000".into())];
    for (name, value) in values {
        scratch.file(&format!("sys/net/netfilter/nf_conntrack_{name}"), &format!("{value}\n"));
    }
    scratch
}

/// What an exporter finds in the namespace, whose table has so many entries.
fn found(namespace: &Namespace, entries: usize, setpriv: &[&str]) -> Samples {
    let files = procfs(entries);
    let socket = files.path("socket");
    let mut command = match setpriv {
        [] => namespace.command(env!("CARGO_BIN_EXE_nettune")),
        [program, rest @ ..] => {
            let mut command = namespace.command(program);
            command.args(rest).arg(env!("CARGO_BIN_EXE_nettune"));
            command
        }
    };
    command.arg(format!("--web.listen-address=unix:{}", socket.display()));
    command.arg(format!("--path.procfs={}", files.path("").display()));
    let exporter = Exporter::launch(command);
    exporter.wait_until_ready();
    samples(exporter.get("/metrics", &[]).text())
}

/// Entries by state, those there are any of.
fn by_state(found: &Samples) -> BTreeMap<String, f64> {
    let of = found.iter().filter_map(|(series, value)| {
        let state = series.strip_prefix("nettune_conntrack_entries_by_state{state=\"")?;
        Some((state.strip_suffix("\"}")?.to_owned(), *value))
    });
    of.filter(|(_, value)| *value > 0.0).collect()
}

const SEEN: &str = "-u SEEN_REPLY,ASSURED";

/// A namespace whose table holds ten flows.
fn filled() -> Option<Namespace> {
    let namespace = Namespace::new()?;
    let tcp = |state: &str| format!("-p tcp --state {state} {SEEN}");
    let flows = [
        // Two for more than a day without a packet, of the five that they are remembered.
        (tcp("ESTABLISHED"), 300_000),
        (tcp("ESTABLISHED"), 345_000),
        (tcp("ESTABLISHED"), 430_000),
        (tcp("CLOSE_WAIT"), 3000),
        (tcp("CLOSE_WAIT"), 3000),
        (tcp("CLOSE_WAIT"), 3000),
        (tcp("TIME_WAIT"), 100),
        (format!("-p udp {SEEN}"), 100),
        ("-p udp".into(), 100),
        ("-p udp".into(), 100),
    ];
    for (number, (what, left)) in flows.iter().enumerate() {
        insert(&namespace, number, what, *left);
    }
    Some(namespace)
}

#[test]
fn flows_are_told_by_state_once_the_table_is_half_full() {
    let Some(namespace) = filled() else { return };
    let expected =
        [("close_wait", 3.0), ("established", 3.0), ("time_wait", 1.0), ("udp", 2.0), ("udp_stream", 1.0)];
    let expected: BTreeMap<_, _> = expected.map(|(state, count)| (state.to_owned(), count)).into();
    let full = found(&namespace, 10, &[]);
    assert_eq!(by_state(&full), expected, "{}", namespace.run("conntrack -L"));
    assert_eq!(full["nettune_conntrack_idle_established_entries"], 2.0);

    let half = found(&namespace, 8, &[]);
    assert!(half.keys().all(|series| !series.contains("by_state{state") && !series.contains("_idle_")));
    assert_eq!(half["nettune_conntrack_entries"], 8.0);
}

#[test]
fn without_the_privilege_only_the_states_are_missing() {
    let Some(namespace) = filled() else { return };
    let drop = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"];
    let refused = found(&namespace, 10, &drop);
    assert_eq!(refused["nettune_collector_success{collector=\"conntrack\"}"], 1.0);
    assert_eq!(refused["nettune_conntrack_entries"], 10.0);
    assert!(by_state(&refused).is_empty());
}
