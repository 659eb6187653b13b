//! A source that is garbled, cut, empty, huge or forbidden fails alone: it says
//! where, and every other source is served as before.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use crate::exposition::{Samples, samples};
use crate::fixture::Fixture;
use crate::support::Exporter;

/// Each source's file, or that of several, and bytes they must refuse.
const GARBLED: &[(&str, &str, &[u8])] = &[
    ("host", "proc/meminfo", b"MemTotal: lots kB\n"),
    ("snmp", "proc/net/snmp", b"Tcp: OutSegs RetransSegs\nTcp: 12 3x\n"),
    ("snmp6", "proc/net/snmp6", b"Ip6InReceives one\n"),
    ("netstat", "proc/net/netstat", b"TcpExt: SyncookiesSent\nTcpExt: 1 2 3\n"),
    ("sockstat", "proc/net/sockstat", b"TCP: inuse\n"),
    ("sockstat6", "proc/net/sockstat6", b"\xff\xfe\xfd"),
    // Which end of a connection is ours is known by the listeners.
    (
        "connection listener",
        "netlink/tcp-listeners.bin",
        b"\x14\0\0\0\x14\0\x02\0\0\0\0\0\0\0\0\0\x02\x0a\0\0",
    ),
    ("listener", "proc/self/mountinfo", b"32 31 0:29 / /sys/fs/cgroup rw\n"),
    ("connection", "netlink/tcp-connections.bin", b"\x14\0\0\0\x14\0\x02\0\0\0\0\0\0\0\0\0\x02\x01\0\0"),
    ("udp", "netlink/udp-sockets.bin", b"\x14\0\0\0\x14\0\x02\0\0\0\0\0\0\0\0\0\x02\x07\0\0"),
    ("connection sysctl", "proc/sys/net/ipv4/tcp_tw_reuse", b"perhaps\n"),
    ("softnet", "proc/net/softnet_stat", b"0000 0001\n"),
    ("netdev", "netlink/links.bin", b"\x30\0\0\0\x10\0\x02\0"),
    ("qdisc", "netlink/qdiscs.bin", b"\x10\0\0\0\x24\0\x02\0\0\0\0\0\0\0\0\0"),
    ("ethtool", "netlink/rings.bin", b"\x14\0\0\0\x14\0\x02\0\0\0\0\0\0\0\0\0\x10\x01\0\0"),
    ("softirqs", "proc/softirqs", b"CPU0 CPU1\nNET_RX: 1\n"),
    ("cpu", "proc/stat", b"cpu0 1 2 3\n"),
    ("interrupts", "proc/interrupts", b"no header of processors\n"),
    ("steering", "sys/class/net/eth0/queues/rx-0/rps_cpus", b"all of them\n"),
    ("conntrack", "proc/net/stat/nf_conntrack", b"entries drop\n0000 zzzz\n"),
    ("neighbour", "proc/net/stat/arp_cache", b"entries table_fulls\n0001\n"),
    ("route", "netlink/routes.bin", b"\x14\0\0\0\x18\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    ("sysctl udp", "proc/sys/net/core/rmem_max", b"four thousand\n"),
    ("process", "proc/self/stat", b"1 (a b) S\n"),
];

fn scrape(fixture: &Fixture) -> (Samples, String) {
    let flags = fixture.flags();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let exporter = Exporter::start(&flags);
    let found = samples(exporter.get("/metrics", &[]).text());
    // The line of the log may come after the answer.
    if !failed(&found).is_empty() {
        exporter.wait_for_log("failed:");
    }
    (found, exporter.log())
}

/// Series by the collector they come from are not marked as such; what a fault
/// may take away is what differs from the healthy scrape.
fn failed(samples: &Samples) -> Vec<String> {
    let success = samples.iter().filter(|(series, _)| series.starts_with("nettune_collector_success{"));
    let failed = success.filter(|(_, value)| **value == 0.0);
    failed.map(|(series, _)| series.split('"').nth(1).unwrap().to_owned()).collect()
}

fn volatile(series: &str) -> bool {
    series.contains("duration_seconds")
        || series.contains("timestamp_seconds")
        || series.contains("collector_")
        // What a failed pass does not count.
        || series.starts_with("nettune_sockets_")
        || series.contains("rtt_seconds")
}

#[test]
fn a_garbled_source_fails_alone_and_says_where() {
    let healthy = scrape(&Fixture::copy("6.18-host")).0;
    assert_eq!(failed(&healthy), [""; 0]);
    for (source, file, bytes) in GARBLED {
        let fixture = Fixture::copy("6.18-host");
        fixture.write(file, bytes);
        let (found, log) = scrape(&fixture);
        assert_eq!(failed(&found).join(" "), *source, "{file}");
        let line =
            log.lines().find(|line| line.contains("failed:")).unwrap_or_else(|| panic!("{file}: {log}"));
        let place = file.trim_end_matches(".bin").rsplit('/').next().unwrap();
        assert!(line.contains(place) && line.contains("line 1") | line.contains("line 2"), "{file}: {line}");
        assert!(line.contains("expected") && line.contains("found"), "{file}: {line}");
        let lost: Vec<_> =
            healthy.keys().filter(|series| !volatile(series) && !found.contains_key(*series)).collect();
        assert!(
            healthy.len() - lost.len() > healthy.len() / 2,
            "{file}: lost {} of {}",
            lost.len(),
            healthy.len()
        );
        for (series, value) in found.iter().filter(|(series, _)| !volatile(series)) {
            assert_eq!(healthy.get(series), Some(value), "{file}: {series}");
        }
    }
}

/// What must remain when one source is gone: nothing of the others.
#[test]
fn a_missing_source_is_absent_and_takes_nothing_else_away() {
    let healthy = scrape(&Fixture::copy("6.18-host")).0;
    let own: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("proc/net/softnet_stat", &["nettune_softnet_"][..]),
        ("proc/softirqs", &["nettune_softirq_"]),
        ("proc/net/netstat", &["nettune_tcp_", "nettune_ip_", "nettune_busy_poll_"]),
        ("proc/sys/net/core/somaxconn", &["nettune_sysctl_", "nettune_listener_limited_by"]),
        (
            "netlink/tcp-listeners.bin",
            &[
                "nettune_listener_",
                "nettune_ephemeral_ports_",
                "nettune_path_",
                "nettune_sockets_followed",
                "nettune_sockets_not_followed",
                "nettune_tcp_backoff_connections",
                "nettune_tcp_buffers_at_maximum",
                "nettune_tcp_connections",
                "nettune_tcp_keepalive_connections",
                "nettune_tcp_min_rtt",
                "nettune_tcp_orphaned_fin_wait2_connections",
                "nettune_tcp_peer_gone_connections",
                "nettune_tcp_receive_buffers_",
                "nettune_tcp_rtt",
                "nettune_tcp_small",
                "nettune_tcp_stalled_connections",
                "nettune_tcp_unit_memory",
            ],
        ),
        (
            "proc/sys/net/ipv4/ip_local_port_range",
            &[
                "nettune_ephemeral_ports_",
                "nettune_sysctl_",
                "nettune_listener_in_port_range",
                "nettune_udp_socket",
            ],
        ),
        ("netlink/udp-sockets.bin", &["nettune_udp_socket"]),
        ("proc/sys/net/core/rmem_default", &["nettune_sysctl_", "nettune_udp_socket_buffer_set_by"]),
        (
            "netlink/qdiscs.bin",
            // Whether bbr lacks a queueing discipline is not known then.
            &[
                "nettune_qdisc_",
                "nettune_sysctl_recommended_basis_info{parameter=\"net.core.default_qdisc\"",
                "nettune_sysctl_recommended_text_info{parameter=\"net.core.default_qdisc\"",
            ],
        ),
        ("proc/interrupts", &["nettune_nic_interrupt"]),
    ]);
    for (file, prefixes) in own {
        let fixture = Fixture::copy("6.18-host");
        fs::remove_file(fixture.path(file)).unwrap();
        let (found, _) = scrape(&fixture);
        assert_eq!(failed(&found), [""; 0], "{file}: absent is not failed");
        let lost = healthy.keys().filter(|series| !found.contains_key(*series));
        let foreign: Vec<_> =
            lost.filter(|series| !prefixes.iter().any(|own| series.starts_with(own))).collect();
        assert!(foreign.is_empty(), "{file} took away {foreign:?}");
    }
}

