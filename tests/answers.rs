//! The real program over recorded answers of sock_diag that are broken, or that an
//! older kernel would give.

use std::fs;

use nettune::kernel::netlink::messages;

use crate::exposition::{Samples, samples};
use crate::fixture::Fixture;
use crate::support::Exporter;

/// Each recording, and what names it as failed.
const RECORDINGS: &[(&str, &str)] = &[
    ("tcp-connections", "connection"),
    ("tcp6-connections", "connection"),
    ("tcp-listeners", "connection listener"),
    ("tcp6-listeners", "connection listener"),
    ("udp-sockets", "udp"),
    ("udp6-sockets", "udp"),
];

fn scrape(fixture: &Fixture) -> (Samples, String) {
    let flags = fixture.flags();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let exporter = Exporter::start(&flags);
    let text = exporter.get("/metrics", &[]).text().to_owned();
    let found = samples(&text);
    if !failed(&found).is_empty() {
        // Lines are written behind the answer.
        exporter.wait_for_log("failed:");
    }
    assert!(!exporter.log().contains("panicked"), "{}", exporter.log());
    (found, exporter.log())
}

fn failed(samples: &Samples) -> String {
    let success = samples.iter().filter(|(series, _)| series.starts_with("nettune_collector_success{"));
    let failed = success.filter(|(_, value)| **value == 0.0);
    failed.map(|(series, _)| series.split('"').nth(1).unwrap()).collect::<Vec<_>>().join(" ")
}

/// A message of this type and length by its header, with these bytes behind it.
fn message(length: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4] = 20;
    bytes.extend(payload);
    bytes
}

/// Ways to break an answer that is good, none of which is to pass for one.
fn broken(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut strange = good.to_vec();
    strange[16] = 1;
    vec![
        ("cut", good[..good.len() - 4].to_vec()),
        ("of another family", strange),
        ("shorter than its struct", [good, &message(40, &[2; 24])].concat()),
        ("shorter than a header", [good, &message(15, &[])].concat()),
        ("longer than the answer", [good, &message(u32::MAX, &[2; 72])].concat()),
    ]
}

#[test]
fn a_broken_answer_fails_its_own_source_alone() {
    let fixture = Fixture::copy("6.18-host");
    for (name, source) in RECORDINGS {
        let file = format!("netlink/{name}.bin");
        let good = fs::read(fixture.path(&file)).unwrap();
        for (fault, bytes) in broken(&good) {
            fixture.write(&file, &bytes);
            let (found, log) = scrape(&fixture);
            assert_eq!(failed(&found), *source, "{name} {fault}: {log}");
            let line = log.lines().find(|line| line.contains("failed:")).unwrap();
            assert!(line.contains(&format!("netlink {name}: line ")), "{fault}: {line}");
            assert!(found.contains_key("nettune_tcp_memory_bytes"), "{name} {fault}");
        }
        // One within the other may look like a good one.
        for middle in [4, 20, 40, 100] {
            fixture.write(&file, &[&good[..middle], &good, &good[middle..]].concat());
            let (found, _) = scrape(&fixture);
            assert!(["", *source].contains(&failed(&found).as_str()), "{name} at {middle}");
            assert!(found.contains_key("nettune_tcp_memory_bytes"), "{name} at {middle}");
        }
        fixture.write(&file, &good);
    }
}

/// A dump that is resumed gives sockets again; a long one is a long one.
#[test]
fn a_socket_that_comes_often_counts_once() {
    let fixture = Fixture::copy("6.18-host");
    let (once, _) = scrape(&fixture);
    for (name, _) in RECORDINGS.iter().filter(|(_, source)| *source != "connection") {
        let file = format!("netlink/{name}.bin");
        let good = fs::read(fixture.path(&file)).unwrap();
        fixture.write(&file, &good.repeat(1000));
    }
    let (often, _) = scrape(&fixture);
    assert_eq!(failed(&often), "");
    let own = |series: &&String| {
        series.starts_with("nettune_listener_") && !series.contains("syn_recv")
            || series.starts_with("nettune_udp_socket")
    };
    let figures = |found: &Samples| -> Vec<_> {
        found
            .iter()
            .filter(|(series, _)| own(series))
            .map(|(series, value)| (series.clone(), *value))
            .collect()
    };
    assert!(figures(&once).len() > 20);
    assert_eq!(figures(&once), figures(&often));
}

/// The messages with only those attributes that `keep` says.
fn without(bytes: &[u8], keep: impl Fn(u16) -> bool) -> Vec<u8> {
    let mut kept = Vec::new();
    for one in messages(bytes) {
        let one = one.unwrap();
        let mut payload = one.payload[..72].to_vec();
        for attribute in one.attributes(72).filter(|attribute| keep(attribute.kind)) {
            payload.extend((attribute.value.len() as u16 + 4).to_ne_bytes());
            payload.extend(attribute.kind.to_ne_bytes());
            payload.extend(attribute.value);
            payload.resize(payload.len().next_multiple_of(4), 0);
        }
        kept.extend(message(16 + payload.len() as u32, &payload));
    }
    kept
}

#[test]
fn what_an_older_kernel_does_not_tell_is_missing_and_blames_nobody() {
    const INFO: u16 = 2;
    let fixture = Fixture::copy("6.18-host");
    let (whole, _) = scrape(&fixture);
    for (name, _) in RECORDINGS {
        let file = format!("netlink/{name}.bin");
        let good = fs::read(fixture.path(&file)).unwrap();
        fixture.write(&file, &without(&good, |kind| kind == INFO));
    }
    let (found, log) = scrape(&fixture);
    assert_eq!(failed(&found), "", "{log}");
    for (series, value) in &whole {
        let told = !series.starts_with("nettune_udp_socket")
            && !series.starts_with("nettune_listener_drops")
            && !series.contains("bound_ratio")
            && !series.contains("unit_memory");
        let own =
            ["nettune_tcp_connections", "nettune_listener_", "nettune_tcp_stalled", "nettune_ephemeral"];
        if told && own.iter().any(|prefix| series.starts_with(prefix)) {
            assert_eq!(found.get(series), Some(value), "{series}");
        }
    }
    for (series, value) in &found {
        let blames = ["at_maximum", "_limited", "buffers_full", "buffers_unread", "unit_memory"];
        let by_somaxconn = series.starts_with("nettune_listener_");
        if !by_somaxconn && blames.iter().any(|word| series.contains(word)) {
            assert_eq!(*value, 0.0, "{series}");
        }
        assert!(!series.starts_with("nettune_udp_socket") && !series.contains("bound_ratio"), "{series}");
        assert!(!series.starts_with("nettune_listener_drops"), "{series}");
    }
    assert!(found.contains_key("nettune_ephemeral_ports_undecided_ratio"));
}
