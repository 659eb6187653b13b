//! Listeners, ports, and what closed connections leave.

use super::*;
use crate::model::connections::troubles::Troubles;
use crate::model::connections::waiting::Waiting;
use crate::model::listeners::{Causes, Group};
use crate::model::ports::{Bound, Destination, Usage};
use crate::read::connections::State as Connection;

const SOMAXCONN: &str = "net.core.somaxconn";

/// A listener with one socket.
fn group(port: u16) -> Group {
    Group {
        address: "192.0.2.1".into(),
        port: port.to_string(),
        sockets: 1,
        queue: 0,
        queue_peak: 0,
        limit: 0,
        fill: 0.0,
        socket_limit: 0,
        limited_by: None,
        in_port_range: None,
        full: Duration::ZERO,
        drops: None,
        waiting: None,
        units: Vec::new(),
    }
}

/// One whose limit is somaxconn or not, full for so many seconds so far.
fn listener(limit: u64, is_clamped: bool, full: u64, half_open: u64) -> Snapshot {
    let (somaxconn, application) = (is_clamped.into(), (!is_clamped).into());
    let group = Group {
        limit,
        socket_limit: limit,
        limited_by: Some(Causes { somaxconn, application, ..Causes::default() }),
        full: Duration::from_secs(full),
        waiting: Some(Waiting { half_open, ..Waiting::default() }),
        ..group(443)
    };
    Snapshot { listeners: Some(Arc::new(vec![group])), ..Snapshot::default() }
}

#[test]
fn a_full_queue_clamped_by_somaxconn_doubles_it() {
    // Of a limit and time seen full: what is recommended.
    let after = |running: u64, is_clamped, full: [u64; 2]| {
        let mut bench = Bench::on("6.1.0", &[(SOMAXCONN, &[running.cast_signed()])]);
        bench.see(0, listener(running, is_clamped, full[0], 0));
        bench.see(15, listener(running, is_clamped, full[1], 0));
        bench.found(SOMAXCONN)
    };
    // At least 4096; 2 * 5000 = 10000, up to 16384; no more than 65536.
    assert_eq!(after(128, true, [0, 1]), Some((vec![4096], Basis::Repeat)));
    assert_eq!(after(5000, true, [0, 1]), Some((vec![16384], Basis::Repeat)));
    assert_eq!(after(60_000, true, [0, 1]), Some((vec![65536], Basis::Repeat)));
    assert_eq!(after(65_536, true, [0, 1]), None);
    // It was full long ago, or is at a limit of the program's own.
    assert_eq!(after(5000, true, [7, 7]), None);
    assert_eq!(after(5000, false, [0, 1]), None);
}

#[test]
fn once_applied_it_is_gone_until_the_new_value_limits() {
    let mut bench = Bench::new(&[(SOMAXCONN, &[8192])]);
    let found = |bench: &Bench| bench.found(SOMAXCONN).map(|(numbers, _)| numbers[0]);
    bench.see(0, listener(8192, true, 0, 0));
    bench.see(10, listener(8192, true, 5, 0));
    bench.see(3609, listener(8192, true, 5, 0));
    assert_eq!(found(&bench), Some(16384), "evidence stays for an hour");
    bench.set(SOMAXCONN, Value::Numbers(vec![16384]));
    bench.see(3610, listener(8192, true, 6, 0));
    assert_eq!(found(&bench), None, "it was seen full before the change");
    bench.see(3669, listener(16384, true, 7, 0));
    assert_eq!(found(&bench), None, "what is seen may be older by a minute");
    bench.see(3670, listener(16384, true, 8, 0));
    assert_eq!(found(&bench), Some(32768));
    bench.see(3670 + 3601, listener(16384, true, 8, 0));
    assert_eq!(found(&bench), None, "an hour later it is forgotten");
}

#[test]
fn half_open_connections_count_when_their_cookies_come_back() {
    let cookies = |sent, back| extended(&[("SyncookiesSent", sent), ("SyncookiesRecv", back)]);
    let after = |back| {
        let mut bench = Bench::new(&[(SOMAXCONN, &[8192])]);
        bench.see(0, cookies(1000, 0));
        bench.see(15, listener(8192, true, 0, 8192));
        assert_eq!(bench.found(SOMAXCONN), None);
        bench.see(15, cookies(1100, back));
        bench.found(SOMAXCONN).map(|(numbers, _)| numbers[0])
    };
    assert_eq!((after(51), after(50)), (Some(16384), None));
}

