//! The form of the ledger's file: one JSON object a line, each with the version of the
//! form, so that a line means the same wherever it stands.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kernel::Malformed;
use crate::model::changes::{Change, Kind, Record};
use crate::read::place::Place;
use crate::read::sysctl::Value;

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// A value: a number, several, or a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Plain<'a> {
    Number(i64),
    Numbers(Vec<i64>),
    Text(#[serde(borrow)] Cow<'a, str>),
}

impl<'a> Plain<'a> {
    pub(super) fn new(value: &'a Value) -> Self {
        match value {
            Value::Numbers(numbers) => match numbers[..] {
                [number] => Self::Number(number),
                _ => Self::Numbers(numbers.clone()),
            },
            Value::Text(text) => Self::Text(text.into()),
        }
    }

    fn value(self) -> Value {
        match self {
            Self::Number(number) => Value::Numbers(vec![number]),
            Self::Numbers(numbers) => Value::Numbers(numbers),
            Self::Text(text) => Value::Text(text.into_owned()),
        }
    }
}

/// What may stand in a line; `kind` says what does.
#[derive(Debug, Serialize, Deserialize)]
struct Line<'a> {
    v: u32,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    boot: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    parameter: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u32>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    from: Option<Plain<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    to: Option<Plain<'a>>,
}

/// Adds the line of a record, with its newline, to `text`.
pub(super) fn write(record: &Record, text: &mut String) {
    let mut line = Line {
        v: VERSION,
        at: record.at(),
        since: None,
        kind: "".into(),
        boot: None,
        namespace: None,
        parameter: None,
        device: None,
        from: None,
        to: None,
    };
    let place = match record {
        Record::Seen { place, .. } => Some(place),
        Record::Change(change) => Some(&change.place),
        Record::Value { .. } | Record::Gone { .. } => None,
    };
    if let Some(place) = place {
        line.boot = place.boot.as_deref().map(Cow::from);
        line.namespace = place.namespace.as_deref().map(Cow::from);
    }
    match record {
        Record::Seen { .. } => line.kind = "seen".into(),
        Record::Value { parameter, value, device, .. } => {
            line.kind = "value".into();
            line.parameter = Some(parameter.into());
            line.device = *device;
            line.to = Some(Plain::new(value));
        }
        Record::Gone { parameter, .. } => {
            line.kind = "gone".into();
            line.parameter = Some(parameter.into());
        }
        Record::Change(change) => {
            line.kind = change.kind.name().into();
            line.since = change.since;
            line.parameter = Some((&change.parameter).into());
            (line.from, line.to) = (Some(Plain::new(&change.from)), Some(Plain::new(&change.to)));
        }
    }
    // Fails for maps with odd keys and for writers that fail; here is neither.
    if let Ok(line) = serde_json::to_string(&line) {
        text.push_str(&line);
        text.push('\n');
    }
}

/// What was read of a ledger's file.
#[derive(Debug, Default)]
pub struct Lines {
    /// Everything that is whole, in order.
    pub records: Vec<Record>,
    /// Lines that are not, but for one that the end cuts.
    pub unreadable: u64,
    /// The first of them.
    pub first: Option<Malformed>,
    /// The last line is cut: its writing was interrupted, or goes on at this moment.
    pub cut: bool,
    /// Whether the file ends where a line does, so that one can be added.
    pub ends_well: bool,
}

/// Parses a whole file. A line that is not as it should be is left out and counted; no
/// bytes are an error.
pub fn parse(bytes: &[u8]) -> Lines {
    let ends_well = bytes.last().is_none_or(|last| *last == b'\n');
    let mut read = Lines { ends_well, ..Lines::default() };
    let mut rest = bytes.split(|byte| *byte == b'\n').peekable();
    let mut number = 0;
    while let Some(line) = rest.next() {
        number += 1;
        match parse_line(line) {
            // As behind the last newline.
            _ if line.is_empty() => {}
            Ok(record) => read.records.push(record),
            // No line of ours starts otherwise, wherever it ends.
            Err(_) if rest.peek().is_none() && line.starts_with(b"{") => read.cut = true,
            Err((item, expected)) => {
                read.unreadable += 1;
                read.first.get_or_insert_with(|| Malformed::new(number, item, expected, line));
            }
        }
    }
    read
}

