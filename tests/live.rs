//! Against the running kernel: exported values are those that the standard
//! tools print at the same moment.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::exposition::{Samples, samples};
use crate::namespace::Namespace;
use crate::support::{Exporter, Scratch, skip};

/// A namespace with something to see: a pair of devices, a queue that drops,
/// tracked flows, an unresolved neighbour, datagrams nobody reads.
fn busy() -> Option<Namespace> {
    let namespace = Namespace::new()?;
    for line in [
        "ip link add eth0 type veth peer name eth0.100",
        "ip addr add 198.51.100.1/24 dev eth0 && ip link set eth0 up",
        "ip addr add 203.0.113.1/24 dev eth0.100 && ip link set eth0.100 up",
        "ip route add 192.0.2.0/24 nexthop via 198.51.100.2 dev eth0 nexthop via 203.0.113.2 dev eth0.100",
        "ip neigh add 198.51.100.9 lladdr 00:00:5e:00:53:01 dev eth0",
        "tc qdisc add dev eth0 root tbf rate 20kbit burst 2k limit 3000",
        "nft add table ip t && nft 'add chain ip t c { type filter hook output priority 0; }'",
        "nft add rule ip t c ct state new accept",
        "for i in 1 2 3 4 5 6 7 8 9; do head -c 900 /dev/zero > /dev/udp/198.51.100.9/9; done; true",
        "echo x > /dev/udp/198.51.100.77/9; for i in 1 2 3; do echo x > /dev/udp/127.0.0.1/9; done; true",
        "sysctl -qw net.core.somaxconn=512 net.ipv4.conf.eth0/100.rp_filter=2",
    ] {
        namespace.run(line);
    }
    Some(namespace)
}

/// Compares again and again, since counters move between two readings: the
/// exporter's must equal the tool's in some moment, for every series at once.
fn agree(what: &str, exporter: &Exporter, mut tool: impl FnMut() -> Samples) {
    let mut differences = Vec::new();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while std::time::Instant::now() < deadline {
        let before = samples(exporter.get("/metrics", &[]).text());
        let expected = tool();
        assert!(!expected.is_empty(), "{what}: the tool says nothing");
        differences = expected
            .iter()
            .filter(|(series, value)| before.get(*series) != Some(value))
            .map(|(series, value)| format!("{series}: tool {value}, exporter {:?}", before.get(series)))
            .collect();
        if differences.is_empty() {
            return;
        }
    }
    panic!("{what}:\n{}", differences.join("\n"));
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("the tool prints JSON")
}

/// The kernel's name behind each counter, as its help states it.
fn kernel_names(exposition: &str) -> BTreeMap<String, String> {
    let helps = exposition.lines().filter_map(|line| line.strip_prefix("# HELP "));
    let named = helps.filter_map(|line| {
        let (metric, help) = line.split_once(' ')?;
        let (_, name) = help.strip_suffix(").")?.rsplit_once('(')?;
        let plain = name.chars().all(|character| character.is_ascii_alphanumeric());
        let groups = ["TcpExt", "IpExt", "Tcp", "Udp", "Ip", "Icmp6"];
        let ours = plain && groups.iter().any(|group| name.starts_with(group));
        ours.then(|| (metric.to_owned(), name.to_owned()))
    });
    named.collect()
}

#[test]
fn counters_are_those_of_nstat() {
    let Some(namespace) = busy() else { return };
    let exporter = namespace.exporter(&["--collector.netstat.all"]);
    let text = exporter.get("/metrics", &[]).text().to_owned();
    let names = kernel_names(&text);
    assert!(names.len() > 90, "only {} counters name the kernel's", names.len());
    let series: Vec<_> = samples(&text).into_keys().collect();
    agree("nstat", &exporter, || {
        let nstat = json(&namespace.run("nstat -asz --json"));
        let value = |name: &str| nstat["kernel"][name].as_f64();
        let mut expected = Samples::new();
        for series in &series {
            let metric = series.split('{').next().unwrap();
            let kernel = if let Some(labels) = series.strip_prefix("nettune_netstat_total{group=\"") {
                let (group, rest) = labels.split_once("\",name=\"").unwrap();
                format!("{group}{}", rest.trim_end_matches("\"}"))
            } else if let Some(name) = names.get(metric) {
                let group = name.find(|character: char| character.is_lowercase()).unwrap_or(0);
                let end = name[group..].find(|character: char| character.is_uppercase()).unwrap() + group;
                match series.contains("family=\"ipv6\"") {
                    true => format!("{}6{}", &name[..end], &name[end..]),
                    false => name.clone(),
                }
            } else {
                continue;
            };
            match value(&kernel) {
                Some(value) => drop(expected.insert(series.clone(), value)),
                // nstat passes over gauges, and MPTcpExt where it is older.
                None => assert!(
                    kernel == "TcpCurrEstab" || kernel.starts_with("MPTcpExt"),
                    "nstat does not know {kernel} of {series}"
                ),
            }
        }
        expected
    });
}

