//! What a scrape costs, beside Debian's node_exporter with its matching
//! collectors on, in one run: prints the tables of docs/performance.md.
//!
//! CPU is the processes' own user and system time over all rounds, so a busy
//! machine disturbs both alike; what counts is the ratio.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Server, scrape};
use nettune::catalogue::{CATALOGUE, Kind};

const ROUNDS: usize = 400;

/// What one server was seen to cost.
struct Cost {
    cpu_per_scrape: f64,
    median: Duration,
    p99: Duration,
    resident: u64,
    peak: u64,
    series: usize,
}

/// Scrapes all servers in turn, so that whatever else the machine does falls on
/// each alike.
fn measure(servers: &[&Server]) -> Vec<Cost> {
    let mut connections: Vec<_> = servers.iter().map(|server| server.connect()).collect();
    let series: Vec<_> = connections
        .iter_mut()
        .map(|connection| {
            let body = String::from_utf8(scrape(connection, "identity")).unwrap();
            body.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
        })
        .collect();
    for connection in &mut connections {
        (0..20).for_each(|_| drop(scrape(connection, "gzip")));
    }
    let before: Vec<_> = servers.iter().map(|server| server.cpu()).collect();
    let mut times = vec![Vec::with_capacity(ROUNDS); servers.len()];
    for _ in 0..ROUNDS {
        for (connection, times) in connections.iter_mut().zip(&mut times) {
            let started = Instant::now();
            scrape(connection, "gzip");
            times.push(started.elapsed());
        }
    }
    let costs = servers.iter().zip(before).zip(times).zip(series);
    costs
        .map(|(((server, before), mut times), series)| {
            times.sort_unstable();
            let (resident, peak) = server.memory();
            Cost {
                cpu_per_scrape: (server.cpu() - before) / ROUNDS as f64,
                median: times[ROUNDS / 2],
                p99: times[ROUNDS * 99 / 100],
                resident,
                peak,
                series,
            }
        })
        .collect()
}

/// Sources that none of node_exporter's collectors named below reads.
const WITHOUT_MATCH: [&str; 11] = [
    "host",
    "listener",
    "connection",
    "softirqs",
    "cpu",
    "interrupts",
    "steering",
    "route",
    "persisted",
    "process",
    "udp",
];

/// Starts ours with every source, ours with the sources that have a match, and
/// theirs; prints what each costs.
fn compare(title: &str, ours: &[String], theirs: &[String]) {
    let program = env!("CARGO_BIN_EXE_nettune");
    let matched: Vec<_> =
        ours.iter().cloned().chain(WITHOUT_MATCH.map(|name| format!("--no-collector.{name}"))).collect();
    let servers = [
        Server::start(program, ours),
        Server::start(program, &matched),
        Server::start("prometheus-node-exporter", theirs),
    ];
    let costs = measure(&servers.each_ref());
    let [ours, matched, theirs] = &costs[..] else { unreachable!("three servers, three costs") };
    println!("\n### {title}\n");
    println!(
        "| | nettune, every source | nettune, matching sources | node_exporter | ratio, every | ratio, matching |"
    );
    println!("|---|---|---|---|---|---|");
    let row = |name: &str, unit: &str, figure: fn(&Cost) -> f64| {
        let [a, b, c] = [ours, matched, theirs].map(figure);
        println!("| {name} | {a:.2} {unit} | {b:.2} {unit} | {c:.2} {unit} | {:.2} | {:.2} |", a / c, b / c);
    };
    row("CPU per scrape", "ms", |cost| cost.cpu_per_scrape * 1e3);
    row("time of a scrape, median", "ms", |cost| cost.median.as_secs_f64() * 1e3);
    row("time of a scrape, p99", "ms", |cost| cost.p99.as_secs_f64() * 1e3);
    row("resident memory", "MiB", |cost| cost.resident as f64 / 1024.0);
    row("resident memory, peak", "MiB", |cost| cost.peak as f64 / 1024.0);
    println!("| series | {} | {} | {} | | |", ours.series, matched.series, theirs.series);
}

/// node_exporter's collectors that read what we read, with the same sysctl keys.
fn matching_collectors(procfs: &Path) -> Vec<String> {
    let mut flags = vec!["--collector.disable-defaults".to_owned()];
    let collectors = [
        "netstat",
        "sockstat",
        "softnet",
        "netdev",
        "netclass",
        "conntrack",
        "arp",
        "qdisc",
        "ethtool",
        "sysctl",
    ];
    flags.extend(collectors.map(|name| format!("--collector.{name}")));
    for parameter in &CATALOGUE.parameters {
        let Some(path) = parameter.path() else { continue };
        if path.contains('*') || !procfs.join("sys").join(path).exists() {
            continue;
        }
        let flag = if parameter.kind == Kind::Text { "include-info" } else { "include" };
        let fields = match parameter.fields.as_slice() {
            [] => String::new(),
            fields => format!(":{}", fields.join(",")),
        };
        flags.push(format!("--collector.sysctl.{flag}={}{fields}", parameter.name));
    }
    flags
}

