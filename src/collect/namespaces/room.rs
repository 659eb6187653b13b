//! One network namespace: what is kept open inside, and what was read there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::debug;

use super::super::passes::Passes;
use super::super::tracked::Look;
use super::super::{Settings, parameters, sources};
use crate::catalogue::{Parameter, Scope};
use crate::kernel::namespaces::Home;
use crate::kernel::netlink::Open;
use crate::kernel::{Error, Kernel, Result};
use crate::model::connections::waiting::WaitingBy;
use crate::model::connections::{Pass, Sums};
use crate::model::host::Facts;
use crate::model::listeners::{Group, Tracker};
use crate::model::namespaces::{Chosen, NotEntered};
use crate::model::parameters::State;
use crate::model::{Connections, Snapshot};
use crate::read::sysctl::Value;
use crate::read::{conntrack, counters, links, listeners, sockstat};

/// What a namespace has for itself and somebody can set there.
fn is_own(parameter: &Parameter) -> bool {
    parameter.scope != Scope::Initial && !parameter.read_only
}

/// What namespaces are compared with: the own one, and the kernel's defaults.
#[derive(Default)]
pub(super) struct Host {
    at: Option<Instant>,
    facts: Option<Facts>,
    unusable_pages: Option<u64>,
    values: BTreeMap<String, Value>,
}

impl Host {
    /// Reads it anew where it is older than `--sockets.interval`.
    pub(super) fn refresh(&mut self, kernel: &mut Kernel, settings: &Settings, now: Instant) {
        let is_old = |at| now.saturating_duration_since(at) >= settings.sockets_interval;
        if self.at.is_none_or(is_old) && settings.wants("sysctl") {
            self.at = Some(now);
            self.facts = sources::facts(kernel, &mut self.unusable_pages).ok();
            let (states, _) = parameters::read(kernel, settings, None, is_own);
            self.values = states.into_iter().map(|state| (state.name, state.value)).collect();
        }
    }

    /// Whether a value of a namespace is another than ours, or than the kernel's default.
    fn differs(&self, state: &State) -> bool {
        let here = self.values.get(&state.name);
        let default = state.default.as_ref().map(|numbers| Value::Numbers(numbers.clone()));
        here.is_some_and(|value| *value != state.value) || default.is_some_and(|value| value != state.value)
    }
}

/// A namespace that is read.
pub(super) struct Room {
    chosen: Chosen,
    open: Open,
    reader: Reader,
    visited: Option<Instant>,
    seen: Option<(Instant, Arc<Snapshot>)>,
    failure: Option<Failure>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    Privilege,
    /// It went away, as far as is known before the next scan.
    Gone,
    Other,
}

impl Room {
    pub(super) fn new(chosen: Chosen) -> Self {
        let reader = Reader::default();
        Self { chosen, open: Open::default(), reader, visited: None, seen: None, failure: None }
    }

