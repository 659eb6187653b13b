//! The only place where metric names and their help live; one file a family
//! group. Each names its families once, as [`Metric`] constants that both the
//! exposition and `docs/metrics.md` are made from.

mod counters;
mod devices;
mod exporter;
mod hosts;
mod receive;
mod sockets;
mod sysctl;
mod tables;
mod writer;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::registry::Registry;

use crate::model::Snapshot;

pub use exporter::Serving;
use writer::Writer;
pub use writer::{Kind, Metric};

/// A text format of the exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4
    Text,
    /// OpenMetrics text 1.0
    OpenMetrics,
}

impl Format {
    /// Value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The exposition of `snapshot`, whole.
///
/// # Errors
/// The encoder refused a value; nothing of what we export can make it do so.
pub fn encode(snapshot: &Arc<Snapshot>, serving: Serving, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition {
        snapshot: Arc::clone(snapshot),
        serving,
    }));
    // About what a busy host takes, so that the text seldom moves in memory.
    let mut body = String::with_capacity(256 << 10);
    match format {
        Format::Text => prometheus_text::encode(&mut body, &registry)?,
        Format::OpenMetrics => text::encode(&mut body, &registry)?,
    }
    Ok(body)
}

#[derive(Debug)]
struct Exposition {
    snapshot: Arc<Snapshot>,
    serving: Serving,
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut out = Writer::new(encoder);
        let snapshot = &self.snapshot;
        exporter::write(&mut out, snapshot, &self.serving)?;
        hosts::write(&mut out, snapshot)?;
        counters::write(&mut out, snapshot)?;
        sockets::write(&mut out, snapshot)?;
        receive::write(&mut out, snapshot)?;
        devices::write(&mut out, snapshot)?;
        tables::write(&mut out, snapshot)?;
        sysctl::write(&mut out, snapshot)
    }
}

/// Every family the exporter knows, in the order of the exposition.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let groups = [exporter::METRICS, hosts::METRICS];
    let more = [
        sockets::METRICS,
        receive::METRICS,
        devices::METRICS,
        tables::METRICS,
        sysctl::METRICS,
    ];
    groups
        .into_iter()
        .flatten()
        .copied()
        .chain(counters::metrics())
        .chain(more.into_iter().flatten().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_help_are_in_order() {
        let mut names = Vec::new();
        for metric in all() {
            let name = metric.name;
            assert!(
                name.starts_with("nettune_") || name.starts_with("process_"),
                "{name}"
            );
            assert!(!names.contains(&name), "{name} is defined twice");
            names.push(name);
            let (counter, total) = (metric.kind == Kind::Counter, name.ends_with("_total"));
            // node_exporter's peers name this one without a unit of their own.
            assert_eq!(counter, total, "{name}");
            assert_eq!(metric.kind == Kind::Info, name.ends_with("_info"), "{name}");
            assert!(
                !metric.help.is_empty() && metric.help.ends_with('.'),
                "{name}: help is a sentence"
            );
            // The OpenMetrics encoder does not escape help.
            assert!(
                !metric.help.contains(['\n', '\\', '"']),
                "{name}: help needs escaping"
            );
        }
    }
}
