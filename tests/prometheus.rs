//! A real Prometheus scrapes the real program.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nettune::model::connections::sums::RTT_BOUNDS;
use serde_json::Value;

use crate::exposition::samples;
use crate::fixture::Fixture;
use crate::golden::volatile;
use crate::support::{Exporter, Scratch, eventually};

/// A Prometheus of the test's own, killed at its end.
pub(crate) struct Prometheus {
    child: Child,
    address: String,
    scratch: Scratch,
}

impl Prometheus {
    /// Scrapes each exporter every second under its job name.
    fn scrape(exporters: &[(&str, &Exporter)]) -> Self {
        Self::start(&[], None, exporters)
    }

    /// The same, and evaluates rules.
    pub(crate) fn judge(rules: &Path, exporters: &[(&str, &Exporter)]) -> Self {
        Self::start(&[], Some(rules), exporters)
    }

    /// The same, and stores histograms in their native form.
    fn scrape_native(exporters: &[(&str, &Exporter)]) -> Self {
        Self::start(&["--enable-feature=native-histograms"], None, exporters)
    }

    fn start(flags: &[&str], rules: Option<&Path>, exporters: &[(&str, &Exporter)]) -> Self {
        let scratch = Scratch::new();
        // Free at this moment; Prometheus cannot be asked for any free port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut config =
            String::from("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n");
        if let Some(rules) = rules {
            config += &format!("rule_files: ['{}']\n", rules.display());
        }
        config += "scrape_configs:\n";
        let own = [("prometheus".to_owned(), address.clone())];
        let targets = exporters.iter().map(|(job, exporter)| ((*job).to_owned(), exporter.target()));
        for (job, target) in targets.chain(own) {
            config += &format!("- {{job_name: {job}, static_configs: [{{targets: ['{target}']}}]}}\n");
        }
        let file = scratch.file("prometheus.yml", &config);
        let log = std::fs::File::create(scratch.path("log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", scratch.path("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus is there: `make tools` installs it");
        Self { child, address, scratch }
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let url = format!("http://{}{path}", self.address);
        let output =
            Command::new("curl").args(["-sf", "--max-time", "10", &url]).output().expect("curl is there");
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Values of an instant query, with their labels; native histograms have none.
    fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let Some(answer) = self.get(&format!("/api/v1/query?query={encoded}")) else { return Vec::new() };
        let results = answer["data"]["result"].as_array().expect("an instant vector");
        let values = results.iter().filter_map(|result| {
            let value = result["value"][1].as_str()?.parse().unwrap();
            Some((result["metric"].clone(), value))
        });
        values.collect()
    }

    /// The one value of a query, once there is one.
    fn wait_for(&self, expression: &str) -> f64 {
        eventually(expression, || self.query(expression).first().map(|(_, value)| *value))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of Prometheus\n{}", self.log());
        }
    }
}

#[test]
fn every_sample_is_stored_as_it_was_served() {
    let exporter = Exporter::start(&[]);
    let prometheus = Prometheus::scrape(&[("nettune", &exporter)]);
    eventually("four scrapes", || {
        (prometheus.query("count_over_time(up{job=\"nettune\"}[1m]) >= 4").len() == 1).then_some(())
    });
    assert_eq!(prometheus.wait_for("min_over_time(up{job=\"nettune\"}[1m])"), 1.0, "a scrape failed");

    let success = prometheus.query("nettune_collector_success{job=\"nettune\"}");
    assert_eq!(success.len(), nettune::collect::SOURCES.len());
    for (labels, value) in &success {
        assert_eq!(*value, 1.0, "{labels}");
    }
    for (labels, value) in prometheus.query("nettune_collector_absent{job=\"nettune\"}") {
        assert_eq!(value, 0.0, "this machine has every source: {labels}");
    }

    // As many samples as were served, each of them new.
    let served = samples(exporter.get("/metrics", &[]).text()).len() as f64;
    let stored = prometheus.wait_for("scrape_samples_post_metric_relabeling{job=\"nettune\"}");
    assert!((stored - served).abs() <= 2.0, "served {served}, stored {stored}");
    for problem in ["duplicate_timestamp", "out_of_order", "out_of_bounds"] {
        let counter = format!("prometheus_target_scrapes_sample_{problem}_total");
        assert_eq!(prometheus.wait_for(&counter), 0.0, "{counter}");
    }
    let log = prometheus.log();
    let complaints: Vec<_> =
        log.lines().filter(|line| line.contains("level=warn") || line.contains("level=error")).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));

    // Values that do not move are equal to the byte.
    for (series, value) in samples(exporter.get("/metrics", &[]).text()) {
        let moves = ["conntrack_count", "_recommended_"].iter().any(|part| series.contains(part));
        if series.starts_with("nettune_sysctl_") && !moves {
            let (name, labels) = series.split_once('{').unwrap();
            let found = prometheus.query(&format!("{name}{{job=\"nettune\",{labels}"));
            assert_eq!(found.first().map(|(_, value)| *value), Some(value), "{series}");
        }
    }
}

