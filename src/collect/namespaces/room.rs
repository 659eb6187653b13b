//! One network namespace: the way in, what is kept open inside, and what was seen.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::pace::LONGEST;
use super::reader::{Common, Reader, Turn};
use crate::kernel::namespaces::Home;
use crate::kernel::netlink::Open;
use crate::kernel::{Error, Kernel, Result};
use crate::ledger::row;
use crate::model::Snapshot;
use crate::model::namespaces::{Chosen, Namespace, NotEntered};

/// A namespace that is read.
pub(super) struct Room {
    chosen: Chosen,
    since: Instant,
    open: Open,
    reader: Reader,
    seen: Option<(Instant, Arc<Snapshot>)>,
    failure: Option<Failure>,
    /// CPU time of the last visit, and of the last with a pass over connections.
    costs: [Duration; 2],
}

/// Why a namespace cannot be read at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Privilege,
    /// It went away, as far as is known before the next scan.
    Gone,
    Other,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            error if error.is_permission() => Self::Privilege,
            error if error.is_absent() => Self::Gone,
            _ => Self::Other,
        }
    }
}

impl Room {
    pub(super) fn new(chosen: Chosen, since: Instant) -> Self {
        Self {
            chosen,
            since,
            open: Open::default(),
            reader: Reader::default(),
            seen: None,
            failure: None,
            costs: [Duration::ZERO; 2],
        }
    }

    /// The same, as a later scan found it.
    pub(super) fn moved(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    pub(super) fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// When it is to be looked at again. The first visit is without sockets and not
    /// worth an interval.
    pub(super) fn due(&self, interval: Duration) -> Option<Instant> {
        let is_first = self.reader.pause.is_none() && self.failure.is_none();
        self.reader.visited.map(|visited| if is_first { visited } else { visited + interval })
    }

    /// When a pass over its connections is due, and when it must not wait any longer;
    /// `None` where there are none.
    pub(super) fn pass_due(&self, interval: Duration) -> Option<[Instant; 2]> {
        let is_known = self.reader.pause.is_some() && self.failure.is_none();
        let due = self.reader.passed.map_or(self.since, |passed| passed + interval);
        let latest = self.reader.passed.unwrap_or(self.since) + LONGEST;
        (is_known && self.reader.has.tcp).then_some([due, latest])
    }

    /// What a look and a pass, with the look that goes with it, are known to cost.
    pub(super) fn costs(&self) -> [Duration; 2] {
        let [look, pass] = self.costs;
        [look, if self.reader.has.tcp { pass } else { Duration::ZERO }]
    }

    /// As it was last seen, if it was.
    pub(super) fn seen(&self) -> Option<Namespace> {
        let (at, snapshot) = self.seen.as_ref()?;
        Some(Namespace {
            place: Arc::clone(&self.chosen.place),
            at: *at,
            passed: self.reader.passed,
            snapshot: Arc::clone(snapshot),
        })
    }

    /// Counts it where it cannot be read.
    pub(super) fn count(&self, not_entered: &mut NotEntered) {
        match self.failure {
            Some(Failure::Privilege) => not_entered.privilege += 1,
            Some(Failure::Other) => not_entered.failed += 1,
            Some(Failure::Gone) | None => {}
        }
    }

    pub(super) fn forget_connections(&mut self) {
        self.reader.forget_connections();
    }

    /// Enters by `door`, reads and returns.
    pub(super) fn visit(
        &mut self,
        kernel: &mut Kernel,
        home: &Home,
        door: &Path,
        common: &mut Common,
        turn: Turn,
    ) -> Result<()> {
        let Self { open, reader, chosen, .. } = self;
        let failed: BTreeSet<_> = reader.failed.keys().copied().collect();
        let snapshot = kernel
            .visit(home, (door, chosen.place.inode), open, |kernel| reader.read(kernel, common, turn))?;
        self.seen = Some((Instant::now(), Arc::new(snapshot)));
        self.log(&failed);
        Ok(())
    }

    /// Tells of what has changed since `failed` was all that could not be read.
    fn log(&mut self, failed: &BTreeSet<&'static str>) {
        let changes = std::mem::take(&mut self.reader.changes);
        let (name, now) = (&self.chosen.place.name, &self.reader.failed);
        for (source, detail) in now.iter().filter(|(source, _)| !failed.contains(*source)) {
            warn!(netns = name, collector = source, "failed: {detail}");
        }
        for source in failed.iter().filter(|source| !now.contains_key(*source)) {
            info!(netns = name, collector = source, "ok");
        }
        for change in changes {
            info!(netns = name, "{}", row(&change));
        }
    }

    /// Remembers what came of a visit. What cannot be entered any more is not kept in
    /// being.
    pub(super) fn note(&mut self, failure: Option<(Failure, String)>, turn: Turn, cost: Duration) {
        self.reader.visited = Some(turn.started);
        self.costs[usize::from(turn.pass)] = cost;
        let before = self.failure.take();
        let Some((failure, detail)) = failure else { return };
        let name = &self.chosen.place.name;
        if failure == Failure::Gone || before.is_some() {
            debug!(netns = name, "not read: {detail}");
        } else {
            warn!(netns = name, "cannot be read: {detail}");
        }
        (self.open, self.seen, self.failure) = (Open::default(), None, Some(failure));
    }
}