/// Two sources read this key; what else they read stays.
#[test]
fn a_garbled_parameter_hides_no_listener() {
    let fixture = Fixture::copy("6.18-host");
    fixture.write("proc/sys/net/core/somaxconn", b"four thousand\n");
    let (found, _) = scrape(&fixture);
    assert_eq!(failed(&found), ["listener", "sysctl"]);
    assert_eq!(found["nettune_listener_accept_queue_limit{address=\"::\",port=\"8443\"}"], 511.0);
    assert_eq!(found["nettune_listener_in_port_range{address=\"::\",port=\"8443\"}"], 0.0);
    assert!(!found.keys().any(|series| series.starts_with("nettune_listener_limited_by")));
}

#[test]
fn an_absent_key_takes_only_itself_away() {
    let fixture = Fixture::copy("6.18-host");
    fs::remove_file(fixture.path("proc/sys/net/ipv4/tcp_mem")).unwrap();
    let (found, _) = scrape(&fixture);
    assert!(
        !found
            .keys()
            .any(|series| series.contains("net.ipv4.tcp_mem") || series.contains("tcp_memory_limit"))
    );
    assert!(found.contains_key("nettune_udp_memory_limit_bytes{mark=\"low\"}"));
    assert!(found.contains_key("nettune_sysctl_value{parameter=\"net.ipv4.udp_mem\",field=\"low\"}"));
}