#[test]
fn parameters_are_those_of_sysctl() {
    let Some(namespace) = busy() else { return };
    let exporter = namespace.exporter(&[]);
    let found = samples(exporter.get("/metrics", &[]).text());
    let mut compared = 0;
    let mut values: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for (series, value) in &found {
        if let Some(labels) = series.strip_prefix("nettune_sysctl_value{parameter=\"") {
            let (name, rest) = labels.split_once("\",field=\"").unwrap();
            values.entry(name).or_default().push((rest.trim_end_matches("\"}"), *value));
        }
    }
    for (name, fields) in values {
        // conntrack and time move between two readings.
        if name == "net.netfilter.nf_conntrack_count" {
            continue;
        }
        let printed = namespace.run(&format!("sysctl -n {name}"));
        let printed: Vec<f64> = printed.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let order = ["", "min", "low", "first", "default", "pressure", "max", "high", "last"];
        let mut fields = fields;
        fields.sort_by_key(|(field, _)| order.iter().position(|known| known == field));
        let exported: Vec<f64> = fields.iter().map(|(_, value)| *value).collect();
        assert_eq!(exported, printed, "{name}");
        compared += 1;
    }
    assert!(compared > 75, "only {compared} parameters");
    let text = format!(
        "nettune_sysctl_text_info{{parameter=\"net.ipv4.tcp_congestion_control\",value=\"{}\"}}",
        namespace.run("sysctl -n net.ipv4.tcp_congestion_control").trim()
    );
    assert!(found.contains_key(&text), "{text}");
}

#[test]
fn devices_are_those_of_ip() {
    let Some(namespace) = busy() else { return };
    let exporter = namespace.exporter(&[]);
    agree("ip -s link", &exporter, || {
        let links = json(&namespace.run("ip -s -s -j -d link show"));
        let mut expected = Samples::new();
        for link in links.as_array().unwrap() {
            let device = link["ifname"].as_str().unwrap();
            let statistics = &link["stats64"];
            let mut set = |metric: &str, value: &Value| {
                let series = format!("nettune_netdev_{metric}{{device=\"{device}\"}}");
                expected.insert(
                    series,
                    value.as_f64().unwrap_or_else(|| panic!("{metric} of {device}: {value}")),
                );
            };
            for (ours, direction) in [("received", "rx"), ("transmitted", "tx")] {
                for figure in ["packets", "bytes", "errors", "dropped"] {
                    set(&format!("{ours}_{figure}_total"), &statistics[direction][figure]);
                }
            }
            set("received_missed_total", &statistics["rx"]["missed_errors"]);
            set("received_fifo_total", &statistics["rx"]["fifo_errors"]);
            set("received_multicast_total", &statistics["rx"]["multicast"]);
            set("collisions_total", &statistics["tx"]["collisions"]);
            set("carrier_changes_total", &statistics["tx"]["carrier_changes"]);
            set("mtu_bytes", &link["mtu"]);
            set("transmit_queue_length", &link["txqlen"]);
        }
        expected
    });
    agree("ip address and ip route", &exporter, || {
        let mut expected = Samples::new();
        for link in json(&namespace.run("ip -j address show")).as_array().unwrap() {
            for address in link["addr_info"].as_array().unwrap() {
                let family = if address["family"] == "inet" { "ipv4" } else { "ipv6" };
                let device = link["ifname"].as_str().unwrap();
                let series = format!("nettune_netdev_addresses{{device=\"{device}\",family=\"{family}\"}}");
                *expected.entry(series).or_default() += 1.0;
            }
        }
        for (flag, family) in [("-4", "ipv4"), ("-6", "ipv6")] {
            let routes = json(&namespace.run(&format!("ip -j {flag} route show table all type unicast")));
            for route in routes.as_array().unwrap() {
                let hops = route["nexthops"].as_array().map_or(vec![route], |hops| hops.iter().collect());
                for hop in hops {
                    let device = hop["dev"].as_str().unwrap();
                    let series = format!("nettune_netdev_routes{{device=\"{device}\",family=\"{family}\"}}");
                    *expected.entry(series).or_default() += 1.0;
                }
            }
        }
        expected
    });
}

