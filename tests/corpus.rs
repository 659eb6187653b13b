//! Captures of many kernels, kept outside the project: each file is parsed, and
//! what must come of it is stated here.

use std::fs;
use std::path::{Path, PathBuf};

use nettune::catalogue::{CATALOGUE, Kind, Version};
use nettune::kernel::Malformed;
use nettune::read::*;

/// What must come of a file.
enum Expected {
    /// It parses, and this holds.
    Good(fn(&[u8]) -> Result<(), Malformed>),
    /// It is refused, at this line and item.
    Refused(fn(&[u8]) -> Result<(), Malformed>, usize, &'static str),
    /// Nothing of ours reads such a file.
    Unread,
}
use Expected::{Good, Refused, Unread};

fn pairs(bytes: &[u8]) -> Result<(), Malformed> {
    let counters = counters::parse_pairs(bytes)?;
    let tcp = counters.get("Tcp", "RetransSegs").or(counters.get("TcpExt", "ListenOverflows"));
    assert!(tcp.is_some(), "no TCP counters");
    Ok(())
}

fn lines6(bytes: &[u8]) -> Result<(), Malformed> {
    let counters = counters::parse_lines(bytes)?;
    for (group, name) in [("Ip6", "InReceives"), ("Icmp6", "InMsgs"), ("Udp6", "InDatagrams")] {
        assert!(counters.get(group, name).is_some(), "{group} {name}");
    }
    Ok(())
}

fn sockstats(bytes: &[u8]) -> Result<(), Malformed> {
    let sockstat = sockstat::parse(bytes)?;
    assert!(sockstat.get("TCP", "mem").or(sockstat.get("TCP6", "inuse")).is_some());
    Ok(())
}

fn softnets(bytes: &[u8]) -> Result<(), Malformed> {
    let cpus = softnet::parse(bytes, None)?;
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    assert!(cpus.len() == lines || cpus.len() == lines + 1);
    Ok(())
}

fn tables(bytes: &[u8]) -> Result<(), Malformed> {
    let statistics = statistics::parse(bytes)?;
    assert!(statistics.get("entries").is_some());
    Ok(())
}

fn nics(bytes: &[u8]) -> Result<(), Malformed> {
    let parsed = interrupts::parse(bytes, |_, _| true)?;
    let of = |device: &str| {
        let owner = interrupts::Owner { device: device.into(), ..Default::default() };
        parsed
            .interrupts
            .iter()
            .filter(|interrupt| owner.owns(interrupt.number, interrupt.actions.as_bytes()))
            .count()
    };
    let counted = [of("eth0"), of("eth1"), of("eth4"), of("eth5")];
    // One interrupt each on the old card; four queues and one more on the new.
    assert!([[1, 1, 0, 0], [1, 0, 5, 5]].contains(&counted), "{counted:?}");
    Ok(())
}

fn ethtool(bytes: &[u8]) -> Result<(), Malformed> {
    // None of these drivers has a counter of the documented list.
    assert_eq!(nic::parse_driver_counters(bytes), []);
    Ok(())
}

/// `sysctl -a`: every parameter of the catalogue that stands there is of the
/// kind the catalogue states.
fn sysctls(bytes: &[u8]) -> Result<(), Malformed> {
    let text = String::from_utf8_lossy(bytes);
    let mut known = 0;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(" =") else {
            continue;
        };
        let parameter = CATALOGUE.parameters.iter().find(|parameter| match parameter.name.split_once('*') {
            Some((before, after)) => name.starts_with(before) && name.ends_with(after),
            None => parameter.name == name,
        });
        let Some(parameter) = parameter else { continue };
        known += 1;
        let value = value.trim().as_bytes();
        let parsed = match parameter.kind {
            Kind::Int => sysctl::parse_numbers(value, 1).map(drop),
            Kind::Ints => sysctl::parse_numbers(value, parameter.fields.len()).map(drop),
            Kind::Text | Kind::Object => sysctl::parse_text(value).map(drop),
        };
        parsed.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(known > 40, "only {known} parameters of the catalogue");
    Ok(())
}

/// 420 connections of a 4.x kernel, whose tcp_info has 168 bytes. The sums are
/// those of another reading of the same bytes, by offset.
fn sockets(bytes: &[u8]) -> Result<(), Malformed> {
    let (mut count, mut rtt, mut min_rtt) = (0, 0, 0);
    connections::walk(bytes, |connection| {
        assert_eq!((connection.state, connection.has_owner), (connections::State::Established, true));
        count += 1;
        rtt += connection.attributes.info.and_then(|info| info.rtt).unwrap();
        min_rtt += connection.attributes.info.and_then(|info| info.min_rtt).unwrap();
    })?;
    assert_eq!((count, rtt, min_rtt), (420, 6_816_957, 5_892_885));
    Ok(())
}

/// What must come of the file at this path below the corpus.
fn expected(path: &str) -> Option<Expected> {
    let (folder, file) = path.split_once('/')?;
    let kind = file.split('.').next()?;
    Some(match (folder, kind, file) {
        ("proc_net", _, "netstat.retina-somecorrect-netstat1") => Refused(pairs, 2, "TcpExt"),
        ("proc_net", _, "netstat.retina-wrong-netstat") => Refused(pairs, 2, "Test"),
        ("proc_net", "netstat" | "snmp", _) | ("local-6.18", "netstat" | "snmp", _) => Good(pairs),
        ("proc_net" | "local-6.18", "snmp6", _) => Good(lines6),
        ("proc_net" | "local-6.18", "sockstat" | "sockstat6", _) => Good(sockstats),
        ("proc_net", _, "softnet_stat.procfs-broken") => Refused(softnets, 1, "columns"),
        // No kernel prints the number of the CPU in some lines and not in others.
        ("proc_net", _, "softnet_stat.procfs-mixed") => Refused(softnets, 1, "column 13"),
        ("proc_net" | "local-6.18", "softnet_stat", _) => Good(softnets),
        ("proc_net_stat", "rt_cache", _) | ("local-6.18", "stat_rt_cache" | "stat_synproxy", _) => Unread,
        ("proc_net_stat", _, _) => Good(tables),
        ("local-6.18", "stat_arp_cache" | "stat_ndisc_cache" | "stat_nf_conntrack", _) => Good(tables),
        ("interrupts", _, _) => Good(nics),
        ("ethtool", "ethtool-S", _) => Good(ethtool),
        ("sysctl-a", _, _) | ("local-6.18", "sysctl-a", _) => Good(sysctls),
        ("sock_diag", _, _) => Good(sockets),
        // Read over netlink instead: devices, sockets, rings, conntrack -S.
        ("proc_net" | "local-6.18", "dev" | "tcp", _) | ("ss" | "conntrack", _, _) => Unread,
        ("ethtool", "ethtool-g", _) | ("nstat", _, _) => Unread,
        ("local-6.18", "nstat-az", _) => Unread,
        ("sysctl", _, _) | ("sysctl.d", _, _) => Unread,
        _ => return None,
    })
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// The corpus, where it is; a loud line where it is not.
fn corpus() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path =
        std::env::var_os("NETTUNE_CORPUS").map_or_else(|| root.join("../shared/corpus"), PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    crate::support::skip(&format!(
        "no corpus at {} (NETTUNE_CORPUS); the project's own captures are tested",
        path.display()
    ));
    None
}

#[test]
fn every_file_is_as_expected() {
    let Some(corpus) = corpus() else { return };
    let mut found = Vec::new();
    files(&corpus, &mut found);
    assert!(found.len() > 120, "{} files in {}", found.len(), corpus.display());
    let mut wrong = Vec::new();
    let mut parsed = 0;
    for path in found {
        let name = path.strip_prefix(&corpus).unwrap().to_string_lossy().into_owned();
        if name == "INDEX.md" {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        match expected(&name) {
            None => wrong.push(format!("{name}: nothing is stated of it")),
            Some(Unread) => {}
            Some(Good(parse)) => {
                parsed += 1;
                if let Err(error) = parse(&bytes) {
                    wrong.push(format!("{name}: {error}"));
                }
            }
            Some(Refused(parse, line, item)) => match parse(&bytes) {
                Ok(()) => wrong.push(format!("{name}: was not refused")),
                Err(error) if (error.line, error.item.as_str()) == (line, item) => parsed += 1,
                Err(error) => wrong.push(format!("{name}: refused for another reason: {error}")),
            },
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 80, "only {parsed} files were parsed");
}

/// Figures of single files, read off them by eye.
#[test]
fn figures_are_the_files_own() {
    let Some(corpus) = corpus() else { return };
    let read = |name: &str| fs::read(corpus.join(name)).unwrap();

    let conntrack = statistics::parse(&read("proc_net_stat/nf_conntrack.goprocinfo-2.6")).unwrap();
    assert_eq!(conntrack.get("entries"), Some(0x46));

    let arp = statistics::parse(&read("proc_net_stat/arp_cache.procfs")).unwrap();
    assert_eq!((arp.get("allocs"), arp.get("table_fulls")), (Some(0x01 + 0x0d), Some(0x0c + 0x18)));

    let strange = softnet::parse(&read("proc_net/softnet_stat.netutils-strange-cpu"), None).unwrap();
    assert_eq!((strange[0].processed, strange[0].time_squeezed), (0xa4a1bcc9, 0x2052));
    assert_eq!(strange[0].received_rps, Some(0));
    assert_eq!(strange[0].flow_limit, None);

    let retina = counters::parse_pairs(&read("proc_net/netstat.retina-correct-netstat")).unwrap();
    assert_eq!(retina.get("TcpExt", "TW"), Some(1685));
    assert_eq!(retina.get("IpExt", "InOctets"), Some(7291961352));
}

/// Captures of `sysctl -a`: release, and the keys that somebody had set.
const HOSTS: &[(&str, &str, &[&str])] = &[
    (
        "centos79-elrepo-5.1",
        "5.1",
        &["somaxconn", "tcp_fin_timeout", "ip_forward", "tcp_keepalive_time", "tcp_keepalive_intvl"],
    ),
    ("ubuntu2004-5.15", "5.15", &["ip_forward"]),
    ("ubuntu2004-5.4-cephmon-container", "5.4", &["ip_forward"]),
    ("ubuntu2004-5.4-vault-container", "5.4", &["ip_forward"]),
    // kube-proxy sets close_wait; the charm of the cluster the thresholds.
    (
        "ubuntu2004-5.4-k8s",
        "5.4",
        &["ip_forward", "gc_thresh2", "gc_thresh3", "nf_conntrack_tcp_timeout_close_wait"],
    ),
    ("ubuntu2004-5.4-openstack", "5.4", &["ip_forward", "gc_thresh2", "gc_thresh3"]),
];

/// Stated defaults are what hosts of that release show for keys nobody set.
#[test]
fn defaults_are_those_of_other_hosts() {
    let Some(corpus) = corpus() else { return };
    for (host, release, set) in HOSTS {
        let text = fs::read(corpus.join(format!("sysctl-a/sysctl-a.{host}"))).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" ="))?;
            line.split_whitespace().map(|number| number.parse::<i64>().ok()).collect::<Option<Vec<_>>>()
        };
        let release = Version::parse(release).unwrap();
        let mut compared = 0;
        for parameter in &CATALOGUE.parameters {
            let row = parameter.default.iter().find(|row| row.holds_for(release));
            let stated = row.and_then(|row| row.values.clone().or(row.value.map(|value| vec![value])));
            let (Some(stated), Some(running)) = (stated, value(&parameter.name)) else { continue };
            let by_hand = set.contains(&parameter.name.rsplit('.').next().unwrap());
            assert_eq!(running == stated, !by_hand, "{} of {host}: {running:?}", parameter.name);
            compared += 1;
        }
        assert!(compared > 35, "{host}: only {compared}");
        // net/ipv4/tcp.c:tcp_init_mem, net/ipv4/udp.c:udp_init: 3/4, 1 and 3/2 of one number.
        for name in ["net.ipv4.tcp_mem", "net.ipv4.udp_mem"] {
            if let Some([low, pressure, high]) = value(name).as_deref() {
                assert_eq!((*low, *high), (pressure / 4 * 3, pressure / 4 * 3 * 2), "{name} of {host}");
            }
        }
    }
}