#[test]
fn the_syn_backlog_counts_without_cookies_alone() {
    let (backlog, cookies) = ("net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_syncookies");
    let drops = |all, overflows, full| {
        extended(&[("ListenDrops", all), ("ListenOverflows", overflows), ("TCPReqQFullDrop", full)])
    };
    let mut half_open = Pass::default();
    half_open.connections[Connection::SynRecv as usize] = [900, 100];
    let after = |mode, last| {
        let mut bench = Bench::new(&[(backlog, &[512]), (cookies, &[mode])]);
        bench.see(0, drops(10, 10, 0));
        bench.see(1, pass(half_open.clone()));
        bench.see(15, last);
        bench.found(backlog)
    };
    // 4/3 * 1000 = 1333, up to 2048.
    assert_eq!(after(0, drops(31, 20, 10)), Some((vec![2048], Basis::Repeat)));
    assert_eq!(after(0, drops(30, 20, 10)), None);
    assert_eq!(after(1, drops(31, 20, 10)), None);

    // 20 dropped while 2 got in are clients that ask again, while 1 did it is a flood.
    let with_opens = |snapshot: Snapshot, count| Snapshot {
        snmp: counters("Tcp", &[("PassiveOpens", count)]),
        ..snapshot
    };
    let after = |opened: u64| {
        let mut bench = Bench::new(&[(backlog, &[512]), (cookies, &[0])]);
        bench.see(0, with_opens(drops(10, 10, 0), 5));
        bench.see(15, with_opens(drops(30, 10, 0), 5 + opened));
        bench.found(backlog)
    };
    assert_eq!((after(2), after(1)), (Some((vec![1024], Basis::Repeat)), None));
}

#[test]
fn time_wait_has_room_for_what_a_minute_brought() {
    let buckets = "net.ipv4.tcp_max_tw_buckets";
    let overflow = |count| extended(&[("TCPTimeWaitOverflow", count)]);
    let after = |running, lost: u64| {
        let mut bench = Bench::on("5.10.0", &[(buckets, &[running])]);
        bench.see(0, overflow(1_000_000));
        bench.see(20, overflow(1_000_000 + lost));
        bench.found(buckets)
    };
    // 40,000 in 20 s are 120,000 a minute; 1.5 * (65536 + 120000) = 278304, up to 524288.
    assert_eq!(after(65_536, 40_000), Some((vec![524_288], Basis::Peak)));
    // Memory carries 8 GiB / 32 / 256 = 1048576 of them: 1.5 * 786432 is more.
    assert_eq!(after(786_432, 1), Some((vec![1_048_576], Basis::Memory)));
    assert_eq!(after(1_048_576, 1), None);
    assert_eq!(after(65_536, 0), None);
}

#[test]
fn orphans_get_twice_the_room_as_memory_allows() {
    let orphans = "net.ipv4.tcp_max_orphans";
    let seen = |count: u64, limit| Snapshot {
        sockstat: Some(
            crate::read::sockstat::parse(format!("TCP: inuse 1 orphan {count} mem 1\n").as_bytes()).unwrap(),
        ),
        socket_limits: Some(crate::read::sockstat::Limits { orphans: Some(limit), ..Default::default() }),
        ..Snapshot::default()
    };
    let after = |count, limit: u64| {
        let mut bench = Bench::on("5.10.0", &[(orphans, &[limit.cast_signed()])]);
        bench.see(0, seen(count, limit));
        bench.found(orphans)
    };
    // 90 % of 32768 are 29491.2; twice as many are 65536.
    assert_eq!((after(29_492, 32_768), after(29_491, 32_768)), (Some((vec![65_536], Basis::Peak)), None));
    // At 2560 bytes each 1/32 of 8 GiB carries 104857.
    assert_eq!(after(65_000, 65_536), None);
    assert_eq!(after(59_000, 65_000), Some((vec![65_536], Basis::Memory)));
}

#[test]
fn fin_timeout_falls_by_steps_while_orphans_pile_up() {
    let timeout = "net.ipv4.tcp_fin_timeout";
    let after = |running, orphaned| {
        let troubles = Troubles { orphaned_fin_wait2: orphaned, ..Troubles::default() };
        let mut bench = Bench::new(&[(timeout, &[running])]);
        bench.see(0, pass(Pass { troubles, ..Pass::default() }));
        bench.found(timeout)
    };
    assert_eq!(after(60, 1000), Some((vec![30], Basis::Seen)));
    assert_eq!(after(30, 1000), Some((vec![15], Basis::Seen)));
    assert_eq!((after(15, 1000), after(60, 999)), (None, None));
}

