//! Changes of parameters: what is noticed from look to look, and what is remembered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::read::place::Place;
use crate::read::sysctl::Value;

/// Changes are remembered as long as their records take no more than this, bytes, the
/// oldest going first; the last one of each parameter stays. A change takes about 200.
pub const KEPT: usize = 512 << 10;

/// That nothing changed is recorded this often: it is from when on a change is looked
/// for, should the exporter end without a word.
pub const SEEN_EVERY: Duration = Duration::from_secs(600);

/// A moment by the wall clock, which may be set, and by one that only goes on.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// In whole milliseconds, as records have it.
    pub wall: Timestamp,
    /// Stands still while the host is suspended.
    pub steady: Instant,
}

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        let wall = Timestamp::now();
        // In range, since the nanoseconds are.
        let wall = Timestamp::from_millisecond(wall.as_millisecond()).unwrap_or(wall);
        Self { wall, steady: Instant::now() }
    }
}

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
    /// The boot in which the new value was first seen.
    pub boot: Option<String>,
}

impl Change {
    /// Bytes of its record, roughly.
    fn size(&self) -> usize {
        let value = |value: &Value| match value {
            Value::Numbers(numbers) => 8 * numbers.len(),
            Value::Text(text) => text.len(),
        };
        170 + self.parameter.len() + value(&self.from) + value(&self.to)
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
    /// A parameter is there that was not known before.
    Value {
        /// When it was seen.
        at: Timestamp,
        /// As sysctl(8) writes it.
        parameter: String,
        /// Its value.
        value: Value,
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

/// The last known value of a parameter.
#[derive(Debug)]
struct Known {
    value: Value,
    /// When it was last seen.
    wall: Timestamp,
    /// The same, of what this process saw.
    steady: Option<Instant>,
}

impl Known {
    /// When this was last seen, told at `now`. The wall clock alone would name a time
    /// after `now` where it was set back.
    fn seen_before(&self, now: Moment) -> Option<Timestamp> {
        if self.wall <= now.wall {
            return Some(self.wall);
        }
        let elapsed = now.steady.saturating_duration_since(self.steady?);
        now.wall.checked_sub(elapsed).ok()
    }
}

/// Last known values, and the changes that led to them.
#[derive(Debug, Default)]
pub struct Book {
    known: BTreeMap<String, Known>,
    /// In the order in which they were noticed, with their numbers.
    kept: VecDeque<(u64, Arc<Change>)>,
    /// Bytes of what is kept.
    size: usize,
    /// The last change of each parameter, whether it is still among those kept or not.
    latest: BTreeMap<String, (u64, Arc<Change>)>,
    next: u64,
    /// Where the records that were played back end.
    past: Place,
    /// When and where was looked last, by this process or by the one before.
    seen: Option<(Timestamp, Place)>,
    /// When that was last recorded.
    recorded: Option<Instant>,
    /// No change is kept but the last of each parameter.
    brief: bool,
    /// Of what changed before the first look of this process, the value before that; of
    /// changes in this boot only.
    before: Option<BTreeMap<String, Value>>,
}

impl Book {
    /// A book that keeps only the last change of each parameter that is there.
    pub fn of_last_changes() -> Self {
        Self { brief: true, ..Self::default() }
    }

    /// Plays back records of another process, before the first look of this one.
    pub fn restore(&mut self, records: impl IntoIterator<Item = Record>) {
        let mut last = None;
        for record in records {
            last = Some(record.at());
            match record {
                Record::Seen { place, .. } => self.past = place,
                Record::Value { at, parameter, value } => self.know(parameter, value, at),
                Record::Gone { parameter, .. } => _ = self.known.remove(&parameter),
                Record::Change(change) => {
                    self.know(change.parameter.clone(), change.to.clone(), change.at);
                    self.keep(change);
                }
            }
        }
        // What did not change was seen all the same.
        let Some(last) = last else { return };
        self.known.values_mut().for_each(|known| known.wall = last);
        self.seen = Some((last, self.past.clone()));
        self.forget();
    }

    fn know(&mut self, parameter: String, value: Value, wall: Timestamp) {
        self.known.insert(parameter, Known { value, wall, steady: None });
    }

    /// Takes in one look at all parameters, and gives what is to be written down. What
    /// a complete look did not find is gone: should it come back, with whatever value,
    /// that is no change by anybody.
    pub fn observe<'v>(
        &mut self,
        now: Moment,
        place: &Place,
        found: impl IntoIterator<Item = (&'v str, &'v Value)>,
        complete: bool,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        let gap = gap(&self.past, place);
        for (parameter, value) in found {
            let Some(known) = self.known.get_mut(parameter) else {
                let (parameter, value, at) = (parameter.to_owned(), value.clone(), now.wall);
                let known = Known { value: value.clone(), wall: at, steady: Some(now.steady) };
                self.known.insert(parameter.clone(), known);
                records.push(Record::Value { at, parameter, value });
                continue;
            };
            let since = known.seen_before(now);
            known.wall = now.wall;
            let before = known.steady.replace(now.steady);
            if known.value != *value {
                let change = Arc::new(Change {
                    parameter: parameter.to_owned(),
                    from: std::mem::replace(&mut known.value, value.clone()),
                    to: value.clone(),
                    at: now.wall,
                    since,
                    kind: if before.is_some() { Kind::Change } else { gap },
                    boot: place.boot.clone(),
                });
                self.keep(Arc::clone(&change));
                records.push(Record::Change(change));
            }
        }
        if complete {
            self.known.retain(|parameter, known| {
                let found = known.steady == Some(now.steady);
                if !found {
                    records.push(Record::Gone { at: now.wall, parameter: parameter.clone() });
                }
                found
            });
        }
        if !records.is_empty() {
            self.forget();
        }
        if self.before.is_none() {
            let here = |change: &Change| change.boot.is_some() && change.boot == place.boot;
            let here = |change: &Change| here(change) && matches!(change.kind, Kind::Change | Kind::Offline);
            let before = self.latest.values().filter(|(_, change)| here(change));
            let before = before.map(|(_, change)| (change.parameter.clone(), change.from.clone()));
            self.before = Some(before.collect());
        }
        self.seen = Some((now.wall, place.clone()));
        let due = |last: Instant| now.steady.saturating_duration_since(last) >= SEEN_EVERY;
        if self.recorded.is_none_or(due) {
            self.recorded = Some(now.steady);
            records.extend(self.last_look());
        }
        records
    }

    fn keep(&mut self, change: Arc<Change>) {
        self.size += change.size();
        self.latest.insert(change.parameter.clone(), (self.next, Arc::clone(&change)));
        self.kept.push_back((self.next, change));
        self.next += 1;
        let most = if self.brief { 0 } else { KEPT };
        while self.size > most
            && let Some((_, oldest)) = self.kept.pop_front()
        {
            self.size -= oldest.size();
        }
    }

    /// Forgets the last changes of parameters that are gone, once they are no longer kept.
    fn forget(&mut self) {
        let first = self.first_kept();
        self.latest.retain(|parameter, (number, _)| *number >= first || self.known.contains_key(parameter));
    }

    fn first_kept(&self) -> u64 {
        self.kept.front().map_or(self.next, |(number, _)| *number)
    }

    /// The last look, as it is recorded; `None` before the first.
    pub fn last_look(&self) -> Option<Record> {
        let (at, place) = self.seen.clone()?;
        Some(Record::Seen { at, place })
    }

    /// Records that give this book when they are played back, and no others.
    pub fn records(&self) -> Vec<Record> {
        let values = self.known.iter().map(|(parameter, known)| Record::Value {
            at: known.wall,
            parameter: parameter.clone(),
            value: known.value.clone(),
        });
        self.changes().into_iter().map(Record::Change).chain(values).chain(self.last_look()).collect()
    }

    /// Changes that are remembered, the oldest first.
    pub fn changes(&self) -> Vec<Arc<Change>> {
        let first = self.first_kept();
        let mut older: Vec<_> = self.latest.values().filter(|(number, _)| *number < first).collect();
        older.sort_by_key(|(number, _)| *number);
        older.into_iter().chain(&self.kept).map(|(_, change)| Arc::clone(change)).collect()
    }

    /// How many these are.
    pub fn len(&self) -> usize {
        let first = self.first_kept();
        self.kept.len() + self.latest.values().filter(|(number, _)| *number < first).count()
    }

    /// Whether no change is remembered.
    pub fn is_empty(&self) -> bool {
        self.latest.is_empty()
    }

    /// The last change of a parameter.
    pub fn latest(&self, parameter: &str) -> Option<&Arc<Change>> {
        self.latest.get(parameter).map(|(_, change)| change)
    }

    /// The value that a parameter had before the last change that came before the first
    /// look of this process and belongs to this boot and namespace: what listens now may
    /// come from that time.
    pub fn before_start(&self, parameter: &str) -> Option<&Value> {
        self.before.as_ref()?.get(parameter)
    }
}

/// What lies between two processes in these places. What is not told of both is taken
/// to be the same.
fn gap(before: &Place, now: &Place) -> Kind {
    let differ =
        |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
    if differ(&before.boot, &now.boot) {
        Kind::Reboot
    } else if differ(&before.namespace, &now.namespace) {
        Kind::Namespace
    } else {
        Kind::Offline
    }
}

#[cfg(test)]
mod tests;