#[test]
fn types_arrive_as_they_are_meant() {
    let exporter = Exporter::start(&[]);
    let prometheus = Prometheus::scrape(&[("nettune", &exporter)]);
    prometheus.wait_for("up{job=\"nettune\"} == 1");
    let metadata = eventually("metadata", || {
        let answer = prometheus.get("/api/v1/targets/metadata?match_target=%7Bjob%3D%22nettune%22%7D")?;
        let all = answer["data"].as_array()?.clone();
        (all.len() > 100).then_some(all)
    });
    for metric in nettune::metrics::all() {
        // Prometheus asks for OpenMetrics, where a counter's family has no suffix.
        let family = metric.name.trim_end_matches("_total").trim_end_matches("_info");
        let Some(entry) = metadata.iter().find(|entry| entry["metric"] == family) else { continue };
        let expected = match metric.kind {
            nettune::metrics::Kind::Counter => "counter",
            nettune::metrics::Kind::Gauge => "gauge",
            nettune::metrics::Kind::Info => "info",
            nettune::metrics::Kind::Histogram => "histogram",
        };
        assert_eq!(entry["type"], expected, "{}", metric.name);
        assert_eq!(entry["help"], metric.help, "{}", metric.name);
    }
}

/// One pass over connections, so that both servers are told the same.
const ONE_PASS: &str = "--sockets.interval=10m";

#[test]
fn histograms_are_stored_native_where_that_is_on_and_classic_elsewhere() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let held: Vec<_> = (0..50).map(|_| (connect(), server.accept().unwrap())).collect();
    let exporter = Exporter::start(&[ONE_PASS]);
    let classic = Prometheus::scrape(&[("nettune", &exporter)]);
    let native = Prometheus::scrape_native(&[("nettune", &exporter)]);
    for name in ["nettune_tcp_rtt_seconds", "nettune_tcp_min_rtt_seconds"] {
        let count = native.wait_for(&format!("histogram_count({name}{{path=\"local\"}})"));
        assert!(count >= 2.0 * held.len() as f64, "{count}");
        assert_eq!(classic.wait_for(&format!("{name}_count{{path=\"local\"}}")), count, "{name}");
        assert_eq!(
            native.wait_for(&format!("histogram_sum({name}{{path=\"local\"}})")),
            classic.wait_for(&format!("{name}_sum{{path=\"local\"}}")),
            "{name}"
        );
        // Each has its own form alone.
        assert_eq!(native.query(&format!("{name}_bucket")), [], "{name}");
        assert_eq!(classic.query(&format!("histogram_count({name})")), [], "{name}");
        assert_eq!(classic.query(&format!("{name}_bucket")).len(), 3 * (RTT_BOUNDS.len() + 1), "{name}");
        let of = |quantile: f64, series: &str| {
            format!("histogram_quantile({quantile}, {series}{{path=\"local\"}})")
        };
        for quantile in [0.1, 0.5, 0.9] {
            let by_bounds = classic.wait_for(&of(quantile, &format!("{name}_bucket")));
            let by_factor = native.wait_for(&of(quantile, name));
            // Both buckets hold the same observation; a native one may reach over a bound.
            let place = RTT_BOUNDS.partition_point(|bound| *bound < by_bounds);
            let lower = place.checked_sub(1).map_or(0.0, |below| RTT_BOUNDS[below]) / 1.1;
            let upper = RTT_BOUNDS.get(place).map_or(f64::INFINITY, |bound| bound * 1.1);
            assert!(
                by_factor > lower && by_factor <= upper,
                "{name} at {quantile}: {by_factor} is not beside {by_bounds}"
            );
        }
        // The mean, which no bucket decides, lies between the ends of the outer ones.
        let mean = native.wait_for(&format!("histogram_sum({name}{{path=\"local\"}})")) / count;
        let (least, most) = (native.wait_for(&of(0.0, name)), native.wait_for(&of(1.0, name)));
        assert!(least <= mean && mean <= most, "{name}: {mean} is not from {least} to {most}");
    }
}