/// A copy of this host's files as a host of `cpus` CPUs with a card of `queues`
/// queues would show them.
fn scaled_host(cpus: usize, queues: usize) -> PathBuf {
    let root = std::env::temp_dir().join(format!("nettune-bench-{}", std::process::id()));
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/6.18-host");
    let copied = Command::new("cp").arg("-a").arg(&fixture).arg(&root).status().unwrap();
    assert!(copied.success());
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let softnet = |cpu: usize| {
        format!(
            "0123abcd 00000000 00000012 {}00000034 00000000 00000000 {cpu:08x} 00000000 00000000\n",
            "00000000 ".repeat(6)
        )
    };
    write("proc/net/softnet_stat", &(0..cpus).map(softnet).collect::<String>());
    let time = |cpu: usize| format!("cpu{cpu} 123456 789 98765 123456789 1234 0 45678 910 0 0\n");
    write(
        "proc/stat",
        &format!("cpu  1 2 3 4 5 6 7 8 9 10\n{}btime 1764000000\n", (0..cpus).map(time).collect::<String>()),
    );
    let header: String = (0..cpus).map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
    let row = |name: &str, tail: &str| format!("{name}{}{tail}\n", "    1234567".repeat(cpus));
    let softirqs =
        ["HI:", "TIMER:", "NET_TX:", "NET_RX:", "BLOCK:", "TASKLET:", "SCHED:", "HRTIMER:", "RCU:"];
    write("proc/softirqs", &format!("{header}\n{}", softirqs.map(|name| row(name, "")).concat()));
    let vectors = (0..queues + cpus).map(|number| {
        let action = if number < queues { format!("eth0-TxRx-{number}") } else { format!("nvme0q{number}") };
        row(&format!("{:>5}:", 100 + number), &format!("  PCI-MSI {number}-edge      {action}"))
    });
    write("proc/interrupts", &format!("{header}\n{}", vectors.collect::<String>()));
    write("sys/devices/system/cpu/online", &format!("0-{}\n", cpus - 1));
    for queue in 0..queues {
        let mask = format!("{:08x}", 1u32 << (queue % 32));
        write(&format!("sys/class/net/eth0/queues/rx-{queue}/rps_cpus"), &format!("{mask}\n"));
        write(&format!("sys/class/net/eth0/queues/rx-{queue}/rps_flow_cnt"), "4096\n");
        write(&format!("sys/class/net/eth0/queues/tx-{queue}/xps_cpus"), &format!("{mask}\n"));
    }
    // Netlink is asked of the running kernel: its devices must be these.
    for device in ["eth0", "lo"] {
        for file in ["ifindex", "address"] {
            let live = fs::read_to_string(format!("/sys/class/net/{device}/{file}")).unwrap_or_default();
            write(&format!("sys/class/net/{device}/{file}"), &live);
        }
    }
    // What node_exporter reads besides.
    for device in ["eth0", "lo"] {
        for (file, text) in [
            ("addr_assign_type", "0"),
            ("addr_len", "6"),
            ("broadcast", "ff:ff:ff:ff:ff:ff"),
            ("carrier", "1"),
            ("carrier_changes", "2"),
            ("carrier_up_count", "1"),
            ("carrier_down_count", "1"),
            ("dev_id", "0x0"),
            ("dormant", "0"),
            ("duplex", "full"),
            ("flags", "0x1003"),
            ("ifalias", ""),
            ("iflink", "2"),
            ("link_mode", "0"),
            ("mtu", "1500"),
            ("name_assign_type", "4"),
            ("netdev_group", "0"),
            ("operstate", "up"),
            ("tx_queue_len", "1000"),
            ("type", "1"),
        ] {
            write(&format!("sys/class/net/{device}/{file}"), &format!("{text}\n"));
        }
    }
    write(
        "proc/net/arp",
        "IP address       HW type     Flags       HW address            Mask     Device\n192.0.2.1        0x1         0x2         00:00:5e:00:53:02     *        eth0\n",
    );
    root
}

fn main() {
    let program = env!("CARGO_BIN_EXE_nettune");
    let size = fs::metadata(program).unwrap().len();
    println!("stripped binary: {:.2} MiB", size as f64 / f64::from(1 << 20));
    println!("rounds: {ROUNDS}, both scraped in turn as Prometheus does (OpenMetrics, gzip, keep-alive)");

    compare("This host", &[], &matching_collectors(Path::new("/proc")));

    let root = scaled_host(128, 64);
    let paths = ["proc", "sys"].map(|name| format!("--path.{name}fs={}", root.join(name).display()));
    let theirs = [matching_collectors(&root.join("proc")), paths.to_vec()].concat();
    compare("A host of 128 CPUs and a card of 64 queues, by fixture", &paths, &theirs);
    let _ = fs::remove_dir_all(root);
}