#[test]
fn empty_and_huge_files_fail_alone() {
    let fixture = Fixture::copy("6.18-host");
    fixture.write("proc/net/snmp", b"");
    let huge = fs::File::create(fixture.path("proc/net/netstat")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let (found, log) = scrape(&fixture);
    assert_eq!(failed(&found), ["netstat", "snmp"]);
    assert!(log.contains("net/snmp: line 1: counters: expected a line `Group: name …`"), "{log}");
    assert!(log.contains("net/netstat: larger than 33554432 bytes"), "{log}");
}

/// Of the files that set parameters at boot one spoils no other.
#[test]
fn a_boot_file_that_cannot_be_read_is_named_and_the_others_stand() {
    let fixture = Fixture::copy("6.18-host");
    let healthy = scrape(&fixture).0;
    let directory = "root/etc/sysctl.d";
    symlink("70-loop.conf", fixture.path(&format!("{directory}/70-loop.conf"))).unwrap();
    symlink("nowhere", fixture.path(&format!("{directory}/71-dangling.conf"))).unwrap();
    fs::create_dir(fixture.path(&format!("{directory}/72-folder.conf"))).unwrap();
    fixture.write(&format!("{directory}/73-huge.conf"), &vec![b'#'; (4 << 20) + 1]);
    fixture.write(&format!("{directory}/74-binary.conf"), b"\0\xff=\x01\n\xfe");
    fixture.write(&format!("{directory}/75-good.conf"), b"net.ipv4.tcp_retries2 = 9\n");
    let (found, log) = scrape(&fixture);
    assert_eq!(failed(&found), ["persisted"]);
    assert!(log.contains("70-loop.conf: Too many levels of symbolic links"), "{log}");
    for name in ["70-loop", "71-dangling", "72-folder", "73-huge"] {
        let series = "nettune_sysctl_file_problems{file=\"/etc/sysctl.d/";
        assert_eq!(found[&format!("{series}{name}.conf\",problem=\"unreadable\"}}")], 1.0, "{name}");
    }
    let value = "nettune_sysctl_persisted_value{parameter=\"net.ipv4.tcp_retries2\",field=\"\"}";
    assert_eq!(found[value], 9.0);
    let lost: Vec<_> =
        healthy.keys().filter(|series| !volatile(series) && !found.contains_key(*series)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn a_file_that_loops_or_is_a_directory_is_no_trap() {
    let fixture = Fixture::copy("6.18-host");
    fs::remove_file(fixture.path("proc/net/snmp")).unwrap();
    symlink("snmp", fixture.path("proc/net/snmp")).unwrap();
    fs::remove_file(fixture.path("proc/net/snmp6")).unwrap();
    fs::create_dir(fixture.path("proc/net/snmp6")).unwrap();
    let (found, log) = scrape(&fixture);
    assert_eq!(failed(&found), ["snmp"]);
    assert!(log.contains("net/snmp: Too many levels of symbolic links"), "{log}");
    assert_eq!(found["nettune_collector_absent{collector=\"snmp6\"}"], 1.0);
}

#[test]
fn read_only_keys_and_dotted_interfaces_are_exported_as_such() {
    let (found, _) = scrape(&Fixture::copy("6.18-namespace"));
    let locked =
        |name: &str| found.contains_key(&format!("nettune_sysctl_read_only{{parameter=\"{name}\"}}"));
    assert!(locked("net.core.rmem_max"));
    // Never writable anywhere, which is no news.
    assert!(!locked("net.ipv4.tcp_available_congestion_control"));
    assert!(!locked("net.core.somaxconn"));
    assert_eq!(found["nettune_sysctl_value{parameter=\"net.ipv4.conf.eth0/100.rp_filter\",field=\"\"}"], 2.0);
}

/// Series that come twice would spoil the scrape; what would make them fails.
#[test]
fn nothing_comes_twice() {
    let cases: [(&str, &str, &[u8]); 4] = [
        ("softirqs", "proc/softirqs", b"CPU0 CPU0\nNET_RX: 1 2\n"),
        ("cpu", "proc/stat", b"cpu0 1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\n"),
        ("interrupts", "proc/interrupts", b"CPU1 CPU1\n"),
        ("softnet", "proc/net/softnet_stat", b"1 0 0 0 0 0 0 0 0 0 0 0 1\n1 0 0 0 0 0 0 0 0 0 0 0 1\n"),
    ];
    for (source, file, bytes) in cases {
        let fixture = Fixture::copy("6.18-host");
        fixture.write(file, bytes);
        let (found, log) = scrape(&fixture);
        assert_eq!(failed(&found), [source], "{file}: {log}");
    }
    // A dump that changes meanwhile may name a device twice.
    let fixture = Fixture::copy("6.18-host");
    for file in ["netlink/links.bin", "netlink/rings.bin", "netlink/channels.bin"] {
        let once = fs::read(fixture.path(file)).unwrap();
        fixture.write(file, &[&once[..], &once[..]].concat());
    }
    // The map of samples refuses doubles.
    assert_eq!(failed(&scrape(&fixture).0), [""; 0]);
}
