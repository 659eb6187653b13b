//! Recommended values on the running kernel: they come with their evidence, the kernel
//! takes them, and they go once they are applied.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use crate::exposition::{Samples, samples};
use crate::listeners::{connect, listen};
use crate::namespace::Namespace;
use crate::support::{Exporter, eventually};

const QUICK: [&str; 2] = ["--sockets.interval=1s", "--sockets.cpu-budget=100%"];

fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn scrape(exporter: &Exporter) -> Samples {
    samples(exporter.get("/metrics", &[]).text())
}

/// Scrapes until `good`.
fn until(exporter: &Exporter, what: &str, good: impl Fn(&Samples) -> bool) -> Samples {
    eventually(what, || Some(scrape(exporter)).filter(&good))
}

/// The recommended number of a parameter, or of one of its fields.
pub(crate) fn value(found: &Samples, parameter: &str, field: &str) -> Option<f64> {
    let labels = format!("{{parameter=\"{parameter}\",field=\"{field}\"}}");
    found.get(&format!("nettune_sysctl_recommended_value{labels}")).copied()
}

/// Whether what is recommended rests on this.
pub(crate) fn rests_on(found: &Samples, parameter: &str, basis: &str) -> bool {
    let labels = format!("{{parameter=\"{parameter}\",basis=\"{basis}\"}}");
    found.contains_key(&format!("nettune_sysctl_recommended_basis_info{labels}"))
}

/// All that is said of a parameter.
fn of<'f>(found: &'f Samples, parameter: &str) -> Vec<&'f str> {
    let label = format!("parameter=\"{parameter}\"");
    let of = |series: &&str| series.starts_with("nettune_sysctl_recommended") && series.contains(&label);
    found.keys().map(String::as_str).filter(of).collect()
}

const SOMAXCONN: &str = "net.core.somaxconn";

#[test]
fn a_queue_that_somaxconn_clamps_asks_for_more_until_it_is_applied() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.sysctl(SOMAXCONN, "5000");
    let exporter = namespace.exporter(&QUICK);
    let _server = namespace.inside(|| listen(at(9001), 10_000));
    until(&exporter, "the listener", |found| found.keys().any(|series| series.contains("port=\"9001\"")));
    assert_eq!(of(&scrape(&exporter), SOMAXCONN), [""; 0], "nothing waits");
    let _waiting = namespace.inside(|| connect(9001, 5001));
    let found = until(&exporter, "a full queue", |found| value(found, SOMAXCONN, "").is_some());
    // Twice 5000, up to a power of two.
    assert_eq!(value(&found, SOMAXCONN, ""), Some(16_384.0));
    assert!(rests_on(&found, SOMAXCONN, "repeat"), "{:?}", of(&found, SOMAXCONN));
    let page = exporter.get("/", &[]);
    assert!(page.text().contains("net.core.somaxconn = 16384"), "{}", page.text());
    namespace.sysctl(SOMAXCONN, "16384");
    let found = scrape(&exporter);
    assert_eq!(of(&found, SOMAXCONN), [""; 0], "applied");
}

#[test]
fn a_small_default_asks_for_the_kernels_and_then_for_more() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.sysctl(SOMAXCONN, "128");
    let exporter = namespace.exporter(&QUICK);
    assert!(rests_on(&scrape(&exporter), SOMAXCONN, "default"));
    let _queue = namespace.inside(|| (listen(at(9001), 511), connect(9001, 200)));
    let found = until(&exporter, "a full queue", |found| rests_on(found, SOMAXCONN, "repeat"));
    assert_eq!(value(&found, SOMAXCONN, ""), Some(4096.0));
    namespace.sysctl(SOMAXCONN, "4096");
    assert_eq!(of(&scrape(&exporter), SOMAXCONN), [""; 0]);
}

