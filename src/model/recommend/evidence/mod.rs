//! What was seen of a host, or of a network namespace, in the last hour.

mod host;
mod receive;
mod sockets;
mod time;

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use super::known;
use crate::catalogue::Sign;
use crate::model::Snapshot;
use crate::model::connections::paths::PathId;
use crate::read::sysctl::Value;

use host::Host;
use receive::Receive;
use sockets::Sockets;
use time::HOUR;

/// What is seen so soon after a parameter was changed may be from before, since sockets
/// are looked at from time to time.
const GRACE: Duration = Duration::from_secs(60);

/// A path and an algorithm, by number, where a sign is seen of these; else zeros.
pub(super) type Key = (PathId, u8);

/// When something was last seen, and as a clause with its numbers.
#[derive(Debug, Clone)]
pub(super) struct Sighting {
    at: Instant,
    pub(super) what: String,
}

/// Everything that formulas rest on, kept from look to look.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Time between two looks at the same connections.
    interval: Duration,
    signs: Signs,
    values: HashMap<&'static str, Known>,
    /// Whether this kernel has the queueing discipline fq, in use or not.
    pub(super) has_pacing_discipline: bool,
    pub(super) sockets: Sockets,
    pub(super) host: Host,
    pub(super) receive: Receive,
}

#[derive(Debug, Default)]
struct Signs(BTreeMap<(Sign, Key), Sighting>);

impl Signs {
    fn note(&mut self, now: Instant, sign: Sign, key: Key, what: String) {
        self.0.insert((sign, key), Sighting { at: now, what });
    }
}

/// The running value of a parameter as a hash, since there may be hundreds of namespaces,
/// and when it was first seen to be another one.
#[derive(Debug)]
struct Known {
    value: u64,
    changed: Option<Instant>,
}

impl Evidence {
    /// Nothing seen yet, on a kernel that has the queueing discipline fq or has not.
    pub fn new(has_pacing_discipline: bool) -> Self {
        Self { has_pacing_discipline, ..Self::default() }
    }

    /// Takes in what was read at one time; `interval` is the time between two looks at
    /// the same connections.
    pub fn observe(&mut self, now: Instant, snapshot: &Snapshot, interval: Duration) {
        self.interval = interval;
        self.notice_changes(now, snapshot);
        self.sockets.observe(now, snapshot, &mut self.signs);
        self.host.observe(now, snapshot, &mut self.signs);
        self.receive.observe(now, snapshot, &mut self.signs);
        self.signs.0.retain(|_, sighting| now.saturating_duration_since(sighting.at) <= HOUR);
    }

    fn notice_changes(&mut self, now: Instant, snapshot: &Snapshot) {
        for state in snapshot.parameters.iter().flatten() {
            let Some(parameter) = known(&state.name).filter(|known| known.name == state.name) else {
                continue;
            };
            let value = hash(&state.value);
            let new = || Known { value, changed: None };
            let known = self.values.entry(&parameter.name).or_insert_with(new);
            if known.value != value {
                *known = Known { value, changed: Some(now) };
            }
        }
    }

    /// Where a sign was seen while the parameter had the value that it has now.
    pub(super) fn sightings(&self, sign: Sign, parameter: &str) -> impl Iterator<Item = (Key, &Sighting)> {
        let changed = self.values.get(parameter).and_then(|known| known.changed);
        let fresh = changed.map(|at| at + GRACE.max(2 * self.interval));
        let all = self.signs.0.range((sign, Key::default())..=(sign, (u8::MAX, u8::MAX)));
        let all = all.filter(move |(_, sighting)| fresh.is_none_or(|fresh| sighting.at >= fresh));
        all.map(|((_, key), sighting)| (*key, sighting))
    }

    /// The same of a sign that is not of a path.
    pub(super) fn sighting(&self, sign: Sign, parameter: &str) -> Option<&Sighting> {
        self.sightings(sign, parameter).next().map(|(_, sighting)| sighting)
    }
}

fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
const ALL: [Sign; 28] = [
    Sign::AcceptQueueFull,
    Sign::SynQueueFull,
    Sign::CookiesReturned,
    Sign::SynsDropped,
    Sign::TimeWaitOverflow,
    Sign::PortsInTimeWait,
    Sign::PortsInUse,
    Sign::OrphanedFinWait2,
    Sign::OrphansMany,
    Sign::SendBufferAtMaximum,
    Sign::SendBufferClamped,
    Sign::SendBufferWithheld,
    Sign::ReceiveBufferAtMaximum,
    Sign::ReceiveBufferClamped,
    Sign::TcpMemoryShort,
    Sign::UdpMemoryShort,
    Sign::LossOnLongPath,
    Sign::IdleRestart,
    Sign::FullSegmentsStall,
    Sign::SegmentsShrunk,
    Sign::DatagramsDropped,
    Sign::DatagramsDroppedAtLimit,
    Sign::BacklogDrops,
    Sign::ReceiveLoss,
    Sign::BudgetExhausted,
    Sign::LongChains,
    Sign::ReversePathDrops,
    Sign::BbrInUse,
];

#[cfg(test)]
impl Evidence {
    /// Something was seen.
    pub(super) fn sign(&mut self, now: Instant, sign: Sign) {
        self.signs.note(now, sign, Key::default(), "something was seen".into());
    }

    /// Everything was seen, of these sizes.
    pub(super) fn arbitrary(now: Instant, [one, two, three, four]: [u64; 4]) -> Self {
        let mut evidence = Self::new(one % 2 == 0);
        ALL.into_iter().for_each(|sign| evidence.sign(now, sign));
        evidence.host.fill(now, [one, two, three, four]);
        evidence.sockets.fill(now, [four, three, two, one]);
        (evidence.receive.has_flow_tables, evidence.receive.is_unpaced) = (true, true);
        evidence
    }
}
