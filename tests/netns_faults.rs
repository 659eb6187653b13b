//! What diagnoses need of other network namespaces, read from outside, beside what `ss`,
//! `ip` and `tc` print inside; and faults of reading one that leave the others alone.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::exposition::Samples;
use crate::listeners::{connect, listen};
use crate::namespace::Namespace;
use crate::netns::{QUICK, at, exporter, of, until};
use crate::series::assert_bounded;
use crate::support::{Exporter, Scratch, nettune};
use crate::udp;

/// The same series, of a namespace.
pub(crate) fn within(series: &str, namespace: &Namespace) -> String {
    let netns = format!("netns=\"{}\"}}", namespace.name());
    match series.strip_suffix('}') {
        Some(labels) => format!("{labels},{netns}"),
        None => format!("{series}{{{netns}"),
    }
}

fn value(found: &Samples, series: &str, namespace: &Namespace) -> Option<f64> {
    found.get(&within(series, namespace)).copied()
}

#[test]
fn datagrams_dropped_elsewhere_have_their_socket_and_what_bounds_it() {
    let (Some(namespace), Some(quiet)) = (Namespace::new(), Namespace::new()) else { return };
    let max: usize = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap().trim().parse().unwrap();
    let sockets = namespace.inside(|| {
        let sockets = [udp::open(9001, None), udp::open(9002, Some(50_000)), udp::open(9003, Some(4 * max))];
        udp::send(&sockets[2], 9001, 2000);
        udp::send(&sockets[2], 9002, 60);
        sockets
    });
    let beside = quiet.inside(|| udp::open(9001, None));
    let exporter = exporter(&[&namespace, &quiet].map(Namespace::name).join(","));
    let expected = udp::printed_by_ss(&namespace);
    assert_eq!(expected.len(), 3 * 4);
    let found = until(&exporter, "sockets are as ss prints them", |found| {
        let mut all =
            expected.iter().map(|(series, printed)| (value(found, series, &namespace), Some(*printed)));
        all.all(|(found, printed)| found == printed)
            && found.contains_key(&within(&udp::of("sockets", 9001), &quiet))
    });
    for (port, expected) in [(9001, "default"), (9002, "application"), (9003, "rmem_max")] {
        let given = ["default", "rmem_max", "application"].map(|cause| udp::cause(port, cause));
        let given: Vec<_> =
            given.into_iter().filter(|series| value(&found, series, &namespace).is_some()).collect();
        assert_eq!(given, [udp::cause(port, expected)]);
    }
    let drops = |port| value(&found, &udp::of("socket_drops_total", port), &namespace).unwrap();
    let errors = value(&found, "nettune_udp_receive_buffer_errors_total{family=\"ipv4\"}", &namespace);
    assert!(drops(9001) > 1000.0 && drops(9002) > 0.0);
    assert_eq!(Some(drops(9001) + drops(9002)), errors, "the kernel counts both together");
    assert_eq!(value(&found, &udp::of("socket_drops_total", 9001), &quiet), Some(0.0));
    [&namespace, &quiet].iter().for_each(|one| assert_bounded(&found, one.name()));
    drop((sockets, beside));
}

#[test]
fn a_parameter_changed_elsewhere_has_its_way_back() {
    let (Some(namespace), Some(beside)) = (Namespace::new(), Namespace::new()) else { return };
    for one in [&namespace, &beside] {
        one.sysctl("net.core.somaxconn", "41");
        one.sysctl("net.ipv4.ip_local_reserved_ports", "8080");
    }
    let listener = namespace.inside(|| listen(at(9001), 1000));
    let exporter = exporter(&[&namespace, &beside].map(Namespace::name).join(","));
    let somaxconn =
        |metric: &str| format!("nettune_sysctl_{metric}{{parameter=\"net.core.somaxconn\",field=\"\"}}");
    let limit = |cause: &str| {
        format!("nettune_listener_limited_by{{address=\"127.0.0.1\",port=\"9001\",cause=\"{cause}\"}}")
    };
    let changes = |found: &Samples| {
        let of_change = ["nettune_sysctl_previous", "nettune_sysctl_last_change"];
        found
            .keys()
            .filter(|series| of_change.iter().any(|name| series.starts_with(name)))
            .cloned()
            .collect::<Vec<_>>()
    };
    let found = until(&exporter, "as they are", |found| {
        value(found, &limit("somaxconn"), &namespace) == Some(1.0)
            && value(found, &somaxconn("value"), &beside) == Some(41.0)
    });
    assert_eq!(changes(&found), [""; 0]);

    // To what is ours as well, so that it would not be shown for being another.
    let ours = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let before = now();
    namespace.sysctl("net.core.somaxconn", ours.trim());
    namespace.sysctl("net.ipv4.ip_local_reserved_ports", "9000-9002");
    let text = |value: &str| {
        format!(
            "nettune_sysctl_previous_text_info{{parameter=\"net.ipv4.ip_local_reserved_ports\",value=\"{value}\"}}"
        )
    };
    let found = until(&exporter, "both changes", |found| {
        value(found, &somaxconn("previous_value"), &namespace) == Some(41.0)
            && value(found, &text("8080"), &namespace) == Some(1.0)
            && value(found, &limit("older_somaxconn"), &namespace) == Some(1.0)
    });
    assert_eq!(value(&found, &somaxconn("value"), &namespace), Some(ours.trim().parse().unwrap()));
    let at = "nettune_sysctl_last_change_timestamp_seconds{parameter=\"net.core.somaxconn\"}";
    let at = value(&found, at, &namespace).unwrap();
    // In whole milliseconds.
    assert!(before - 0.001 <= at && at <= now(), "{before} {at}");
    // Two changes: when, and the value before; of this namespace alone.
    let changes = changes(&found);
    let label = format!("netns=\"{}\"", namespace.name());
    assert!(changes.len() == 4 && changes.iter().all(|series| series.contains(&label)), "{changes:?}");
    assert_bounded(&found, namespace.name());
    let line = exporter.wait_for_log("net.core.somaxconn: 41 → ");
    assert!(line.contains(namespace.name()), "{line}");
    drop(listener);
}

