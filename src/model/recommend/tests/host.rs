//! Modes, the receive path, and tables.

use super::*;
use crate::model::Followed;
use crate::model::connections::Sums;
use crate::model::connections::limits::{Cause, Limit};
use crate::model::connections::sums::Totals;
use crate::model::connections::troubles::Troubles;
use crate::model::devices::{DeviceCount, QdiscGroup};
use crate::read::Family;
use crate::read::conntrack::Conntrack;
use crate::read::links::Link;
use crate::read::neighbours::Table;
use crate::read::qdiscs::{Place, Qdisc};
use crate::read::steering::{Cpus, Queue, Steering};
use crate::read::{cpu, softnet, statistics};

fn number(bench: &Bench, name: &str) -> Option<i64> {
    bench.found(name).map(|(numbers, _)| numbers[0])
}

/// Connections of the long path with an algorithm: seconds busy, limited and idle restarts.
fn long(algorithm: u8, cause: (Limit, Cause), time: u64, restarts: u64) -> Snapshot {
    let mut sums = Sums::default();
    let busy = Duration::from_secs(100);
    sums.totals.insert((2, algorithm), Totals { busy, ..Totals::default() });
    sums.limited.insert((cause.0, cause.1, 2, algorithm), Duration::from_secs(time));
    sums.idle_restarts.insert(2, restarts);
    // Near ones count for nothing here.
    sums.idle_restarts.insert(1, 7);
    let algorithms = ["unknown", "cubic", "bbr"].map(str::to_owned).to_vec();
    let followed = Followed { sums, algorithms, ..Followed::default() };
    connections(Connections { followed: Some(followed), ..Connections::default() })
}

const LOSS: (Limit, Cause) = (Limit::Network, Cause::PathLoss);

#[test]
fn loss_on_a_long_path_calls_for_an_algorithm_that_bears_it() {
    let (control, available) =
        ("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_available_congestion_control");
    let allowed = "net.ipv4.tcp_allowed_congestion_control";
    let host = |list: &str| {
        let mem = ("net.ipv4.tcp_mem", &[98_304, 131_072, 196_608][..]);
        Bench::new(&[mem]).with_text(control, "cubic").with_text(available, list)
    };
    let after = |mut bench: Bench, snapshot| {
        bench.see(0, snapshot);
        bench.text(control)
    };
    assert_eq!(after(host("reno bbr cubic"), long(1, LOSS, 10, 0)), Some("bbr".into()));
    assert_eq!(after(host("reno bbr cubic"), long(1, LOSS, 9, 0)), None);
    assert_eq!(after(host("reno bbr cubic"), long(2, LOSS, 10, 0)), None, "bbr suffers");
    assert_eq!(after(host("reno bbr2 cubic"), long(1, LOSS, 10, 0)), None);
    assert_eq!(after(host("bbr").with_text(control, "bbr"), long(1, LOSS, 10, 0)), None);
    // Outside the initial namespace it must be allowed as well.
    let inside = || Bench::new(&[]).with_text(control, "cubic").with_text(available, "cubic bbr");
    assert_eq!(after(inside().with_text(allowed, "cubic"), long(1, LOSS, 10, 0)), None);
    assert_eq!(after(inside().with_text(allowed, "cubic bbr"), long(1, LOSS, 10, 0)), Some("bbr".into()));
    // Before 4.13 bbr depends on fq.
    let old = Bench::on("4.12.0", &[("net.ipv4.tcp_mem", &[1, 2, 3])]);
    assert_eq!(
        after(old.with_text(control, "cubic").with_text(available, "bbr"), long(1, LOSS, 10, 0)),
        None
    );
}

fn qdisc(kind: &str) -> Snapshot {
    let sum = Qdisc {
        link: 2,
        kind: kind.into(),
        place: Place::Leaf,
        bytes: 0,
        packets: 0,
        drops: 0,
        overlimits: 0,
        requeues: 0,
        backlog_bytes: 0,
        backlog_packets: 0,
    };
    let group = QdiscGroup { device: "eth0".into(), kind: kind.into(), place: Place::Leaf, count: 4, sum };
    Snapshot { qdiscs: Some(vec![group]), ..Snapshot::default() }
}