/// So many of 28232 ports in use, of them so many in TIME_WAIT, and what is listened on.
fn ports(in_use: u64, time_wait: u64, listening: &[u16]) -> Snapshot {
    let destination = Destination { port: 5432, in_use, unreusable_time_wait: Some(time_wait) };
    let bound = Bound { ratio: 0.0, is_decided: true };
    let usage = Usage { available: 28_232, destinations: vec![destination], bound };
    let given = |port: u16| (32_768..=60_999).contains(&port);
    let groups = listening.iter().map(|port| Group { in_port_range: Some(given(*port)), ..group(*port) });
    let listeners = Some(Arc::new(groups.collect()));
    let found = connections(Connections {
        ports: Some(usage),
        listening: Some(Arc::new(listening.iter().copied().collect())),
        ..Connections::default()
    });
    Snapshot { listeners, ..found }
}

const RANGE: &str = "net.ipv4.ip_local_port_range";
const REUSE: &str = "net.ipv4.tcp_tw_reuse";
const RESERVED: &str = "net.ipv4.ip_local_reserved_ports";

fn short_of_ports(range: [i64; 2], reuse: i64, timestamps: i64, seen: Snapshot) -> Bench {
    let others = [(REUSE, &[reuse][..]), ("net.ipv4.tcp_timestamps", &[timestamps])];
    let mut bench =
        Bench::new(&[(RANGE, &range[..]), others[0], others[1]]).with_text(RESERVED, "40000-40001");
    bench.see(0, seen);
    bench
}

#[test]
fn time_wait_is_reused_before_the_range_is_widened() {
    // 0.7 * 28232 = 19762.4
    let found = |in_use, time_wait, reuse, timestamps| {
        let bench = short_of_ports([32768, 60999], reuse, timestamps, ports(in_use, time_wait, &[8080]));
        (bench.found(REUSE).map(|(numbers, _)| numbers[0]), bench.found(RANGE).map(|(numbers, _)| numbers))
    };
    let wide = || Some(vec![8082, 65535]);
    assert_eq!(found(19_763, 9_882, 2, 1), (Some(1), None));
    assert_eq!(found(19_763, 9_881, 2, 1), (None, wide()));
    assert_eq!(found(19_762, 9_882, 2, 1), (None, None));
    // What cannot be reused takes more ports.
    assert_eq!(found(19_763, 9_882, 1, 1), (None, wide()));
    assert_eq!(found(19_763, 9_882, 2, 0), (None, wide()));
}

#[test]
fn the_range_grows_down_to_what_is_listened_on() {
    let found = |range, listening: &[u16]| {
        let bench = short_of_ports(range, 1, 1, ports(28_000, 0, listening));
        bench.found(RANGE).map(|(numbers, _)| numbers)
    };
    let default = [32768, 60999];
    assert_eq!(found(default, &[22, 443, 9000, 50000]), Some(vec![9002, 65535]));
    assert_eq!(found(default, &[22, 443, 9001]), Some(vec![9002, 65535]));
    assert_eq!(found(default, &[22]), Some(vec![1024, 65535]));
    assert_eq!(found(default, &[32767]), Some(vec![32768, 65535]));
    assert_eq!(found([1024, 65535], &[22]), None);
    // An odd beginning that cannot go down gets an even end, and none that is less.
    assert_eq!(found([32769, 60998], &[32768]), Some(vec![32769, 65534]));
    assert_eq!(found([32769, 65535], &[32768]), None);
    let mut bench = short_of_ports(default, 1, 1, ports(28_000, 0, &[22]));
    bench.set("net.ipv4.ip_unprivileged_port_start", Value::Numbers(vec![5001]));
    assert_eq!(bench.found(RANGE).unwrap().0, [5002, 65535]);
}

#[test]
fn listening_ports_in_the_range_are_reserved() {
    let found = |in_use, listening: &[u16]| {
        short_of_ports([32768, 60999], 1, 1, ports(in_use, 0, listening)).text(RESERVED)
    };
    assert_eq!(found(0, &[22, 40000, 61000]), None, "in no range, or reserved");
    let more = [22, 39998, 39999, 40002, 50000];
    assert_eq!(found(0, &more), Some("39998-40002,50000".into()));
    // The range is to reach up to 65535.
    assert_eq!(found(28_000, &[22, 61000]), Some("40000-40001,61000".into()));
    // One that the program would not miss, since the kernel chose it.
    let mut seen = ports(0, 0, &[50000]);
    seen.listeners = Some(Arc::new(vec![Group { in_port_range: Some(false), ..group(50000) }]));
    assert_eq!(short_of_ports([32768, 60999], 1, 1, seen).text(RESERVED), None);
    let many: Vec<u16> = (0..40).map(|number| 41_000 + 2 * number).collect();
    assert_eq!(found(0, &many), None, "239 characters");
}
