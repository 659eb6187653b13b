//! Changes as people and programs read them.

use std::borrow::Borrow;

use jiff::Timestamp;
use serde::Serialize;

use super::line::Plain;
use crate::model::changes::{Change, Kind};
use crate::read::sysctl::Value;

/// A change on one line, without its time.
pub fn row(change: &Change) -> String {
    let (from, to) = (value(&change.from), value(&change.to));
    let between = match change.kind {
        Kind::Change => "",
        Kind::Offline => "while no exporter ran",
        Kind::Namespace => "in another network namespace than before",
        Kind::Reboot => "by a reboot",
    };
    let since = change.since.map(|since| format!(", after {}", time(since))).unwrap_or_default();
    let note = if between.is_empty() { String::new() } else { format!(" ({between}{since})") };
    // Interfaces may be called anything.
    format!("{}: {from} → {to}{note}", printable(&change.parameter))
}

/// Changes for people, one a line, in the given order.
pub fn text<C: Borrow<Change>>(changes: impl IntoIterator<Item = C>) -> String {
    let lines = changes.into_iter().map(|change| {
        let change = change.borrow();
        format!("{}  {}\n", time(change.at), row(change))
    });
    let text: String = lines.collect();
    if text.is_empty() { "no changes\n".to_owned() } else { text }
}

/// As in the ledger's file, to the second.
fn time(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// As sysctl(8) prints it; what cannot be printed is escaped.
fn value(value: &Value) -> String {
    match value {
        Value::Numbers(numbers) => numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" "),
        Value::Text(text) if text.is_empty() => "(empty)".to_owned(),
        Value::Text(text) => printable(text),
    }
}

fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// All changes as one JSON object, in the given order.
pub fn json<C: Borrow<Change>>(changes: impl IntoIterator<Item = C>) -> String {
    #[derive(Serialize)]
    struct Shown<'c> {
        at: Timestamp,
        since: Option<Timestamp>,
        kind: &'static str,
        parameter: &'c str,
        from: Plain<'c>,
        to: Plain<'c>,
    }
    #[derive(Serialize)]
    struct All<'c> {
        version: u32,
        changes: Vec<Shown<'c>>,
    }
    let changes: Vec<C> = changes.into_iter().collect();
    let shown = changes.iter().map(|change| {
        let change = change.borrow();
        Shown {
            at: change.at,
            since: change.since,
            kind: change.kind.name(),
            parameter: &change.parameter,
            from: Plain::new(&change.from),
            to: Plain::new(&change.to),
        }
    });
    // Nothing in these can fail.
    let mut json = serde_json::to_string(&All { version: 1, changes: shown.collect() }).unwrap_or_default();
    json.push('\n');
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::place::Place;

    #[test]
    fn changes_read_well() {
        let at = Timestamp::from_millisecond(1_700_000_000_900).unwrap();
        let mut change = Change {
            parameter: "net.ipv4.tcp_rmem".into(),
            from: Value::Numbers(vec![4096, 131072, 6291456]),
            to: Value::Text("\u{1b}[31m".into()),
            at,
            since: Some(Timestamp::from_second(1_699_999_985).unwrap()),
            kind: Kind::Change,
            place: Place::default(),
        };
        assert_eq!(
            text([&change]),
            "2023-11-14T22:13:20Z  net.ipv4.tcp_rmem: 4096 131072 6291456 → \\u{1b}[31m\n"
        );
        change.parameter = "net.ipv4.conf.\u{1b}[2Jx.rp_filter".into();
        assert!(row(&change).starts_with("net.ipv4.conf.\\u{1b}[2Jx.rp_filter: "));
        change.parameter = "net.ipv4.tcp_rmem".into();
        change.kind = Kind::Offline;
        change.to = Value::Text(String::new());
        assert_eq!(
            row(&change),
            "net.ipv4.tcp_rmem: 4096 131072 6291456 → (empty) (while no exporter ran, after 2023-11-14T22:13:05Z)"
        );
        change.since = None;
        assert!(row(&change).ends_with("(while no exporter ran)"));
        let parsed: serde_json::Value = serde_json::from_str(&json([&change])).unwrap();
        assert_eq!(parsed["version"], 1);
        assert_eq!(parsed["changes"][0]["from"][2], 6291456);
        assert_eq!(parsed["changes"][0]["kind"], "offline");
        assert_eq!(text([] as [&Change; 0]), "no changes\n");
    }
}
