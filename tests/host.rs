//! Against the running kernel: defaults, privileges, and devices that come and
//! go.

use std::process::Command;

use crate::exposition::samples;
use crate::namespace::Namespace;
use crate::support::{Exporter, Scratch, eventually, nettune, skip};

/// A namespace nobody has touched shows the kernel's own defaults.
#[test]
fn computed_defaults_are_the_kernels() {
    let Some(namespace) = Namespace::new() else { return };
    let exporter = namespace.exporter(&[]);
    let found = samples(exporter.get("/metrics", &[]).text());
    let mut compared = 0;
    for (series, default) in &found {
        let Some(labels) = series.strip_prefix("nettune_sysctl_default_value") else { continue };
        let running = found[&format!("nettune_sysctl_value{labels}")];
        // Held by the initial namespace, where somebody may have changed them.
        let of_the_host =
            ["net.core.rmem", "net.core.wmem", "nf_conntrack_max", "nf_conntrack_buckets", "expect_max"];
        if of_the_host.iter().any(|name| labels.contains(name)) {
            continue;
        }
        assert_eq!(running, *default, "{labels}");
        compared += 1;
    }
    assert!(compared > 70, "only {compared} defaults");
}

/// Derived from memory as it is now, while the kernel derived them at boot.
#[test]
fn computed_memory_marks_are_near_the_kernels() {
    let exporter = Exporter::start(&[]);
    let found = samples(exporter.get("/metrics", &[]).text());
    for name in ["net.ipv4.tcp_mem", "net.ipv4.udp_mem"] {
        for field in ["low", "pressure", "high"] {
            let labels = format!("{{parameter=\"{name}\",field=\"{field}\"}}");
            let running = found[&format!("nettune_sysctl_value{labels}")];
            let default = found[&format!("nettune_sysctl_default_value{labels}")];
            let ratio = default / running;
            assert!((0.98..1.02).contains(&ratio), "{labels}: computed {default}, running {running}");
        }
    }
}

/// Nothing the exporter reads of this kernel takes a privilege.
#[test]
fn an_ordinary_user_sees_every_source() {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
    // The user cannot pass through the folders of whoever built the program.
    let scratch = Scratch::new();
    let program = scratch.path("nettune");
    std::fs::copy(nettune(&[]).get_program(), &program).unwrap();
    command.arg(&program).arg("--web.listen-address=127.0.0.1:0");
    let privileges = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "true"];
    if !Command::new("setpriv").args(privileges).status().is_ok_and(|status| status.success()) {
        return skip("not root: this run is already an ordinary user's");
    }
    let exporter = Exporter::launch(command);
    exporter.wait_until_ready();
    let found = samples(exporter.get("/metrics", &[]).text());
    let failed: Vec<_> = found
        .iter()
        .filter(|(series, value)| series.starts_with("nettune_collector_success{") && **value == 0.0)
        .collect();
    assert!(failed.is_empty(), "{failed:?}\n{}", exporter.log());
}

/// A device that comes and goes between scrapes, and during them.
#[test]
fn devices_may_come_and_go() {
    let Some(namespace) = Namespace::new() else { return };
    let exporter = namespace.exporter(&[]);
    let mut churn = namespace.command("bash");
    churn.args(["-c", "for i in $(seq 40); do ip link add eth7 type veth peer name eth8; ip link set eth7 up; ip link del eth7; done"]);
    let mut churn = churn.spawn().unwrap();
    eventually("the churn goes on", || {
        let response = exporter.get("/metrics", &[]);
        assert_eq!(response.status, 200);
        let found = samples(response.text());
        for source in ["netdev", "qdisc", "steering", "route", "sysctl", "interrupts"] {
            let series = format!("nettune_collector_success{{collector=\"{source}\"}}");
            assert_eq!(found[&series], 1.0, "{source}: {}", exporter.log());
        }
        churn.try_wait().unwrap()
    });
}

#[test]
fn a_scrape_shows_what_was_set_before_it() {
    let Some(namespace) = Namespace::new() else { return };
    let exporter = namespace.exporter(&["--sample.interval=10m"]);
    let scrape = || samples(exporter.get("/metrics?collect[]=sysctl", &[]).text());
    let running = "nettune_sysctl_value{parameter=\"net.ipv4.tcp_fin_timeout\",field=\"\"}";
    namespace.inside(|| {
        for value in 1000..1500 {
            std::fs::write("/proc/sys/net/ipv4/tcp_fin_timeout", value.to_string()).unwrap();
            assert_eq!(scrape()[running], f64::from(value));
        }
    });
    assert_eq!(scrape()["nettune_ledger_changes_total"], 500.0);
}
