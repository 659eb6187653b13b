//! The number of series is bounded by what the host is made of, by the function
//! that docs/performance.md states.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::exposition::{Samples, samples};
use crate::fixture;
use crate::support::Exporter;

/// The function, as it stands in the document.
const FORMULA: &str = "1033  +  15 C  +  42 D  +  29 K  +  I  +  2 R  +  T  +  8 G  +  17 L  +  8 U  +  P ( 211  +  22 A )  +  53 E  +  4 X";

/// Its value for the host that a scrape shows.
fn bound(samples: &Samples) -> usize {
    let label = |series: &str, name: &str| {
        let (_, rest) = series.split_once(&format!("{name}=\""))?;
        rest.split('"').next().map(str::to_owned)
    };
    let of = |metrics: &[&str], name: &str| -> BTreeSet<String> {
        let chosen = samples.keys().filter(|series| metrics.iter().any(|metric| series.starts_with(metric)));
        chosen.filter_map(|series| label(series, name)).collect()
    };
    let count = |metric: &str| samples.keys().filter(|series| series.starts_with(metric)).count();
    let cpus = of(&["nettune_softnet_", "nettune_cpu_", "nettune_softirq_"], "cpu").len();
    let devices = of(&["nettune_netdev_"], "device").len();
    let cards = of(
        &["nettune_nic_ring", "nettune_nic_channels", "nettune_nic_interrupt", "nettune_nic_driver"],
        "device",
    )
    .len();
    let paths = count("nettune_path_info");
    let declared = count("nettune_path_declared_rtt_seconds");
    let algorithms = of(&["nettune_tcp_busy_seconds_total"], "congestion").len();
    1033 + 15 * cpus
        + 42 * devices
        + 29 * cards
        + count("nettune_nic_interrupts_total")
        + 2 * count("nettune_nic_rps_cpus")
        + count("nettune_nic_xps_cpus")
        + 8 * count("nettune_qdisc_instances")
        + 17 * count("nettune_listener_sockets")
        + 8 * count("nettune_udp_sockets")
        + paths * (211 + 22 * algorithms)
        + 53 * declared
        + 4 * count("nettune_sysctl_last_change_timestamp_seconds")
}

/// The same of another network namespace.
const OF_ANOTHER: &str = "183  +  8 d  +  14 l  +  p ( 9  +  22 a )";

/// Asserts that the samples of another namespace are no more than that.
pub(crate) fn assert_bounded(samples: &Samples, namespace: &str) {
    let label = format!("netns=\"{namespace}\"");
    let own: Vec<_> = samples.keys().filter(|series| series.contains(&label)).collect();
    let count = |metric: &str| own.iter().filter(|series| series.starts_with(metric)).count();
    let values = |metric: &str, name: &str| {
        let of = |series: &&&String| {
            let (_, rest) = series.split_once(&format!("{name}=\""))?;
            series.starts_with(metric).then(|| rest.split('"').next().map(str::to_owned))?
        };
        own.iter().filter_map(|series| of(&series)).collect::<BTreeSet<_>>().len()
    };
    let (paths, algorithms) =
        (values("nettune_tcp_", "path"), values("nettune_tcp_busy_seconds_total", "congestion"));
    let bound = 183
        + 8 * count("nettune_netdev_received_packets_total")
        + 14 * count("nettune_listener_sockets")
        + paths * (9 + 22 * algorithms);
    assert!(!own.is_empty() && own.len() <= bound, "{namespace}: {} series, at most {bound}", own.len());
}

/// Series of the default collectors: without those of `--collector.netstat.all`
/// and those that only another network namespace has.
fn without_extras(mut samples: Samples) -> Samples {
    samples
        .retain(|series, _| !series.starts_with("nettune_netstat_total") && !series.contains("_read_only{"));
    samples
}

#[test]
fn the_document_states_the_function_that_is_tested() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance.md");
    let document = fs::read_to_string(document).unwrap();
    assert!(document.contains(FORMULA) && document.contains(OF_ANOTHER));
}

#[test]
fn no_host_has_more_series_than_the_function_allows() {
    for name in fixture::names() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
        let found = without_extras(samples(&fs::read_to_string(path).unwrap()));
        assert!(found.len() <= bound(&found), "{name}: {} series, at most {}", found.len(), bound(&found));
    }
}

#[test]
fn a_host_at_rest_has_few_series() {
    let exporter = Exporter::start(&[]);
    let found = samples(exporter.get("/metrics", &[]).text());
    let allowed = bound(&found);
    assert!(found.len() <= allowed, "{} series, at most {allowed}", found.len());
    // Larger machines are bounded by the function alone.
    let cpus = found.keys().filter(|series| series.starts_with("nettune_softnet_processed_total")).count();
    if cpus <= 16 {
        assert!(found.len() <= 1000, "{} series", found.len());
    }
}