/// Series and values that a server has of an exporter, without histograms; values
/// that differ from scrape to scrape are 0.
fn stored(server: &Prometheus) -> BTreeMap<String, f64> {
    eventually("two scrapes", || {
        (server.query("count_over_time(up{job=\"nettune\"}[1m]) >= 2").len() == 1).then_some(())
    });
    let histograms = "nettune_tcp_(min_)?rtt_seconds_(bucket|sum|count)";
    let all = server.query(&format!(
        "{{job=\"nettune\", __name__=~\"(nettune|process)_.*\", __name__!~\"{histograms}\"}}"
    ));
    let steady = all.into_iter().map(|(labels, value)| {
        let labels = labels.to_string();
        let value = if volatile(&labels) { 0.0 } else { value };
        (labels, value)
    });
    steady.collect()
}

#[test]
fn all_else_is_stored_alike_from_protobuf() {
    let fixture = Fixture::copy("6.18-host");
    let mut flags = fixture.flags();
    flags.extend([ONE_PASS.into(), "--collector.netstat.all".into()]);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let exporter = Exporter::start(&flags);
    let classic = Prometheus::scrape(&[("nettune", &exporter)]);
    let native = Prometheus::scrape_native(&[("nettune", &exporter)]);
    let (from_text, from_protobuf) = (stored(&classic), stored(&native));
    assert_eq!(from_text, from_protobuf);
    // As they are defined: counters with _total, infos with _info.
    let names = native.query("count by (__name__) ({job=\"nettune\", __name__=~\"nettune_.*\"})");
    assert!(names.len() > 100, "{names:?}");
    for (labels, _) in names {
        let found = labels["__name__"].as_str().unwrap();
        assert!(nettune::metrics::all().iter().any(|metric| metric.name == found), "{found}");
    }
}

/// The ticker alone makes the ratio: any number of scrapers, at any pace, sees
/// the same one, and none sees one without evidence.
#[test]
fn the_ratio_is_that_of_the_last_interval() {
    let fixture = Fixture::copy("4.18-el8");
    let mut flags = fixture.flags();
    flags.push("--sample.interval=1s".into());
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let exporter = Exporter::start(&flags);
    let ratio = || samples(exporter.get("/metrics", &[]).text()).get("nettune_tcp_retransmit_ratio").copied();
    assert_eq!(ratio(), None, "nothing was sent yet");
    let before = std::fs::read_to_string(fixture.path("proc/net/snmp")).unwrap();
    // 1000 segments more, 25 of them again.
    let after = before.replace(" 4600000 9200 ", " 4601000 9225 ");
    assert_ne!(before, after);
    // In one step, as the kernel's file changes: a half-written one must not be read.
    fixture.write("proc/net/snmp.new", after.as_bytes());
    std::fs::rename(fixture.path("proc/net/snmp.new"), fixture.path("proc/net/snmp")).unwrap();
    let found = eventually("an interval with segments sent", ratio);
    assert_eq!(found, 0.025);
    eventually("the next interval, in which nothing is sent", || ratio().is_none().then_some(()));
}
