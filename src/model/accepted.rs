//! What people know better than the rules.

use jiff::Timestamp;

/// A finding that somebody accepted, with the reason, for some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Name of the alert.
    pub alert: String,
    /// The network namespace it is about, where it is another than the exporter's.
    pub netns: Option<String>,
    /// One label of the alert and its value, where it is about one only.
    pub of: Option<(&'static str, String)>,
    /// Why.
    pub reason: String,
    /// Until when.
    pub until: Timestamp,
}

impl Accepted {
    /// Whether it still holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        now < self.until
    }
}
