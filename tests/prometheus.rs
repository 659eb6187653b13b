//! A real Prometheus scrapes the real program.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::exposition::samples;
use crate::fixture::Fixture;
use crate::support::{Exporter, Scratch, eventually};

/// A Prometheus of the test's own, killed at its end.
struct Prometheus {
    child: Child,
    address: String,
    scratch: Scratch,
}

impl Prometheus {
    /// Scrapes each exporter every second under its job name.
    fn scrape(exporters: &[(&str, &Exporter)]) -> Self {
        let scratch = Scratch::new();
        // Free at this moment; Prometheus cannot be asked for any free port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut config = String::from("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n");
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
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus is there: `make tools` installs it");
        Self { child, address, scratch }
    }

    fn get(&self, path: &str) -> Option<Value> {
        let url = format!("http://{}{path}", self.address);
        let output =
            Command::new("curl").args(["-sf", "--max-time", "10", &url]).output().expect("curl is there");
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Values of an instant query, with their labels.
    fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let Some(answer) = self.get(&format!("/api/v1/query?query={encoded}")) else { return Vec::new() };
        let results = answer["data"]["result"].as_array().expect("an instant vector");
        let value = |result: &Value| result["value"][1].as_str().unwrap().parse().unwrap();
        results.iter().map(|result| (result["metric"].clone(), value(result))).collect()
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
        if series.starts_with("nettune_sysctl_") && !series.contains("conntrack_count") {
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
