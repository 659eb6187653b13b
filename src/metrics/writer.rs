//! From a definition and its samples to the encoder.
//!
//! Samples of other network namespaces are recorded first, family by family, since a
//! family must stand in one piece; each is then written behind those of our own.

mod recording;

use std::fmt::{self, Write};
use std::rc::Rc;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, LabelSetEncoder, LabelValueEncoder, MetricEncoder,
    NativeHistogram, NativeHistogramBuckets, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use recording::Foreign;
pub(super) use recording::Recording;

use crate::model::histogram::{Histogram, ZERO_THRESHOLD};

/// What a family's samples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, until the kernel, or what it counts, starts anew.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Always 1; the labels are the message.
    Info,
    /// Observations by size, each only rising.
    Histogram,
}

impl Kind {
    /// The word of `# TYPE` in the 0.0.4 text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge | Self::Info => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A family: its name as it is queried, and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// With prefix and suffix, as in a query.
    pub name: &'static str,
    /// What its samples are.
    pub kind: Kind,
    /// Names of its labels, in the order samples give their values.
    pub labels: &'static [&'static str],
    /// One sentence, with the kernel's own name where it has one.
    pub help: &'static str,
    /// Shown of other network namespaces as well: what a diagnosis of one looks at.
    pub everywhere: bool,
}

impl Metric {
    /// The same, shown of other network namespaces as well.
    pub(super) const fn everywhere(self) -> Self {
        Self { everywhere: true, ..self }
    }
}

/// A family, and what of a `T` its samples show.
pub(super) type Figure<T, V> = (&'static Metric, fn(&T) -> V);

/// A counter; the constructors are for tables of definitions.
pub(super) const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help, everywhere: false }
}

/// A gauge.
pub(super) const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help, everywhere: false }
}

/// An info.
pub(super) const fn info(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Info, labels, help, everywhere: false }
}

/// A histogram.
pub(super) const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Histogram, labels, help, everywhere: false }
}

/// The value of a label.
#[derive(Debug, Clone, Copy)]
pub(super) enum Label<'a> {
    Text(&'a str),
    Number(u64),
}

impl<'a> From<&'a str> for Label<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Label<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Label<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl EncodeLabelValue for Label<'_> {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => encoder.write_str(text),
            Self::Number(number) => EncodeLabelValue::encode(number, encoder),
        }
    }
}

/// The value of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Unsigned(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Unsigned(value.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Unsigned(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        u64::try_from(value).map_or(Self::Signed(value), Self::Unsigned)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// Names and values, and the name of a foreign namespace.
struct Labels<'a>(&'static [&'static str], &'a [Label<'a>], Option<&'a str>);

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let namespace = self.2.map(|name| (&"netns", Label::from(name)));
        let own = self.0.iter().zip(self.1.iter().copied());
        own.chain(namespace).try_for_each(|(name, value)| {
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            key.write_str(name)?;
            let mut written = key.encode_label_value()?;
            value.encode(&mut written)?;
            written.finish()
        })
    }
}

/// Writes families one after another.
pub(super) struct Writer<'a>(Sink<'a>);

enum Sink<'a> {
    /// The exposition, and what was recorded and is not yet in it.
    Exposition(DescriptorEncoder<'a>, Recording),
    /// The namespace of this name is being recorded.
    Recording(Rc<str>, Recording),
}

impl<'a> Writer<'a> {
    /// Writes the exposition, with what was recorded.
    pub(super) fn new(encoder: DescriptorEncoder<'a>, recording: Recording) -> Self {
        Self(Sink::Exposition(encoder, recording))
    }

    /// Records samples of a foreign namespace, behind those of others.
    pub(super) fn record(namespace: &str, recording: Recording) -> Self {
        Self(Sink::Recording(namespace.into(), recording))
    }

    /// What was recorded and not yet written.
    pub(super) fn recorded(self) -> Recording {
        match self.0 {
            Sink::Exposition(_, recording) | Sink::Recording(_, recording) => recording,
        }
    }

