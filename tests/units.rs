//! Whose sockets are whose, on the running kernel: a cgroup made for the test, and
//! processes without one.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use crate::exposition::Samples;
use crate::listeners::{connect, listen, until};
use crate::namespace::Namespace;
use crate::netns;
use crate::netns_faults::within;
use crate::support::{Exporter, eventually, nettune, skip};

/// A folder of the cgroup v2 hierarchy, removed at the end of the test.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None`, loudly, where the hierarchy is not mounted or not for us.
    fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let Some(mount) = line.and_then(|line| line.split(' ').nth(4)) else {
            skip("no cgroup v2 hierarchy is mounted");
            return None;
        };
        let folder = PathBuf::from(mount).join(name);
        match fs::create_dir(&folder) {
            Ok(()) => Some(Self(folder)),
            Err(error) => {
                skip(&format!("{}: {error}", folder.display()));
                None
            }
        }
    }

    /// An exporter in this cgroup and in `namespace`, which listens on a port of
    /// 127.0.0.1 as any program might.
    fn server(&self, namespace: &Namespace, port: u16) -> Exporter {
        let mut command = Command::new("bash");
        let program = env!("CARGO_BIN_EXE_nettune");
        command.arg("-c").arg(format!(
            "echo $$ > {}/cgroup.procs && exec {program} --web.listen-address=127.0.0.1:{port}",
            self.0.display()
        ));
        namespace.inside(|| Exporter::launch(command))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Busy until the kernel is done with the processes that were in it.
        eventually("the cgroup is removed", || fs::remove_dir(&self.0).ok());
    }
}

/// An exporter in a network namespace that sees the cgroups of the host, which
/// `ip netns exec` hides with the rest of its sysfs.
fn exporter(namespace: &Namespace) -> Exporter {
    let address = format!("--web.listen-address=unix:{}", namespace.socket().display());
    let command = nettune(&[&address, "--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let exporter = namespace.inside(|| Exporter::launch(command));
    exporter.wait_until_ready();
    exporter
}

fn info(port: u16, unit: &str) -> String {
    format!("nettune_listener_info{{address=\"127.0.0.1\",port=\"{port}\",unit=\"{unit}\"}}")
}

fn memory(unit: &str) -> String {
    format!("nettune_tcp_unit_memory_bytes{{unit=\"{unit}\"}}")
}

/// Memory of the connections that `filter` keeps, as `ss` prints it.
fn printed_by_ss(namespace: &Namespace, filter: &str) -> f64 {
    let printed = namespace.run(&format!("ss -tnmHO {filter}"));
    let of_line = |line: &str| -> f64 {
        let figures = line.split_once("skmem:(").unwrap().1.split(')').next().unwrap();
        let of = |letter| {
            figures.split(',').filter_map(move |field| field.strip_prefix(letter)?.parse::<f64>().ok())
        };
        ["r", "w", "f"].into_iter().flat_map(of).sum()
    };
    printed.lines().map(of_line).sum()
}

#[test]
fn a_cgroup_names_the_listener_and_the_memory_of_its_connections() {
    let Some(namespace) = Namespace::new() else { return };
    let unit = format!("nettune-test-{}.service", std::process::id());
    let Some(cgroup) = Cgroup::new(&unit) else { return };
    let server = cgroup.server(&namespace, 9001);
    let exporter = exporter(&namespace);
    let found = until(&exporter, |found| found.contains_key(&info(9001, &unit)));
    assert_eq!(found[&info(9001, &unit)], 1.0);

    // A client that asks for more than it reads: pages wait on both sides.
    let mut client = namespace.inside(|| TcpStream::connect((Ipv4Addr::LOCALHOST, 9001)).unwrap());
    client.write_all("GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n".repeat(400).as_bytes()).unwrap();
    let found = until(&exporter, |found| {
        let [ours, theirs] =
            ["sport = :9001", "dport = :9001"].map(|filter| printed_by_ss(&namespace, filter));
        let all: f64 = found
            .iter()
            .filter(|(series, _)| series.starts_with("nettune_tcp_unit_"))
            .map(|(_, value)| value)
            .sum();
        // Whose the client's end is depends on where this test runs.
        found.get(&memory(&unit)) == Some(&ours) && all == ours + theirs
    });
    assert!(found[&memory(&unit)] > 100_000.0, "{}", found[&memory(&unit)]);

    // From outside as from inside.
    let outside = netns::exporter(namespace.name());
    netns::until(&outside, "the unit", |found| {
        let ours = printed_by_ss(&namespace, "sport = :9001");
        found.get(&within(&memory(&unit), &namespace)) == Some(&ours)
            && found.get(&within(&info(9001, &unit), &namespace)) == Some(&1.0)
    });
    drop((client, server));
}

/// The cgroup v2 folder of this run.
fn own_cgroup() -> String {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap();
    cgroups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned()
}

/// Where no cgroup tells, the process does, once it matters.
#[test]
fn a_listener_in_trouble_is_named_by_its_process() {
    let own = own_cgroup();
    if own != "/" {
        return skip(&format!("this run is in the cgroup {own}, which names its sockets"));
    }
    let Some(namespace) = Namespace::new() else { return };
    let at = |port| listen((Ipv4Addr::LOCALHOST, port).into(), 4);
    let listeners = namespace.inside(|| [at(9001), at(9002)]);
    let exporter = exporter(&namespace);
    let infos = |found: &Samples| {
        found.keys().filter(|series| series.starts_with("nettune_listener_info")).cloned().collect::<Vec<_>>()
    };
    let found = until(&exporter, |found| found.len() > 10);
    assert_eq!(infos(&found), [""; 0]);
    let clients = namespace.inside(|| connect(9001, 20));
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let found = until(&exporter, |found| !infos(found).is_empty());
    assert_eq!(infos(&found), [info(9001, name.trim())]);
    drop((listeners, clients));
}