/// Two pairs of devices between two namespaces; one side filters by reverse path, the
/// other sends more than its queue takes.
#[test]
fn devices_elsewhere_show_what_they_drop_and_why() {
    let (Some(sender), Some(guard)) = (Namespace::new(), Namespace::new()) else { return };
    // Which would send of its own accord.
    [&sender, &guard].iter().for_each(|one| one.sysctl("net.ipv6.conf.default.disable_ipv6", "1"));
    for number in [1, 2] {
        let peer = format!("peer name g{number} address 02:00:00:00:00:0{number}");
        sender.run(&format!("ip link add s{number} type veth {peer}"));
        sender.run(&format!("ip link set g{number} netns '{}'", guard.name()));
        for (side, last, device) in [(&sender, 1, "s"), (&guard, 2, "g")] {
            let device = format!("{device}{number}");
            side.run(&format!("ip addr add 10.0.{number}.{last}/24 dev {device} && ip link set {device} up"));
        }
        // The filter refuses to answer who asks from the other network.
        let neighbour = format!("10.0.{number}.2 lladdr 02:00:00:00:00:0{number}");
        sender.run(&format!("ip neigh add {neighbour} dev s{number} nud permanent"));
    }
    guard.run("ip link add down1 type veth peer name down2");
    guard.sysctl("net.ipv4.conf.all.rp_filter", "0");
    guard.sysctl("net.ipv4.conf.g1.rp_filter", "1");
    guard.run("ip neigh add 10.0.2.77 lladdr 02:00:00:00:00:77 dev g2 nud permanent");
    sender.run("tc qdisc add dev s2 root tbf rate 8kbit burst 2000 latency 1ms");
    sender.inside(|| {
        let send = |from: Ipv4Addr, to: Ipv4Addr| {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            // What a queue drops may be told to who sends.
            (0..50).for_each(|_| drop(socket.send_to(&[0; 900], (to, 9))));
        };
        // The way back from g1 would be g2.
        send(Ipv4Addr::new(10, 0, 2, 1), Ipv4Addr::new(10, 0, 1, 2));
        send(Ipv4Addr::new(10, 0, 2, 1), Ipv4Addr::new(10, 0, 2, 2));
    });
    let printed = guard.run("nstat -asz TcpExtIPReversePathFilter | tail -1");
    let dropped: f64 = printed.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(dropped > 0.0, "{printed}");
    let printed = sender.run("tc -s qdisc show dev s2");
    let queue_dropped =
        printed.split_once("(dropped ").unwrap().1.split(',').next().unwrap().parse().unwrap();
    assert!(queue_dropped > 0.0, "{printed}");

    let exporter = exporter(&[&sender, &guard].map(Namespace::name).join(","));
    let found = until(&exporter, "both", |found| {
        [&sender, &guard].iter().all(|one| of(found, "nettune_ip_reverse_path_drops_total", one).is_some())
    });
    let filtered = |one| of(&found, "nettune_ip_reverse_path_drops_total", one);
    assert_eq!((filtered(&guard), filtered(&sender)), (Some(dropped), Some(0.0)));
    let filter = "nettune_sysctl_value{parameter=\"net.ipv4.conf.g1.rp_filter\",field=\"\"}";
    assert_eq!(value(&found, filter, &guard), Some(1.0));
    for (device, up) in [("g1", 1.0), ("g2", 1.0), ("down1", 0.0)] {
        assert_eq!(
            value(&found, &format!("nettune_netdev_up{{device=\"{device}\"}}"), &guard),
            Some(up),
            "{device}"
        );
    }
    let routes = |one: &Namespace| -> Vec<String> {
        let own = format!("netns=\"{}\"", one.name());
        let routes = found
            .keys()
            .filter(|series| series.starts_with("nettune_netdev_routes{") && series.contains(&own));
        routes.cloned().collect()
    };
    let of_g1 = "nettune_netdev_routes{device=\"g1\",family=\"ipv4\"}";
    let printed = guard.run("ip -4 -o route show table all type unicast dev g1").lines().count();
    assert_eq!(value(&found, of_g1, &guard), Some(printed as f64));
    assert_eq!(routes(&sender), [""; 0], "nobody asks for them");
    let queue = |metric: &str, kind: &str| {
        format!("nettune_qdisc_{metric}{{device=\"s2\",kind=\"{kind}\",place=\"root\"}}")
    };
    assert_eq!(value(&found, &queue("drops_total", "tbf"), &sender), Some(queue_dropped));
    assert_eq!(value(&found, &queue("instances", "tbf"), &sender), Some(1.0));
    let permanent = "nettune_neighbour_entries_by_state{family=\"ipv4\",state=\"permanent\"}";
    assert_eq!((value(&found, permanent, &guard), value(&found, permanent, &sender)), (Some(1.0), Some(2.0)));
    [&sender, &guard].iter().for_each(|one| assert_bounded(&found, one.name()));
}

