//! What is written down of parameters and their changes.

use std::sync::Arc;

use jiff::Timestamp;

use crate::read::place::Place;
use crate::read::sysctl::Value;

/// What was between two looks that gave different values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Time alone: the exporter ran.
    Change,
    /// A time in which no exporter ran.
    Offline,
    /// The same, and the exporter is in another network namespace than before.
    Namespace,
    /// A boot, which sets every parameter anew.
    Reboot,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Change, Self::Offline, Self::Namespace, Self::Reboot];

    /// The word that records use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Offline => "offline",
            Self::Namespace => "namespace",
            Self::Reboot => "reboot",
        }
    }
}

/// A parameter had one value at one look, and another at the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// As sysctl(8) writes it.
    pub parameter: String,
    /// Before.
    pub from: Value,
    /// After.
    pub to: Value,
    /// When the new value was first seen.
    pub at: Timestamp,
    /// When the old one was last seen; `None` where the clock was set back meanwhile and
    /// nothing else tells.
    pub since: Option<Timestamp>,
    /// What was between.
    pub kind: Kind,
    /// Where the new value was first seen.
    pub place: Place,
}

impl Change {
    /// Bytes of its record, roughly.
    pub(super) fn size(&self) -> usize {
        let value = |value: &Value| match value {
            Value::Numbers(numbers) => 8 * numbers.len(),
            Value::Text(text) => text.len(),
        };
        205 + self.parameter.len() + value(&self.from) + value(&self.to)
    }
}

/// What is written down; played back in order, the book is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Every parameter was looked at, here.
    Seen {
        /// When.
        at: Timestamp,
        /// Where.
        place: Place,
    },
    /// A parameter is there that was not known before, or is that of another device.
    Value {
        /// When it was seen.
        at: Timestamp,
        /// As sysctl(8) writes it.
        parameter: String,
        /// Its value.
        value: Value,
        /// The index number of the device it belongs to.
        device: Option<u32>,
    },
    /// A parameter is no longer there.
    Gone {
        /// When it was missed.
        at: Timestamp,
        /// As sysctl(8) writes it.
        parameter: String,
    },
    /// A parameter has another value than before.
    Change(Arc<Change>),
}

impl Record {
    /// When it was made.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Seen { at, .. } | Self::Value { at, .. } | Self::Gone { at, .. } => *at,
            Self::Change(change) => change.at,
        }
    }
}
