//! The number of series is bounded by what the host is made of, by the function
//! that docs/performance.md states.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::exposition::{Samples, samples};
use crate::fixture;
use crate::support::Exporter;

/// The function, as it stands in the document.
const FORMULA: &str = "1131  +  F  +  15 C  +  45 D  +  29 K  +  I  +  2 R  +  T  +  8 G  +  18 L  +  8 U  +  P ( 223  +  22 A )  +  53 E  +  4 X";

/// Its value for a host that has so many of each.
fn most(of: impl Fn(&str) -> usize) -> usize {
    1131 + of("F")
        + 15 * of("C")
        + 45 * of("D")
        + 29 * of("K")
        + of("I")
        + 2 * of("R")
        + of("T")
        + 8 * of("G")
        + 18 * of("L")
        + 8 * of("U")
        + of("P") * (223 + 22 * of("A"))
        + 53 * of("E")
        + 4 * of("X")
}

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
    let cards = ["nettune_nic_ring", "nettune_nic_channels", "nettune_nic_interrupt", "nettune_nic_driver"];
    most(|term| match term {
        "C" => of(&["nettune_softnet_", "nettune_cpu_", "nettune_softirq_"], "cpu").len(),
        "D" => of(&["nettune_netdev_"], "device").len(),
        "K" => of(&cards, "device").len(),
        "I" => count("nettune_nic_interrupts_total"),
        "R" => count("nettune_nic_rps_cpus"),
        "T" => count("nettune_nic_xps_cpus"),
        "G" => count("nettune_qdisc_instances"),
        "L" => count("nettune_listener_sockets"),
        "U" => count("nettune_udp_sockets"),
        "P" => count("nettune_path_info"),
        "A" => of(&["nettune_tcp_busy_seconds_total"], "congestion").len(),
        "E" => count("nettune_path_declared_rtt_seconds"),
        "F" => count("nettune_accepted_finding_info") + count("nettune_netdev_declared_speed_bytes"),
        "X" => count("nettune_sysctl_last_change_timestamp_seconds"),
        other => panic!("{other}"),
    })
}

/// The same of another network namespace.
const OF_ANOTHER: &str = "280  +  11 d  +  2 g  +  18 l  +  8 u  +  p ( 21  +  22 a )  +  4 x";

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
    let bound = 280
        + 11 * count("nettune_netdev_received_packets_total")
        + 2 * count("nettune_qdisc_instances")
        + 18 * count("nettune_listener_sockets")
        + 8 * count("nettune_udp_sockets")
        + paths * (21 + 22 * algorithms)
        + 4 * count("nettune_sysctl_last_change_timestamp_seconds");
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
    // The host that it gives as an example: `C=2, D=2, … may have 1835 and has 783`.
    let words: Vec<_> = document.split_whitespace().map(|word| word.trim_end_matches(['.', ','])).collect();
    let of = |term: &str| {
        let mut counts = words.iter().filter_map(|word| word.strip_prefix(term)?.strip_prefix('='));
        counts.next().unwrap_or_else(|| panic!("{term} is not given")).parse().unwrap()
    };
    let [stated, seen] = ["may have", "and has"].map(|claim| {
        let claim: Vec<_> = claim.split(' ').collect();
        let at = words.windows(2).position(|pair| pair == claim).expect("the example is there");
        words[at + 2].parse::<usize>().unwrap()
    });
    assert_eq!(stated, most(of));
    assert!(seen <= stated);
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