#[test]
fn queueing_disciplines_are_those_of_tc() {
    let Some(namespace) = busy() else { return };
    let exporter = namespace.exporter(&[]);
    agree("tc -s qdisc", &exporter, || {
        let mut expected = Samples::new();
        for qdisc in json(&namespace.run("tc -s -j qdisc show")).as_array().unwrap() {
            let (device, kind) = (qdisc["dev"].as_str().unwrap(), qdisc["kind"].as_str().unwrap());
            let labels = format!("{{device=\"{device}\",kind=\"{kind}\",place=\"root\"}}");
            for (ours, theirs) in [
                ("sent_bytes_total", "bytes"),
                ("sent_packets_total", "packets"),
                ("drops_total", "drops"),
                ("overlimits_total", "overlimits"),
                ("requeues_total", "requeues"),
                ("backlog_bytes", "backlog"),
                ("backlog_packets", "qlen"),
            ] {
                expected.insert(format!("nettune_qdisc_{ours}{labels}"), qdisc[theirs].as_f64().unwrap());
            }
        }
        expected
    });
    let found = samples(exporter.get("/metrics", &[]).text());
    assert!(found["nettune_qdisc_drops_total{device=\"eth0\",kind=\"tbf\",place=\"root\"}"] > 0.0);
    assert!(found.contains_key("nettune_qdisc_drops_total{device=\"lo\",kind=\"noqueue\",place=\"root\"}"));
}

#[test]
fn leaves_are_summed_below_their_root() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.run("ip link add eth0 numtxqueues 4 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up");
    namespace.run("tc qdisc replace dev eth0 root handle 1: mq");
    for queue in 1..=4 {
        namespace.run(&format!("tc qdisc replace dev eth0 parent 1:{queue} pfifo limit 10"));
    }
    let exporter = namespace.exporter(&[]);
    let found = samples(exporter.get("/metrics", &[]).text());
    assert_eq!(found["nettune_qdisc_instances{device=\"eth0\",kind=\"mq\",place=\"root\"}"], 1.0);
    assert_eq!(found["nettune_qdisc_instances{device=\"eth0\",kind=\"pfifo\",place=\"leaf\"}"], 4.0);
}

/// Sums of `conntrack -S`, which prints a line a CPU.
fn conntrack_sums(namespace: &Namespace) -> Samples {
    let mut sums = Samples::new();
    let names = [
        ("found", "found_total"),
        ("invalid", "invalid_total"),
        ("insert_failed", "insert_failed_total"),
        ("drop", "drops_total"),
        ("early_drop", "early_drops_total"),
        ("search_restart", "search_restarts_total"),
        ("clash_resolve", "clashes_resolved_total"),
        ("chaintoolong", "chain_too_long_total"),
    ];
    for pair in namespace.run("conntrack -S").split_whitespace() {
        let Some((name, value)) = pair.split_once('=') else { continue };
        if let Some((_, ours)) = names.iter().find(|(theirs, _)| *theirs == name) {
            *sums.entry(format!("nettune_conntrack_{ours}")).or_default() += value.parse::<f64>().unwrap();
        }
    }
    let count: f64 = namespace.run("conntrack -C").trim().parse().unwrap();
    sums.insert("nettune_conntrack_entries".into(), count);
    sums
}

#[test]
fn tracked_flows_are_those_of_conntrack_by_either_way() {
    let Some(namespace) = busy() else { return };
    let by_file = namespace.exporter(&[]);
    agree("conntrack -S", &by_file, || conntrack_sums(&namespace));
    drop(by_file);
    // A procfs without the file: the kernel built without CONFIG_NF_CONNTRACK_PROCFS.
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("net")).unwrap();
    for name in ["sys", "stat", "meminfo"] {
        std::os::unix::fs::symlink(format!("/proc/{name}"), scratch.path(name)).unwrap();
    }
    let by_netlink = namespace.exporter(&[&format!("--path.procfs={}", scratch.path("").display())]);
    agree("conntrack -S over ctnetlink", &by_netlink, || conntrack_sums(&namespace));
}