    /// The same, as a later scan found it.
    pub(super) fn moved(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    pub(super) fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// When it is to be read again. The first visit is without sockets and not worth
    /// an interval.
    pub(super) fn due(&self, interval: Duration) -> Option<Instant> {
        let is_first = self.reader.pause.is_none() && self.failure.is_none();
        self.visited.map(|visited| if is_first { visited } else { visited + interval })
    }

    pub(super) fn seen(&self) -> Option<(Instant, &Arc<Snapshot>)> {
        self.seen.as_ref().map(|(at, snapshot)| (*at, snapshot))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
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
        (self.reader.passes, self.reader.waiting) = (None, None);
    }

    /// Enters by `door`, reads and returns.
    pub(super) fn visit(
        &mut self,
        kernel: &mut Kernel,
        home: &Home,
        door: &Path,
        (settings, host, share): (&Settings, &Host, f64),
        started: Instant,
    ) -> Result<()> {
        let Self { open, reader, chosen, visited, .. } = self;
        let last = *visited;
        let snapshot = kernel.visit(home, (door, chosen.place.inode), open, |kernel| {
            reader.read(kernel, (settings, host), share, (last, started))
        })?;
        if let Some(error) = reader.failed.take() {
            debug!(netns = chosen.place.name, "{error}");
        }
        self.seen = Some((Instant::now(), Arc::new(snapshot)));
        Ok(())
    }

    /// Remembers what came of it. What cannot be entered any more is not kept in being.
    pub(super) fn note(&mut self, outcome: Result<()>, started: Instant) {
        self.visited = Some(started);
        self.failure = outcome.err().map(|error| {
            (self.open, self.seen) = (Open::default(), None);
            match error {
                error if error.is_permission() => Failure::Privilege,
                error if error.is_absent() => Failure::Gone,
                _ => Failure::Other,
            }
        });
    }
}

/// What is known of a namespace from visit to visit.
#[derive(Default)]
struct Reader {
    tracker: Tracker,
    passes: Option<Passes>,
    waiting: Option<WaitingBy>,
    connections: Connections,
    tracked: Look,
    /// Time between the last two visits.
    pause: Option<Duration>,
    /// The first thing that could not be read.
    failed: Option<Error>,
}

impl Reader {
    /// Reads what the rules look at, from inside. Tables that all namespaces share are
    /// read by the own one.
    fn read(
        &mut self,
        kernel: &mut Kernel,
        (settings, host): (&Settings, &Host),
        share: f64,
        (last, started): (Option<Instant>, Instant),
    ) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let wants = |name| settings.wants(name);
        if wants("snmp") {
            snapshot.snmp = self.keep(counters::read_snmp(kernel));
        }
        if wants("snmp6") {
            snapshot.snmp6 = self.keep(counters::read_snmp6(kernel));
        }
        if wants("netstat") {
            snapshot.netstat = self.keep(counters::read_netstat(kernel));
        }
        // Whether there are sockets to walk depends on these.
        let sockstat = self.keep(sockstat::read(kernel));
        let sockstat6 = self.keep(sockstat::read6(kernel));
        let figures = [
            sockstat.as_ref().map(|all| [all.get("TCP", "inuse"), all.get("TCP", "tw")]),
            sockstat6.as_ref().map(|all| [all.get("TCP6", "inuse"), None]),
        ];
        let has_sockets =
            sockstat.is_none() || figures.iter().flatten().flatten().flatten().any(|count| *count > 0);
        if wants("sockstat") {
            let (limits, result) = sockstat::read_limits(kernel);
            self.keep(result);
            (snapshot.sockstat, snapshot.socket_limits) = (sockstat, Some(limits));
        }
        if wants("sockstat6") {
            snapshot.sockstat6 = sockstat6;
        }
        if wants("conntrack") {
            let (mut found, result) = conntrack::read(kernel);
            self.keep(result);
            if let Some(conntrack) = &mut found {
                let tracked = self.tracked.at(kernel, conntrack, share, started);
                conntrack.tracked = self.keep(tracked).flatten();
            }
            snapshot.conntrack = found;
        }
        if wants("netdev") {
            snapshot.links = self.keep(links::read(kernel)).map(|mut links| {
                links.retain(|link| !link.loopback && settings.devices.keeps(&link.name));
                links
            });
        }
        if wants("sysctl") {
            let facts = host.facts.as_ref();
            let (mut states, result) = parameters::read(kernel, settings, facts, is_own);
            self.keep(result);
            // What is locked is the host's.
            states.retain(|state| !state.locked && host.differs(state));
            states.shrink_to_fit();
            snapshot.parameters = Some(states);
        }
        if let Some(last) = last {
            self.pause = Some(started.saturating_duration_since(last));
            self.look(kernel, settings, has_sockets, share, started);
            snapshot.connections = wants("connection").then(|| Arc::new(self.connections.clone()));
            if wants("listener") {
                let groups = self.listeners(kernel, settings, has_sockets, started);
                snapshot.listeners = groups.map(Arc::new);
            }
        }
        snapshot
    }

    /// Passes over connections. The kernel has one table for all namespaces, so that
    /// the walk for one without any is not free, and is not made.
    fn look(
        &mut self,
        kernel: &mut Kernel,
        settings: &Settings,
        has_sockets: bool,
        share: f64,
        started: Instant,
    ) {
        if !settings.wants("connection") {
            (self.passes, self.waiting, self.connections) = (None, None, Connections::default());
        } else if has_sockets {
            // Closed connections are not heard of: that takes a thread for each.
            let plan = settings.sampling(&Arc::default(), &Arc::default()).without_close_notifications();
            let passes = self.passes.get_or_insert_with(|| Passes::new(kernel, &plan));
            let found = passes.run(kernel, started, share, &plan);
            self.keep(found.outcome);
            (self.waiting, self.connections) = (found.waiting, found.connections);
            if let Some(followed) = &mut self.connections.followed {
                // Histograms are large, and not shown of other namespaces.
                let Sums { ratios, rtt, min_rtt, delivery_rates, .. } = &mut followed.sums;
                (*ratios, *rtt, *min_rtt, *delivery_rates) = Default::default();
            }
        } else {
            let followed = self.connections.followed.take();
            self.waiting = None;
            self.connections = Connections { now: Some(Pass::default()), followed, ..Connections::default() };
        }
    }

    fn listeners(
        &mut self,
        kernel: &mut Kernel,
        settings: &Settings,
        has_sockets: bool,
        started: Instant,
    ) -> Option<Vec<Group>> {
        let found = if has_sockets { self.keep(listeners::read(kernel))? } else { Vec::new() };
        let (bounds, result) = listeners::read_bounds(kernel);
        self.keep(result);
        let longest = 3 * self.pause.unwrap_or_default().max(settings.sockets_interval);
        Some(self.tracker.observe(started, &found, &bounds, self.waiting.as_ref(), longest))
    }

    /// What is absent is no failure.
    fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if !error.is_absent() {
                    self.failed.get_or_insert(error);
                }
                None
            }
        }
    }
}