#[test]
fn another_namespace_has_its_own() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.sysctl(SOMAXCONN, "5000");
    namespace.sysctl("net.ipv4.tcp_sack", "0");
    let exporter =
        Exporter::start(&[&[format!("--netns={}", namespace.name()).as_str()], &QUICK[..]].concat());
    let of = |metric: &str, labels: &str| {
        format!("nettune_sysctl_recommended_{metric}{{{labels},netns=\"{}\"}}", namespace.name())
    };
    let sack = of("value", "parameter=\"net.ipv4.tcp_sack\",field=\"\"");
    until(&exporter, "a dangerous value", |found| found.get(&sack) == Some(&1.0));
    let _queue = namespace.inside(|| (listen(at(9001), 10_000), connect(9001, 5001)));
    let somaxconn = of("value", "parameter=\"net.core.somaxconn\",field=\"\"");
    until(&exporter, "a full queue", |found| found.get(&somaxconn) == Some(&16_384.0));
    namespace.sysctl(SOMAXCONN, "16384");
    namespace.sysctl("net.ipv4.tcp_sack", "1");
    until(&exporter, "nothing more", |found| !found.contains_key(&sack) && !found.contains_key(&somaxconn));
}

const RANGE: &str = "net.ipv4.ip_local_port_range";

#[test]
fn ports_that_run_short_ask_for_those_where_nothing_listens() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.sysctl(RANGE, "40000 40099");
    let exporter = namespace.exporter(&QUICK);
    // One service below the range and one in it, with 75 of 99 ports toward the first.
    let _servers = namespace.inside(|| (listen(at(9001), 200), listen(at(40_050), 1)));
    let _held =
        namespace.inside(|| -> Vec<_> { (0..75).map(|_| TcpStream::connect(at(9001)).unwrap()).collect() });
    let found = until(&exporter, "few ports", |found| value(found, RANGE, "first").is_some());
    assert_eq!([value(&found, RANGE, "first"), value(&found, RANGE, "last")], [Some(9002.0), Some(65_535.0)]);
    let reserved = of(&found, "net.ipv4.ip_local_reserved_ports");
    assert!(reserved.iter().any(|series| series.contains("value=\"40050\"")), "{reserved:?}");
    assert_eq!(of(&found, "net.ipv4.tcp_tw_reuse"), [""; 0]);
    namespace.sysctl(RANGE, "9002 65535");
    namespace.sysctl("net.ipv4.ip_local_reserved_ports", "40050");
    let found = scrape(&exporter);
    assert_eq!(of(&found, RANGE), [""; 0]);
    assert_eq!(of(&found, "net.ipv4.ip_local_reserved_ports"), [""; 0]);
}

#[test]
fn the_kernel_takes_what_is_recommended_and_then_nothing_is() {
    let Some(namespace) = Namespace::new() else { return };
    let wrong = [
        ("net.ipv4.tcp_syncookies", "2"),
        ("net.ipv4.tcp_timestamps", "0"),
        ("net.ipv4.tcp_sack", "0"),
        ("net.ipv4.tcp_window_scaling", "0"),
        ("net.ipv4.tcp_moderate_rcvbuf", "0"),
        ("net.ipv4.tcp_shrink_window", "1"),
        ("net.ipv4.tcp_abort_on_overflow", "1"),
        ("net.ipv4.tcp_retries2", "5"),
        ("net.ipv4.tcp_ecn", "1"),
        ("net.ipv4.tcp_rmem", "4096 131072 2147483647"),
        ("net.ipv4.tcp_wmem", "4096 16384 65536"),
        ("net.ipv4.tcp_max_tw_buckets", "10"),
        (SOMAXCONN, "100"),
    ];
    wrong.iter().for_each(|(name, value)| namespace.sysctl(name, value));
    let exporter = namespace.exporter(&[]);
    let found = scrape(&exporter);
    for (name, _) in wrong {
        let fields = ["", "min", "default", "max"];
        let numbers: Vec<_> = fields.iter().filter_map(|field| value(&found, name, field)).collect();
        assert!(!numbers.is_empty(), "nothing for {name}");
        let numbers: Vec<_> = numbers.iter().map(f64::to_string).collect();
        namespace.sysctl(name, &numbers.join(" "));
        let is = namespace.run(&format!("sysctl -n {name}"));
        assert!(is.split_whitespace().eq(&numbers), "{name} is {is}, not {numbers:?}");
    }
    let found = scrape(&exporter);
    let left: Vec<_> = found.keys().filter(|series| series.contains("_recommended_")).collect();
    assert!(left.is_empty(), "{left:?}");
}