/// The error is an item and what was expected of it.
fn parse_line(line: &[u8]) -> Result<Record, (&'static str, &'static str)> {
    let line: Line<'_> =
        serde_json::from_slice(line).map_err(|_| ("record", "a JSON object with v, at, kind and more"))?;
    if line.v != VERSION {
        return Err(("v", "version 1"));
    }
    let at = line.at;
    let of_kind = Kind::ALL.into_iter().find(|kind| kind.name() == line.kind);
    let place =
        Place { boot: line.boot.map(Cow::into_owned), namespace: line.namespace.map(Cow::into_owned) };
    if line.kind == "seen" {
        return Ok(Record::Seen { at, place });
    }
    let parameter = line.parameter.ok_or(("parameter", "a name"))?.into_owned();
    let value = |plain: Option<Plain<'_>>| plain.map(Plain::value);
    match (of_kind, &*line.kind) {
        (Some(kind), _) => {
            let from = value(line.from).ok_or(("from", "a value"))?;
            let to = value(line.to).ok_or(("to", "a value"))?;
            Ok(Record::Change(Arc::new(Change { parameter, from, to, at, since: line.since, kind, place })))
        }
        (None, "value") => {
            let value = value(line.to).ok_or(("to", "a value"))?;
            Ok(Record::Value { at, parameter, value, device: line.device })
        }
        (None, "gone") => Ok(Record::Gone { at, parameter }),
        _ => Err(("kind", "seen, value, gone, change, offline, namespace or reboot")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: Value, to: Value) -> Record {
        Record::Change(Arc::new(Change {
            parameter: "net.ipv4.tcp_rmem".into(),
            from,
            to,
            at: Timestamp::from_millisecond(1_700_000_000_123).unwrap(),
            since: Some(Timestamp::from_second(1_699_999_985).unwrap()),
            kind: Kind::Change,
            place: Place { boot: Some("b".into()), namespace: Some("n".into()) },
        }))
    }

    fn text(record: &Record) -> String {
        let mut text = String::new();
        write(record, &mut text);
        text
    }

    #[test]
    fn a_person_can_read_a_line() {
        let record = change(Value::Numbers(vec![1, 2, 3]), Value::Numbers(vec![4]));
        let expected = "{\"v\":1,\"at\":\"2023-11-14T22:13:20.123Z\",\"since\":\"2023-11-14T22:13:05Z\",\
                        \"kind\":\"change\",\"boot\":\"b\",\"namespace\":\"n\",\
                        \"parameter\":\"net.ipv4.tcp_rmem\",\"from\":[1,2,3],\"to\":4}\n";
        assert_eq!(text(&record), expected);
    }

    #[test]
    fn every_record_survives_the_way_round() {
        let at = Timestamp::from_second(7).unwrap();
        let odd = Value::Text("a\"b\\c\n\t\u{1b}\u{2028}é".into());
        let place = Place { boot: Some("b".into()), namespace: None };
        let records = [
            Record::Seen { at, place },
            Record::Value {
                at,
                parameter: "net.ipv4.conf.a/1.rp_filter".into(),
                value: odd.clone(),
                device: Some(7),
            },
            Record::Value { at, parameter: "y".into(), value: odd.clone(), device: None },
            Record::Gone { at, parameter: "x".into() },
            change(odd, Value::Numbers(vec![i64::MIN, i64::MAX])),
            change(Value::Text(String::new()), Value::Numbers(vec![])),
        ];
        let all: String = records.iter().map(text).collect();
        assert_eq!(all.lines().count(), records.len(), "{all}");
        let read = parse(all.as_bytes());
        assert_eq!((read.records, read.unreadable, read.ends_well), (records.to_vec(), 0, true));
    }

    #[test]
    fn what_is_whole_around_a_bad_line_is_read() {
        let good = text(&change(Value::Numbers(vec![1]), Value::Numbers(vec![2])));
        for (bad, item) in [
            ("\u{0}\u{0}\u{0}", "record"),
            ("{\"v\":1", "record"),
            ("[]", "record"),
            ("{\"v\":2,\"at\":\"2023-11-14T22:13:20Z\",\"kind\":\"gone\",\"parameter\":\"x\"}", "v"),
            ("{\"v\":1,\"at\":\"2023-11-14T22:13:20Z\",\"kind\":\"moved\",\"parameter\":\"x\"}", "kind"),
            ("{\"v\":1,\"at\":\"2023-11-14T22:13:20Z\",\"kind\":\"gone\"}", "parameter"),
            ("{\"v\":1,\"at\":\"2023-11-14T22:13:20Z\",\"kind\":\"value\",\"parameter\":\"x\"}", "to"),
            ("{\"v\":1,\"at\":\"yesterday\",\"kind\":\"gone\",\"parameter\":\"x\"}", "record"),
        ] {
            let read = parse(format!("{good}{bad}\n{good}").as_bytes());
            assert_eq!((read.records.len(), read.unreadable), (2, 1), "{bad}");
            let first = read.first.unwrap();
            assert_eq!((first.line, first.item.as_str()), (2, item), "{bad}");
        }
        // Nor is what a file system may leave of a file after a crash a line that is cut.
        let read = parse(format!("{good}{}", "\0".repeat(100)).as_bytes());
        assert_eq!((read.unreadable, read.cut, read.first.unwrap().line), (1, false, 2));
        let deep = "[".repeat(100_000) + "\n";
        assert_eq!(parse(deep.as_bytes()).unreadable, 1);
    }

    #[test]
    fn of_a_cut_file_the_last_line_at_most_is_lost() {
        let line = text(&change(Value::Numbers(vec![1]), Value::Text("x".into())));
        let whole = line.repeat(3);
        for length in 0..=whole.len() {
            let read = parse(&whole.as_bytes()[..length]);
            // The newline alone may be missing.
            let lines = (length + 1) / line.len();
            assert_eq!(read.records.len(), lines, "{length}");
            assert_eq!(read.ends_well, length % line.len() == 0, "{length}");
            assert_eq!((read.unreadable, read.cut), (0, (length + 1) % line.len() > 1), "{length}");
        }
    }
}
