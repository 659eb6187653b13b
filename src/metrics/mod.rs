//! The only place where metric names and their help live; one file a family
//! group. Each names its families once, as [`Metric`] constants that both the
//! exposition and `docs/metrics.md` are made from.

mod connections;
mod counters;
mod declared;
mod exporter;
mod flows;
mod hosts;
mod links;
mod listeners;
mod namespaces;
mod nic;
mod persisted;
mod ports;
mod qdiscs;
mod receive;
mod sockets;
mod sysctl;
mod tables;
mod udp;
mod units;
mod writer;

use std::fmt;
use std::io;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_protobuf, prometheus_text, text};
use prometheus_client::registry::Registry;

use crate::model::Snapshot;

pub use exporter::Serving;
pub use writer::{Kind, Metric};
use writer::{Recording, Writer};

/// A format of the exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4
    Text,
    /// OpenMetrics text 1.0
    OpenMetrics,
    /// Prometheus protobuf, the only one with native histograms
    Protobuf,
}

impl Format {
    /// Every format, the one that most programs understand last.
    pub const ALL: [Self; 3] = [Self::Protobuf, Self::OpenMetrics, Self::Text];

    /// Value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
            }
        }
    }
}

/// Writes the exposition of `snapshot`: text in pieces of some KiB, protobuf whole,
/// as its encoder has it.
///
/// # Errors
/// `out` refused; nothing of what we export can make the encoder do so.
pub fn encode(
    snapshot: &Arc<Snapshot>,
    serving: Serving,
    format: Format,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition { snapshot: Arc::clone(snapshot), serving }));
    match format {
        Format::Text => prometheus_text::encode(&mut AsBytes(out), &registry).map_err(io::Error::other),
        Format::OpenMetrics => text::encode(&mut AsBytes(out), &registry).map_err(io::Error::other),
        Format::Protobuf => {
            out.write_all(&prometheus_protobuf::encode_to_vec(&registry).map_err(io::Error::other)?)
        }
    }
}

/// Takes text, as the text encoders write it, to where bytes go.
struct AsBytes<W>(W);

impl<W: io::Write> fmt::Write for AsBytes<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

#[derive(Debug)]
struct Exposition {
    snapshot: Arc<Snapshot>,
    serving: Serving,
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let snapshot = &self.snapshot;
        let foreign = snapshot.namespaces.iter().flat_map(|found| &found.read);
        let mut recording = Recording::default();
        for namespace in foreign {
            let mut out = Writer::record(&namespace.place.name, recording);
            FAMILIES.iter().try_for_each(|(write, _)| write(&mut out, &namespace.snapshot))?;
            recording = out.recorded();
        }
        let mut out = Writer::new(encoder, recording);
        exporter::write(&mut out, snapshot, &self.serving)?;
        FAMILIES.iter().try_for_each(|(write, metrics)| {
            write(&mut out, snapshot)?;
            out.rest(&metrics())
        })
    }
}