#[test]
fn bbr_is_paced_by_fq_where_the_kernel_has_it() {
    let (qdisc_name, control) = ("net.core.default_qdisc", "net.ipv4.tcp_congestion_control");
    let after = |has: bool, running: &str, algorithm: &str, kind: &str| {
        let mut bench = Bench::new(&[]).with_text(qdisc_name, running).with_text(control, algorithm);
        bench.evidence = Evidence::new(has);
        bench.see(0, qdisc(kind));
        bench.text(qdisc_name)
    };
    assert_eq!(after(true, "fq_codel", "bbr", "fq_codel"), Some("fq".into()));
    assert_eq!(after(false, "fq_codel", "bbr", "fq_codel"), None);
    assert_eq!(after(true, "fq", "bbr", "fq_codel"), None);
    assert_eq!(after(true, "fq_codel", "cubic", "fq_codel"), None);
    assert_eq!(after(true, "fq_codel", "bbr", "noqueue"), None);
    // Connections may use it though it is not the default.
    let mut bench = Bench::new(&[]).with_text(qdisc_name, "pfifo_fast").with_text(control, "cubic");
    bench.evidence = Evidence::new(true);
    bench.see(0, qdisc("pfifo_fast"));
    bench.see(1, long(2, LOSS, 0, 0));
    assert_eq!(bench.text(qdisc_name), Some("fq".into()));
}

#[test]
fn modes_change_with_what_was_seen() {
    let idle = "net.ipv4.tcp_slow_start_after_idle";
    let mut bench = Bench::new(&[(idle, &[1])]);
    bench.see(0, long(1, LOSS, 0, 0));
    assert_eq!(number(&bench, idle), None);
    bench.see(15, long(1, LOSS, 0, 1));
    assert_eq!(number(&bench, idle), Some(0));

    let probing = "net.ipv4.tcp_mtu_probing";
    let after = |running, stalled_full_size, smaller_mss_than_peers| {
        let troubles = Troubles { stalled_full_size, smaller_mss_than_peers, ..Troubles::default() };
        let mut bench = Bench::new(&[(probing, &[running])]);
        bench.see(0, pass(Pass { troubles, ..Pass::default() }));
        number(&bench, probing)
    };
    assert_eq!(
        (after(0, 1, 0), after(0, 0, 1), after(1, 1, 0), after(1, 0, 1)),
        (Some(1), None, None, Some(0))
    );

    let lowat = "net.ipv4.tcp_notsent_lowat";
    let after = |time| {
        let mut bench = Bench::new(&[(lowat, &[16_384])]);
        bench.see(0, long(1, (Limit::SendBuffer, Cause::NotsentLowat), time, 0));
        number(&bench, lowat)
    };
    assert_eq!((after(10), after(9)), (Some(4_294_967_295), None));

    let ecn = "net.ipv4.tcp_ecn";
    let after = |running, marks| {
        let mut bench = Bench::new(&[(ecn, &[running])]);
        bench.see(0, Snapshot { netstat: counters("IpExt", &[("InCEPkts", marks)]), ..Snapshot::default() });
        number(&bench, ecn)
    };
    assert_eq!((after(1, 0), after(1, 1), after(2, 0)), (Some(2), None, None));
    // What came before the first look may have come just then, and an hour later it did not.
    let mut bench = Bench::new(&[(ecn, &[1])]);
    let mut at = |second, marks| {
        let netstat = counters("IpExt", &[("InCEPkts", marks)]);
        bench.see(second, Snapshot { netstat, ..Snapshot::default() });
        number(&bench, ecn)
    };
    assert_eq!((at(0, 7), at(3600, 7), at(3601, 7), at(3602, 8)), (None, None, Some(2), None));
}

#[test]
fn keepalive_comes_before_the_tracker_forgets() {
    let (keepalive, tracker) =
        ("net.ipv4.tcp_keepalive_time", "net.netfilter.nf_conntrack_tcp_timeout_established");
    let after = |running, forgets, count, declared: Option<u64>| {
        let mut bench = Bench::new(&[(keepalive, &[running]), (tracker, &[forgets])]);
        let troubles = Troubles { keepalive: count, ..Troubles::default() };
        let mut declares = crate::model::Declared::default();
        declares.limits.idle_timeout = declared.map(Duration::from_secs);
        bench.see(0, Snapshot { declared: Arc::new(declares), ..pass(Pass { troubles, ..Pass::default() }) });
        bench.found(keepalive)
    };
    // 0.8 * 3600 = 2880, of two digits 2800.
    assert_eq!(after(7200, 3600, 1, None), Some((vec![2800], Basis::Tracker)));
    assert_eq!(after(7200, 7200, 1, None), Some((vec![5700], Basis::Tracker)));
    assert_eq!((after(7200, 7201, 1, None), after(7200, 3600, 0, None)), (None, None));
    // Of two the shorter one: 0.8 * 350 = 280.
    assert_eq!(after(7200, 3600, 1, Some(350)), Some((vec![280], Basis::Tracker)));
    assert_eq!(after(7200, 432_000, 1, Some(7201)), None);
}