#[test]
fn neighbours_are_those_of_ip() {
    let Some(namespace) = busy() else { return };
    let exporter = namespace.exporter(&[]);
    agree("ip neighbour", &exporter, || {
        let mut expected = Samples::new();
        for (flag, family) in [("-4", "ipv4"), ("-6", "ipv6")] {
            for state in ["permanent", "incomplete", "failed", "stale", "reachable"] {
                let series =
                    format!("nettune_neighbour_entries_by_state{{family=\"{family}\",state=\"{state}\"}}");
                let listed = json(&namespace.run(&format!("ip -j {flag} neighbour show nud {state}")));
                expected.insert(series, listed.as_array().unwrap().len() as f64);
            }
        }
        expected
    });
}

/// Rings and channels of the machine's own cards, which live in the initial
/// namespace.
#[test]
fn rings_are_those_of_ethtool() {
    let exporter = Exporter::start(&[]);
    let found = samples(exporter.get("/metrics", &[]).text());
    let rings =
        found.keys().filter_map(|series| series.strip_prefix("nettune_nic_ring_descriptors{device=\""));
    let devices: std::collections::BTreeSet<_> =
        rings.filter_map(|labels| labels.split('"').next()).collect();
    if devices.is_empty() {
        skip("no device of this machine has rings; they are tested by fixture");
    }
    for device in devices {
        let output = Command::new("ethtool").args(["-g", device]).output().expect("ethtool is there");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (maximum, current) = text.split_once("Current hardware settings").unwrap();
        for (part, metric) in
            [(maximum, "nettune_nic_ring_descriptors_limit"), (current, "nettune_nic_ring_descriptors")]
        {
            for (title, kind) in [("RX:", "rx"), ("TX:", "tx")] {
                let line = part.lines().find_map(|line| line.strip_prefix(title)).unwrap();
                let series = format!("{metric}{{device=\"{device}\",kind=\"{kind}\"}}");
                assert_eq!(found.get(&series).copied(), line.trim().parse().ok(), "{series}");
            }
        }
    }
}

/// A container's device may be called as one of the host's, and see the host's
/// sysfs: nothing of the host's device must be shown as its own.
#[test]
fn hardware_of_another_namespace_is_not_shown_as_ours() {
    let Some(namespace) = Namespace::new() else { return };
    let host = samples(Exporter::start(&[]).get("/metrics", &[]).text());
    let served =
        host.keys().find_map(|series| series.strip_prefix("nettune_nic_interrupt_vectors{device=\""));
    let Some(device) = served.and_then(|labels| labels.split('"').next()) else {
        return skip("no device of this machine has interrupts of its own");
    };
    namespace.run(&format!("ip link add {device} type veth peer name other && ip link set {device} up"));
    // nsenter keeps the mounts, where `ip netns exec` would mount sysfs anew.
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", namespace.name()));
    command.args([env!("CARGO_BIN_EXE_nettune"), "--web.listen-address=127.0.0.1:0"]);
    command.arg(format!("--web.listen-address=unix:{}", namespace.socket().display()));
    let exporter = Exporter::launch(command);
    let found = samples(exporter.addresses()[1].get("/metrics", &[]).text());
    assert!(found.contains_key(&format!("nettune_netdev_info{{device=\"{device}\",kind=\"veth\"}}")));
    let foreign = found.keys().filter(|series| {
        let hardware = ["nettune_nic_interrupt", "nettune_nic_rps", "nettune_nic_xps", "nettune_nic_driver"];
        series.contains(&format!("device=\"{device}\""))
            && hardware.iter().any(|name| series.starts_with(name))
    });
    assert_eq!(foreign.collect::<Vec<_>>(), [""; 0]);
}

/// A route by several hops is one route for each device, however many hops.
#[test]
fn routes_are_counted_once_a_device() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.run(
        "ip link add eth0 mtu 1500 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up",
    );
    namespace.run("ip addr add 198.51.100.1/24 dev eth0");
    namespace.run("ip route add 203.0.113.0/24 via 198.51.100.2 dev eth0");
    namespace
        .run("ip route add 192.0.2.0/24 nexthop via 198.51.100.2 dev eth0 nexthop via 198.51.100.3 dev eth0");
    let exporter = namespace.exporter(&[]);
    let found = samples(exporter.get("/metrics", &[]).text());
    // The subnet, the route, and the one of two hops by the same device.
    assert_eq!(found["nettune_netdev_routes{device=\"eth0\",family=\"ipv4\"}"], 3.0);
}
