//! Samples of other network namespaces, kept until their family is written.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Label, Metric, Value};

/// Samples of foreign namespaces by family.
#[derive(Debug, Default)]
pub(in crate::metrics) struct Recording(BTreeMap<&'static str, Vec<Foreign>>);

impl Recording {
    /// Keeps samples of a namespace.
    pub(super) fn add<'l, const N: usize, V: Into<Value>>(
        &mut self,
        metric: &Metric,
        namespace: &Rc<str>,
        samples: impl IntoIterator<Item = ([Label<'l>; N], V)>,
    ) {
        let kept = samples.into_iter().map(|(values, value)| Foreign {
            namespace: Rc::clone(namespace),
            labels: values.map(Kept::from).into(),
            value: value.into(),
        });
        self.0.entry(metric.name).or_default().extend(kept);
    }

    /// Samples of a family, which are then written.
    pub(super) fn take(&mut self, metric: &Metric) -> Vec<Foreign> {
        self.0.remove(metric.name).unwrap_or_default()
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Foreign {
    namespace: Rc<str>,
    labels: Box<[Kept]>,
    value: Value,
}

impl Foreign {
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn labels(&self) -> Vec<Label<'_>> {
        self.labels.iter().map(Kept::label).collect()
    }

    pub(super) fn value(&self) -> Value {
        self.value
    }
}

/// The value of a label.
#[derive(Debug)]
enum Kept {
    Text(Box<str>),
    Number(u64),
}

impl Kept {
    fn label(&self) -> Label<'_> {
        match self {
            Self::Text(text) => Label::Text(text),
            Self::Number(number) => Label::Number(*number),
        }
    }
}

impl From<Label<'_>> for Kept {
    fn from(label: Label<'_>) -> Self {
        match label {
            Label::Text(text) => Self::Text(text.into()),
            Label::Number(number) => Self::Number(number),
        }
    }
}