type Write = fn(&mut Writer<'_>, &Snapshot) -> fmt::Result;
type Metrics = fn() -> Vec<&'static Metric>;

/// Family groups in the order of the exposition.
const FAMILIES: &[(Write, Metrics)] = &[
    (declared::write, declared::metrics),
    (namespaces::write, namespaces::metrics),
    (hosts::write, hosts::metrics),
    (counters::write, counters::metrics),
    (sockets::write, sockets::metrics),
    (listeners::write, listeners::metrics),
    (connections::write, connections::metrics),
    (flows::write, flows::metrics),
    (units::write, units::metrics),
    (udp::write, udp::metrics),
    (ports::write, ports::metrics),
    (receive::write, receive::metrics),
    (links::write, links::metrics),
    (qdiscs::write, qdiscs::metrics),
    (nic::write, nic::metrics),
    (tables::write, tables::metrics),
    (sysctl::write, sysctl::metrics),
    (persisted::write, persisted::metrics),
];

/// Every family the exporter knows, in the order of the exposition, in groups
/// with a title that names the collectors they come from.
pub fn groups() -> [(&'static str, Vec<&'static Metric>); 18] {
    [
        ("The exporter itself, whatever is collected, and `process`", exporter::metrics()),
        ("Declared in the configuration file", declared::metrics()),
        ("Network namespaces: `netns`", namespaces::metrics()),
        ("The host: `host` and `cpu`", hosts::metrics()),
        ("Counters of TCP, UDP, IP and ICMP: `snmp`, `snmp6` and `netstat`", counters::metrics()),
        ("Sockets: `sockstat` and `sockstat6`", sockets::metrics()),
        ("Listening TCP sockets: `listener`", listeners::metrics()),
        ("TCP connections now: `connection`", [connections::metrics(), units::metrics()].concat()),
        ("What TCP connections did: `connection`", flows::metrics()),
        ("UDP sockets: `udp`", udp::metrics()),
        ("Local ports of connections: `connection`", ports::metrics()),
        ("The receive path: `softnet`, `softirqs` and `interrupts`", receive::metrics()),
        ("Network devices: `netdev` and `route`", links::metrics()),
        ("Queueing disciplines: `qdisc`", qdiscs::metrics()),
        ("Network cards: `ethtool` and `steering`", nic::metrics()),
        ("Tables: `conntrack` and `neighbour`", tables::metrics()),
        ("Parameters: `sysctl`", sysctl::metrics()),
        ("Parameters at the next boot: `persisted`", persisted::metrics()),
    ]
}

/// Every family the exporter knows.
pub fn all() -> Vec<&'static Metric> {
    groups().into_iter().flat_map(|(_, metrics)| metrics).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::model::namespaces::{Namespace, Namespaces, Place};
    use crate::read::counters::parse_pairs;

    #[test]
    fn names_and_help_are_in_order() {
        let mut names = Vec::new();
        for metric in all() {
            let name = metric.name;
            assert!(name.starts_with("nettune_") || name.starts_with("process_"), "{name}");
            assert!(!names.contains(&name), "{name} is defined twice");
            names.push(name);
            let (counter, total) = (metric.kind == Kind::Counter, name.ends_with("_total"));
            assert_eq!(counter, total, "{name}");
            assert_eq!(metric.kind == Kind::Info, name.ends_with("_info"), "{name}");
            assert!(!metric.help.is_empty() && metric.help.ends_with('.'), "{name}: help is a sentence");
            // The OpenMetrics encoder does not escape help.
            assert!(!metric.help.contains(['\n', '\\', '"']), "{name}: help needs escaping");
        }
    }

    /// Samples of a text, without comments.
    fn written(snapshot: Snapshot, format: Format) -> String {
        let serving = Serving { reload_successful: true, reload_timestamp: 0.0 };
        let mut out = Vec::new();
        encode(&Arc::new(snapshot), serving, format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn families_of_several_namespaces_stand_in_one_piece() {
        let counters = |text: &str| Some(parse_pairs(text.as_bytes()).unwrap());
        let foreign = |name: &str, text: &str| Namespace {
            place: Arc::new(Place {
                name: name.to_owned(),
                inode: 7,
                enter: "nsenter -t 1 -n".to_owned(),
                unit: String::new(),
            }),
            at: Instant::now(),
            snapshot: Arc::new(Snapshot { snmp: counters(text), ..Snapshot::default() }),
        };
        let read = vec![
            foreign("a \"b\"", "Tcp: OutSegs RetransSegs InSegs\nTcp: 2 3 4\n"),
            foreign("c", "Tcp: OutSegs\nTcp: 5\n"),
        ];
        for format in [Format::Text, Format::OpenMetrics] {
            let namespaces = Arc::new(Namespaces { read: read.clone(), ..Namespaces::default() });
            let snmp = counters("Tcp: OutSegs InSegs\nTcp: 1 9\n");
            let text =
                written(Snapshot { snmp, namespaces: Some(namespaces), ..Snapshot::default() }, format);
            let lines: Vec<_> = text.lines().filter(|line| line.starts_with("nettune_tcp_seg")).collect();
            let expected = [
                "nettune_tcp_segments_sent_total 1",
                "nettune_tcp_segments_sent_total{netns=\"a \\\"b\\\"\"} 2",
                "nettune_tcp_segments_sent_total{netns=\"c\"} 5",
                // Not one that a diagnosis looks at.
                "nettune_tcp_segments_received_total 9",
                // The own namespace has none.
                "nettune_tcp_segments_retransmitted_total{netns=\"a \\\"b\\\"\"} 3",
            ];
            assert_eq!(lines, expected, "{format:?}");
            assert_eq!(text.matches("# TYPE nettune_tcp_segments_sent").count(), 1);
        }
    }
}