/// An exporter whose mounts are its own.
fn apart(netns: &str) -> Exporter {
    let program = nettune(&[]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation=private"]).arg(program.get_program());
    command.args(["--web.listen-address=127.0.0.1:0", "--netns", netns]).args(QUICK);
    let exporter = Exporter::launch(command);
    exporter.wait_until_ready();
    exporter
}

#[test]
fn what_cannot_be_read_in_one_namespace_is_told_and_empties_nothing_else() {
    let (Some(broken), Some(sound)) = (Namespace::new(), Namespace::new()) else { return };
    for one in [&broken, &sound] {
        one.sysctl("net.core.somaxconn", "41");
    }
    let queues: Vec<_> =
        [&broken, &sound].iter().map(|one| one.inside(|| (listen(at(9001), 2), connect(9001, 9)))).collect();
    let exporter = apart(&[&broken, &sound].map(Namespace::name).join(","));
    let value_of = |found: &Samples, one: &Namespace| {
        value(found, "nettune_sysctl_value{parameter=\"net.core.somaxconn\",field=\"\"}", one)
    };
    let cause = "nettune_listener_limited_by{address=\"127.0.0.1\",port=\"9001\",cause=\"application\"}";
    let fill = "nettune_listener_accept_queue_fill_ratio{address=\"127.0.0.1\",port=\"9001\"}";
    let good = |found: &Samples, one: &Namespace| {
        value_of(found, one) == Some(41.0) && value(found, cause, one) == Some(1.0)
    };
    // What nettune_collector_success has of namespaces.
    let failed = |found: &Samples| -> Vec<String> {
        let of_others =
            |series: &&String| series.starts_with("nettune_collector_success{") && series.contains("netns=");
        let failed = found.iter().filter(|(series, value)| of_others(series) && **value == 0.0);
        failed.map(|(series, _)| series.clone()).collect()
    };
    let found = until(&exporter, "both are read", |found| good(found, &broken) && good(found, &sound));
    assert_eq!(failed(&found), [""; 0]);

    // A key of this namespace alone, as the exporter's mounts show it.
    let scratch = Scratch::new();
    std::fs::write(scratch.path("garbled"), "forty-one\n").unwrap();
    let inside = |line: &str| {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", exporter.pid()));
        command.arg(format!("--net=/run/netns/{}", broken.name())).args(["sh", "-c", line]);
        assert!(command.status().unwrap().success(), "{line}");
    };
    inside(&format!("mount --bind '{}' /proc/sys/net/core/somaxconn", scratch.path("garbled").display()));
    let expected = ["listener", "sysctl"]
        .map(|source| within(&format!("nettune_collector_success{{collector=\"{source}\"}}"), &broken));
    let found = until(&exporter, "the fault is told", |found| failed(found) == expected);
    // Without it everything else is there, in this namespace too.
    assert!(good(&found, &sound), "the other one is whole");
    assert_eq!((value_of(&found, &broken), value(&found, cause, &broken)), (None, None));
    assert_eq!(value(&found, fill, &broken), Some(1.0));
    for one in [&broken, &sound] {
        assert!(of(&found, "nettune_tcp_listen_overflows_total", one).unwrap() > 0.0);
        assert!(of(&found, "nettune_netns_age_seconds", one).unwrap() < 10.0);
    }
    assert_eq!(found["nettune_netns_not_entered{reason=\"failed\"}"], 0.0);
    for source in ["sysctl", "listener"] {
        assert_eq!(found[&format!("nettune_collector_success{{collector=\"{source}\"}}")], 1.0, "ours");
    }
    let line = exporter.wait_for_log("failed: /proc/sys/net/core/somaxconn: ");
    assert!(line.contains(broken.name()) && line.contains("forty-one"), "{line}");

    inside("umount /proc/sys/net/core/somaxconn");
    until(&exporter, "it is read again", |found| failed(found).is_empty() && good(found, &broken));
    // Once each way, however often it was met.
    let log = exporter.log();
    assert_eq!(log.matches("failed: ").count(), 2, "{log}");
    drop(queues);
}