fn softnet(dropped: u64, flow_limit: u64, processed: u64, squeezed: u64) -> softnet::Cpu {
    softnet::Cpu {
        cpu: 1,
        processed,
        dropped,
        time_squeezed: squeezed,
        flow_limit: Some(flow_limit),
        ..softnet::Cpu::default()
    }
}

#[test]
fn a_backlog_that_drops_doubles_within_bounds() {
    let backlog = "net.core.netdev_max_backlog";
    let after = |running, last| {
        let mut bench = Bench::new(&[(backlog, &[running])]);
        bench.see(0, Snapshot { softnet: Some(vec![softnet(5, 2, 0, 0)]), ..Snapshot::default() });
        bench.see(15, Snapshot { softnet: Some(vec![last]), ..Snapshot::default() });
        bench.found(backlog)
    };
    assert_eq!(after(1000, softnet(6, 2, 0, 0)), Some((vec![2000], Basis::Repeat)));
    assert_eq!(after(8000, softnet(6, 2, 0, 0)), Some((vec![10_000], Basis::Repeat)));
    assert_eq!(after(10_000, softnet(6, 2, 0, 0)), None);
    // The flow limit dropped it.
    assert_eq!(after(1000, softnet(6, 3, 0, 0)), None);
}

#[test]
fn a_budget_doubles_where_its_end_loses_packets_and_the_cpu_has_time() {
    let names = ["net.core.netdev_budget", "net.core.netdev_budget_usecs"];
    let seen = |packets: softnet::Cpu, softirq| Snapshot {
        softnet: Some(vec![packets]),
        cpus: Some(vec![cpu::Cpu { cpu: 1, softirq, ..cpu::Cpu::default() }]),
        ..Snapshot::default()
    };
    let after = |last, softirq| {
        let mut bench = Bench::new(&[(names[0], &[300]), (names[1], &[8000])]);
        bench.see(0, seen(softnet(0, 0, 1_000_000, 10), 1000));
        bench.see(10, seen(last, softirq));
        names.map(|name| number(&bench, name))
    };
    // Of 10 s, 1000 ticks, 899 are less than nine tenths; 11 of 10000 are more than 1 in 1000.
    assert_eq!(after(softnet(1, 0, 1_010_000, 21), 1899), [Some(600), Some(16_000)]);
    assert_eq!(after(softnet(1, 0, 1_010_000, 21), 1900), [None, None]);
    assert_eq!(after(softnet(1, 0, 1_010_000, 20), 1000), [None, None]);
    assert_eq!(after(softnet(0, 0, 1_010_000, 21), 1000), [None, None], "nothing was lost");
}

#[test]
fn the_flow_table_has_room_for_every_connection() {
    let table = "net.core.rps_sock_flow_entries";
    let after = |running, flows, established| {
        let mut bench = Bench::new(&[(table, &[running])]);
        let steering = Steering::Receive { cpus: Some(Cpus::default()), flows: Some(flows) };
        let queues = vec![("eth0".to_owned(), vec![Queue { name: "rx-0".into(), steering }])];
        bench.see(0, Snapshot { steering: Some(queues), ..Snapshot::default() });
        let mut found = Pass::default();
        found.connections[crate::read::connections::State::Established as usize] = [established, 0];
        bench.see(1, pass(found));
        number(&bench, table)
    };
    assert_eq!(after(0, 2048, 10), Some(32_768));
    assert_eq!(after(32_768, 2048, 40_000), Some(65_536));
    assert_eq!((after(32_768, 2048, 32_768), after(0, 0, 10)), (None, None));
}

fn table(header: &str, value: u64) -> Option<statistics::Statistics> {
    Some(statistics::parse(format!("{header}\n{value:x}\n").as_bytes()).unwrap())
}

