//! Changes of parameters: what is noticed from look to look, and what is remembered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::read::place::Place;
use crate::read::sysctl::Value;

mod record;

pub use record::{Change, Kind, Record};

/// Changes are remembered as long as their records take no more than this, bytes, the
/// oldest going first; the last one of each parameter stays. A change takes about 240.
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

/// A parameter as one look finds it.
#[derive(Debug, Clone, Copy)]
pub struct Found<'v> {
    /// As sysctl(8) writes it.
    pub parameter: &'v str,
    /// Its value.
    pub value: &'v Value,
    /// The index number of the device it belongs to, of one that does.
    pub device: Option<u32>,
}

/// The last known value of a parameter.
#[derive(Debug)]
struct Known {
    value: Value,
    device: Option<u32>,
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
    /// changes in this boot and namespace only.
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
                Record::Value { at, parameter, value, device } => {
                    self.known.insert(parameter, Known { value, device, wall: at, steady: None });
                }
                Record::Gone { parameter, .. } => _ = self.known.remove(&parameter),
                Record::Change(change) => {
                    let device = self.known.get(&change.parameter).and_then(|known| known.device);
                    let known = Known { value: change.to.clone(), device, wall: change.at, steady: None };
                    self.known.insert(change.parameter.clone(), known);
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

    /// Takes in one look at all parameters, and gives what is to be written down. What
    /// a complete look did not find is gone: should it come back, with whatever value,
    /// that is no change by anybody; nor is it where a device has made way for another of
    /// its name.
    pub fn observe<'v>(
        &mut self,
        now: Moment,
        place: &Place,
        found: impl IntoIterator<Item = Found<'v>>,
        complete: bool,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        let mut kept = Vec::new();
        let gap = gap(&self.past, place);
        for Found { parameter, value, device } in found {
            let fresh = || Known { value: value.clone(), device, wall: now.wall, steady: Some(now.steady) };
            let record = || {
                let (parameter, value) = (parameter.to_owned(), value.clone());
                Record::Value { at: now.wall, parameter, value, device }
            };
            let Some(known) = self.known.get_mut(parameter) else {
                self.known.insert(parameter.to_owned(), fresh());
                records.push(record());
                continue;
            };
            let since = known.seen_before(now);
            known.wall = now.wall;
            let before = known.steady.replace(now.steady);
            // Numbers of devices say something within one namespace of one boot.
            let is_here = before.is_some() || gap == Kind::Offline;
            let is_another = known.device.is_some() && device.is_some() && known.device != device;
            if is_here && is_another {
                *known = fresh();
                records.push(record());
                continue;
            }
            if known.value != *value {
                let change = Arc::new(Change {
                    parameter: parameter.to_owned(),
                    from: std::mem::replace(&mut known.value, value.clone()),
                    to: value.clone(),
                    at: now.wall,
                    since,
                    kind: if before.is_some() { Kind::Change } else { gap },
                    place: place.clone(),
                });
                records.push(Record::Change(Arc::clone(&change)));
                kept.push(change);
            }
            if device.is_some() && known.device != device {
                known.device = device;
                records.push(record());
            }
        }
        kept.into_iter().for_each(|change| self.keep(change));
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
            let here = |change: &Change| {
                let is_here = change.place.boot.is_some() && self::gap(&change.place, place) == Kind::Offline;
                is_here && matches!(change.kind, Kind::Change | Kind::Offline)
            };
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
        let gone = self.latest.values().filter(|(_, change)| !self.known.contains_key(&change.parameter));
        let gone = gone.map(|(_, change)| {
            let at = self.seen.as_ref().map_or(change.at, |(at, _)| *at);
            Record::Gone { at, parameter: change.parameter.clone() }
        });
        let values = self.known.iter().map(|(parameter, known)| Record::Value {
            at: known.wall,
            parameter: parameter.clone(),
            value: known.value.clone(),
            device: known.device,
        });
        let changes = self.changes().into_iter().map(Record::Change);
        changes.chain(gone).chain(values).chain(self.last_look()).collect()
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

    /// The change that led to this value of a parameter; `None` without one, and where it
    /// was gone since and has another value.
    pub fn last_change(&self, parameter: &str, value: &Value) -> Option<&Arc<Change>> {
        self.latest.get(parameter).map(|(_, change)| change).filter(|change| change.to == *value)
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