    /// Writes a family with its samples: label values in the order of
    /// [`Metric::labels`], and a value. A family without samples is left out.
    pub(super) fn family<'l, const N: usize, V: Into<Value>>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([Label<'l>; N], V)>,
    ) -> fmt::Result {
        debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
        match &mut self.0 {
            Sink::Recording(_, _) if !metric.everywhere => Ok(()),
            Sink::Recording(namespace, recording) => {
                recording.add(metric, namespace, samples);
                Ok(())
            }
            Sink::Exposition(encoder, recording) => {
                let foreign = recording.take(metric);
                write_family(encoder, metric, samples, &foreign)
            }
        }
    }

    /// Writes what was recorded of these families and is of foreign namespaces alone.
    pub(super) fn rest(&mut self, metrics: &[&Metric]) -> fmt::Result {
        metrics.iter().try_for_each(|metric| {
            let Sink::Exposition(encoder, recording) = &mut self.0 else { return Ok(()) };
            let foreign = recording.take(metric);
            write_family::<0, Value>(encoder, metric, [], &foreign)
        })
    }

    /// Writes a family of histograms, if there are any, classic and native; text has
    /// no form for the native one and the encoders leave it out there.
    pub(super) fn histograms<'l, 'h, const N: usize>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([Label<'l>; N], &'h Histogram)>,
    ) -> fmt::Result {
        // Those of foreign namespaces are not shown: they are large.
        let Sink::Exposition(encoder, _) = &mut self.0 else { return Ok(()) };
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut encoder = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Histogram)?;
        for (values, histogram) in samples {
            let classic: Vec<_> = histogram.classic().collect();
            let (spans, deltas) = spans(histogram.native().buckets());
            let native = NativeHistogram {
                schema: histogram.native().schema(),
                zero_threshold: ZERO_THRESHOLD,
                zero_count: histogram.native().zeros(),
                negative: NativeHistogramBuckets { spans: &[], deltas: &[] },
                positive: NativeHistogramBuckets { spans: &spans, deltas: &deltas },
                created: None,
            };
            let (sum, count, labels) =
                (histogram.sum, histogram.count(), Labels(metric.labels, &values, None));
            let mut sample = encoder.encode_family(&labels)?;
            sample.encode_histogram_with_native::<NoLabelSet>(sum, count, &classic, None, native)?;
        }
        Ok(())
    }

    /// Writes a family of one sample without labels; `None` leaves it out.
    pub(super) fn single<V: Into<Value>>(&mut self, metric: &Metric, value: Option<V>) -> fmt::Result {
        self.family(metric, value.map(|value| ([], value)))
    }
}

/// One family in one piece.
fn write_family<'l, const N: usize, V: Into<Value>>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    own: impl IntoIterator<Item = ([Label<'l>; N], V)>,
    foreign: &[Foreign],
) -> fmt::Result {
    let mut own = own.into_iter().peekable();
    if own.peek().is_none() && foreign.is_empty() {
        return Ok(());
    }
    // The encoder appends the suffix that a type demands.
    let (name, kind) = match metric.kind {
        Kind::Counter => (metric.name.trim_end_matches("_total"), MetricType::Counter),
        Kind::Gauge => (metric.name, MetricType::Gauge),
        Kind::Info => (metric.name.trim_end_matches("_info"), MetricType::Info),
        Kind::Histogram => (metric.name, MetricType::Histogram),
    };
    let mut encoder = encoder.encode_descriptor(name, metric.help, None, kind)?;
    let mut seen = std::collections::HashSet::new();
    for (values, value) in own {
        // A series that comes twice spoils a scrape; sources must not let it.
        debug_assert!(seen.insert(format!("{values:?}")), "{} {values:?} comes twice", metric.name);
        write_sample(&mut encoder, metric.kind, &Labels(metric.labels, &values, None), value.into())?;
    }
    for one in foreign {
        let (values, namespace) = (one.labels(), one.namespace());
        debug_assert!(seen.insert(format!("{namespace:?} {values:?}")), "{} comes twice", metric.name);
        let labels = Labels(metric.labels, &values, Some(namespace));
        write_sample(&mut encoder, metric.kind, &labels, one.value())?;
    }
    Ok(())
}

fn write_sample(
    encoder: &mut MetricEncoder<'_>,
    kind: Kind,
    labels: &Labels<'_>,
    value: Value,
) -> fmt::Result {
    if kind == Kind::Info {
        return encoder.encode_info(labels);
    }
    let mut sample = encoder.encode_family(labels)?;
    match (kind, value) {
        (Kind::Counter, Value::Unsigned(value)) => {
            sample.encode_counter::<NoLabelSet, u64, u64>(&value, None)
        }
        (Kind::Counter, Value::Float(value)) => sample.encode_counter::<NoLabelSet, f64, u64>(&value, None),
        // No counter of ours is negative; a gauge can be.
        (_, Value::Signed(value)) => sample.encode_gauge(&value),
        (_, Value::Unsigned(value)) => sample.encode_gauge(&value),
        (_, Value::Float(value)) => sample.encode_gauge(&value),
    }
}

/// Native buckets as the encoder takes them. A span is a run of buckets without a
/// gap: how many indices it starts after the end of the one before, or after 0, and
/// its length. A delta is a count less the count before it, or less 0.
fn spans(buckets: impl IntoIterator<Item = (i32, u64)>) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<(i32, u32)>::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for (index, count) in buckets {
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            _ => spans.push((index - next, 1)),
        }
        deltas.push(count.wrapping_sub(before).cast_signed());
        (next, before) = (index + 1, count);
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_runs_and_deltas_differences() {
        assert_eq!(spans([]), (vec![], vec![]));
        assert_eq!(spans([(0, 5)]), (vec![(0, 1)], vec![5]));
        assert_eq!(
            spans([(-3, 2), (-2, 7), (0, 1), (1, 1), (40, 9)]),
            (vec![(-3, 2), (1, 2), (38, 1)], vec![2, 5, -6, 0, 8])
        );
    }
}