#[test]
fn neighbours_get_twice_the_room_that_was_taken() {
    let name = |number| format!("net.ipv6.neigh.default.gc_thresh{number}");
    let after = |entries, running: [i64; 3]| {
        let mut bench = Bench::new(&[]);
        (1..=3)
            .zip(running)
            .for_each(|(place, number)| bench.set(&name(place), Value::Numbers(vec![number])));
        let full = Table { statistics: table("entries", entries), ..Table::default() };
        bench.see(0, Snapshot { neighbours: Some([Table::default(), full]), ..Snapshot::default() });
        [1, 2, 3].map(|place| number(&bench, &name(place)))
    };
    // 80 % of 1024 are 819.2; 2 * 820 = 1640, up to 2048, and an eighth and a half of it.
    assert_eq!(after(820, [128, 512, 1024]), [Some(256), Some(1024), Some(2048)]);
    assert_eq!(after(819, [128, 512, 1024]), [None; 3]);
    // What is larger already stays.
    assert_eq!(after(820, [300, 700, 1024]), [None, Some(1024), Some(2048)]);
    // Only the third was raised so far.
    assert_eq!(after(820, [128, 512, 2048]), [Some(256), Some(1024), None]);
}

#[test]
fn tracked_flows_get_half_as_much_room_again() {
    let (limit, buckets) = ("net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_buckets");
    let seen = |entries, chains| {
        let found = Conntrack { entries, statistics: table("chainlength", chains), ..Conntrack::default() };
        Snapshot { conntrack: Some(found), ..Snapshot::default() }
    };
    let after = |entries, running: [i64; 2], chains| {
        let mut bench = Bench::new(&[(limit, &[running[0]]), (buckets, &[running[1]])]);
        bench.see(0, seen(1, 0));
        bench.see(15, seen(entries, chains));
        [number(&bench, limit), number(&bench, buckets)]
    };
    // Three quarters of 262144 are 196608; 1.5 times that is 294912, up to 524288.
    assert_eq!(after(196_608, [262_144, 262_144], 0), [Some(524_288); 2]);
    assert_eq!(after(196_607, [262_144, 262_144], 0), [None; 2]);
    assert_eq!(after(1, [262_144, 65_536], 0), [None; 2]);
    assert_eq!(after(1, [262_144, 65_535], 0), [None, Some(262_144)]);
    assert_eq!(after(1, [262_144, 65_536], 1), [None, Some(262_144)]);
    // 384 bytes each in an eighth of 8 GiB: 2796202, down to 2097152.
    assert_eq!(after(2_000_000, [2_000_000, 2_000_000], 0), [Some(2_097_152); 2]);
    assert_eq!(after(2_097_152, [2_097_152, 2_097_152], 0), [None; 2]);
}

#[test]
fn strict_filters_of_several_ways_out_are_loosened() {
    let name = |device: &str| format!("net.ipv4.conf.{device}.rp_filter");
    let link = |name: &str, up| Link { name: name.into(), up, ..Link::default() };
    let after = |all: i64, drops, second_up| {
        let mut bench = Bench::new(&[]);
        for (device, value) in [("all", all), ("eth0", 1), ("eth1/5", 0), ("eth2", 1)] {
            bench.set(&name(device), Value::Numbers(vec![value]));
        }
        let devices = ["eth0", "eth1.5"];
        let routes =
            devices.map(|device| DeviceCount { device: device.into(), family: Family::V4, count: 1 });
        let links = vec![link("eth0", true), link("eth1.5", second_up), link("eth2", true)];
        bench.see(0, extended(&[("IPReversePathFilter", 1)]));
        bench.see(1, Snapshot { links: Some(links), routes: Some(routes.to_vec()), ..Snapshot::default() });
        bench.see(2, extended(&[("IPReversePathFilter", drops)]));
        ["all", "eth0", "eth1/5", "eth2"].map(|device| number(&bench, &name(device)))
    };
    // The larger of both counts; eth2 has no routes.
    assert_eq!(after(0, 2, true), [None, Some(2), None, None]);
    assert_eq!(after(1, 2, true), [None, Some(2), Some(2), None]);
    assert_eq!(after(2, 2, true), [None; 4]);
    assert_eq!(after(0, 1, true), [None; 4]);
    assert_eq!(after(0, 2, false), [None; 4]);
}
