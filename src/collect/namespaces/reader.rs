//! What is read inside a network namespace, and what is known of it from visit to visit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::owners::Owners;
use super::super::passes::{Means, Passes};
use super::super::sampler::PART;
use super::super::tracked::Look;
use super::super::{Settings, parameters};
use super::host::{Host, is_own};
use crate::kernel::{Kernel, Result};
use crate::model::changes::{Book, Change, Found, Moment, Record};
use crate::model::connections::waiting::WaitingBy;
use crate::model::connections::{Pass, Sums};
use crate::model::devices::{Names, group_qdiscs, name_counts};
use crate::model::parameters::State;
use crate::model::ports::Ports;
use crate::model::recommend::{Evidence, recommend};
use crate::model::{Connections, Outcome, Report, Snapshot, listeners, udp};
use crate::read::counters::{self, Counters};
use crate::read::neighbours::{self, Table};
use crate::read::place::Place;
use crate::read::{addresses, conntrack, links, qdiscs, sockstat, tcp_limits};
use crate::read::{listeners as read_listeners, udp as read_udp};

/// What all namespaces are read with.
pub(super) struct Common {
    pub(super) settings: Settings,
    pub(super) host: Host,
    pub(super) owners: Owners,
    /// Room that a pass counts ports in.
    ports: Ports,
    /// Counters of a namespace, whose names the others share: of snmp, snmp6 and netstat.
    counters: [Counters; 3],
}

impl Common {
    pub(super) fn new(settings: Settings) -> Self {
        let (host, owners, ports) = (Host::default(), Owners::default(), Ports::default());
        Self { settings, host, owners, ports, counters: Default::default() }
    }
}

/// A visit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) started: Instant,
    /// Makes a pass over connections as well.
    pub(super) pass: bool,
}

/// A pass takes every connection, as rarely as the budget asks for: to pass those of
/// other namespaces is what costs, so that taking a part of them would save little.
const EVERYTHING: f64 = 1.0;

/// What is known of a namespace.
#[derive(Default)]
pub(super) struct Reader {
    listeners: listeners::Tracker,
    udp: udp::Tracker,
    tracked: Look,
    passes: Option<Passes>,
    waiting: Option<WaitingBy>,
    connections: Arc<Connections>,
    /// When the last pass over connections began, if there are any.
    pub(super) passed: Option<Instant>,
    /// When the last visit began.
    pub(super) visited: Option<Instant>,
    /// Time between the last two visits.
    pub(super) pause: Option<Duration>,
    /// What sockets there are, as far as is known: the kernel has one table for all
    /// namespaces, so that the walk for one without any is not free, and is not made.
    pub(super) has: Has,
    evidence: Evidence,
    book: Option<Book>,
    /// Parameters that were seen to change at the last visit.
    pub(super) changes: Vec<Arc<Change>>,
    /// By source, what could not be read; of connections at the last pass, else at the
    /// last visit.
    pub(super) failed: BTreeMap<&'static str, String>,
}

/// Kinds of sockets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Has {
    pub(super) tcp: bool,
    udp: bool,
}

impl Reader {
    /// Reads what the rules look at, from inside. Tables that all namespaces share are
    /// read by the own one. The first visit is without sockets.
    pub(super) fn read(&mut self, kernel: &mut Kernel, common: &mut Common, turn: Turn) -> Snapshot {
        let declared = Arc::clone(&common.settings.declared);
        let mut snapshot = Snapshot { declared, ..Snapshot::default() };
        self.failed.retain(|source, _| *source == CONNECTION);
        self.pause = self.visited.map(|last| turn.started.saturating_duration_since(last));
        self.visited = Some(turn.started);
        self.read_counters(kernel, common, &mut snapshot);
        self.read_tables(kernel, &common.settings, turn.started, &mut snapshot);
        self.read_devices(kernel, &common.settings, &mut snapshot);
        if common.settings.wants("sysctl") {
            snapshot.parameters = Some(self.read_parameters(kernel, common));
        }
        if self.pause.is_some() {
            self.look(kernel, common, turn, &mut snapshot);
        }
        self.recommend(common, turn, &mut snapshot);
        let failed = self.failed.iter().map(|(source, detail)| Report {
            source,
            outcome: Outcome::Failed(detail.clone()),
            duration: Duration::ZERO,
        });
        snapshot.reports = failed.collect();
        snapshot
    }

    /// Sums by path begin anew.
    pub(super) fn forget_connections(&mut self) {
        (self.passes, self.waiting, self.passed) = (None, None, None);
        self.connections = Arc::default();
        self.failed.remove(CONNECTION);
    }

    fn read_counters(&mut self, kernel: &mut Kernel, common: &mut Common, snapshot: &mut Snapshot) {
        let Common { settings, counters: [snmp, snmp6, netstat], .. } = common;
        for (source, read, known, place) in [
            ("snmp", counters::read_snmp as fn(&mut Kernel) -> Result<Counters>, snmp, &mut snapshot.snmp),
            ("snmp6", counters::read_snmp6, snmp6, &mut snapshot.snmp6),
            ("netstat", counters::read_netstat, netstat, &mut snapshot.netstat),
        ] {
            if !settings.wants(source) {
                continue;
            }
            *place = self.keep(source, read(kernel));
            if let Some(found) = place
                && !found.share_names(known)
            {
                *known = found.clone();
            }
        }
    }

    /// Sockets in use, tracked flows and neighbours.
    fn read_tables(
        &mut self,
        kernel: &mut Kernel,
        settings: &Settings,
        started: Instant,
        snapshot: &mut Snapshot,
    ) {
        let wants = |name| settings.wants(name);
        let sockstat = sockstat::read(kernel);
        let sockstat6 = sockstat::read6(kernel);
        // What is not known is looked for.
        let some = |found: &Result<sockstat::Sockstat>, figures: [(&str, &str); 2]| match found {
            Ok(all) => {
                figures.iter().any(|(protocol, name)| all.get(protocol, name).is_some_and(|count| count > 0))
            }
            Err(error) => !error.is_absent(),
        };
        self.has = Has {
            tcp: some(&sockstat, [("TCP", "inuse"), ("TCP", "tw")])
                || some(&sockstat6, [("TCP6", "inuse"); 2]),
            udp: some(&sockstat, [("UDP", "inuse"); 2]) || some(&sockstat6, [("UDP6", "inuse"); 2]),
        };
        if wants("sockstat") {
            snapshot.sockstat = self.keep("sockstat", sockstat);
            let (limits, result) = sockstat::read_limits(kernel);
            self.keep("sockstat", result);
            snapshot.socket_limits = Some(limits);
        }
        if wants("sockstat6") {
            snapshot.sockstat6 = self.keep("sockstat6", sockstat6);
        }
        if wants("conntrack") {
            let (mut found, result) = conntrack::read(kernel);
            self.keep("conntrack", result);
            if let Some(conntrack) = &mut found {
                let share = PART * settings.sockets_cpu_budget;
                let tracked = self.tracked.at(kernel, conntrack, share, started);
                conntrack.tracked = self.keep("conntrack", tracked).flatten();
            }
            snapshot.conntrack = found;
        }
        if wants("neighbour") {
            let states = self.keep("neighbour", neighbours::read_states(kernel));
            // A table that is empty has nothing to say.
            let table = |counts: neighbours::States| Table {
                states: counts.iter().any(|count| *count > 0).then_some(counts),
                ..Table::default()
            };
            snapshot.neighbours = states.map(|states| states.map(table));
        }
    }

    /// Devices but the loopback one, their queueing disciplines and routes.
    fn read_devices(&mut self, kernel: &mut Kernel, settings: &Settings, snapshot: &mut Snapshot) {
        let wants = |name| settings.wants(name);
        // Routes, of which a router has a million, tell only whether the reverse-path
        // filter may be wrong.
        let drops = snapshot.netstat.as_ref().and_then(|all| all.get("TcpExt", "IPReversePathFilter"));
        let wants_routes = wants("route") && drops.is_some_and(|drops| drops > 0);
        if !wants("netdev") && !wants("qdisc") && !wants_routes {
            return;
        }
        let Some(mut links) = self.keep("netdev", links::read(kernel)) else { return };
        links.retain(|link| !link.loopback && settings.devices.keeps(&link.name));
        let names = Names::new(&links);
        if wants("qdisc") {
            let found = self.keep("qdisc", qdiscs::read(kernel));
            snapshot.qdiscs = found.map(|found| group_qdiscs(&found, &names));
        }
        if wants_routes {
            let found = self.keep("route", addresses::read_routes(kernel));
            snapshot.routes = found.map(|found| name_counts(&found, &names, |_| true));
        }
        snapshot.links = wants("netdev").then_some(links);
    }

    /// Every parameter of the namespace.
    fn read_parameters(&mut self, kernel: &mut Kernel, common: &Common) -> Vec<State> {
        let Common { settings, host, .. } = common;
        let (mut states, result) = parameters::read(kernel, &settings.devices, host.facts.as_ref(), is_own);
        // What is locked is the host's.
        states.retain(|state| !state.locked);
        let found = states.iter().map(|state| Found {
            parameter: &state.name,
            value: &state.value,
            device: state.device,
        });
        let book = self.book.get_or_insert_with(Book::of_last_changes);
        let records = book.observe(Moment::now(), &Place::default(), found, result.is_ok());
        for state in &mut states {
            state.last_change = book.last_change(&state.name, &state.value).cloned();
        }
        self.keep("sysctl", result);
        let change = |record| if let Record::Change(change) = record { Some(change) } else { None };
        self.changes = records.into_iter().filter_map(change).collect();
        states
    }

    /// Recommends by all parameters, of which those are kept then that differ or were seen
    /// to change.
    fn recommend(&mut self, common: &Common, turn: Turn, snapshot: &mut Snapshot) {
        let Common { settings, host, .. } = common;
        self.evidence.observe(turn.started, snapshot, self.pause.unwrap_or_default());
        let Some(states) = &mut snapshot.parameters else { return };
        snapshot.recommendations = recommend(states, host.facts.as_ref(), &self.evidence, &settings.paths);
        states.retain(|state| state.last_change.is_some() || host.differs(state));
        states.shrink_to_fit();
    }

    fn look(&mut self, kernel: &mut Kernel, common: &mut Common, turn: Turn, snapshot: &mut Snapshot) {
        let Common { settings, .. } = common;
        let longest = 3 * self.pause.unwrap_or_default().max(settings.sockets_interval);
        if !settings.wants(CONNECTION) {
            self.forget_connections();
        } else {
            if !self.has.tcp {
                self.without_connections();
            } else if turn.pass {
                self.pass(kernel, common, turn.started);
            }
            snapshot.connections = Some(Arc::clone(&self.connections));
        }
        if common.settings.wants("listener") {
            let found = if self.has.tcp { read_listeners::read(kernel) } else { Ok(Vec::new()) };
            if let Some(mut found) = self.keep("listener", found) {
                let (bounds, result) = read_listeners::read_bounds(kernel);
                self.keep("listener", result);
                let marked = read_listeners::mark_chosen(kernel, &mut found, &bounds);
                self.keep("listener", marked);
                let waiting = self.waiting.as_ref();
                let mut groups = self.listeners.observe(turn.started, &found, &bounds, waiting, longest);
                let named = common.owners.name(kernel, turn.started, &found, &mut groups);
                self.keep("listener", named);
                snapshot.listeners = Some(Arc::new(groups));
            }
        }
        if common.settings.wants("udp") {
            let found = if self.has.udp { read_udp::read(kernel) } else { Ok(Vec::new()) };
            if let Some(found) = self.keep("udp", found) {
                let (bounds, result) = read_udp::read_bounds(kernel);
                self.keep("udp", result);
                // Older kernels show these two in the initial namespace only.
                let read_udp::Bounds { rmem_default, rmem_max, .. } = common.host.udp;
                let bounds = read_udp::Bounds { rmem_default, rmem_max, ..bounds };
                snapshot.udp_sockets =
                    Some(Arc::new(self.udp.observe(turn.started, &found, &bounds, longest)));
            }
        }
    }

    fn pass(&mut self, kernel: &mut Kernel, common: &mut Common, started: Instant) {
        // Closed connections are not heard of: that takes a thread for each.
        let plan = common.settings.sampling(&Arc::default(), &Arc::default()).without_close_notifications();
        let passes = self.passes.get_or_insert_with(|| Passes::new(kernel, &plan));
        let limits = tcp_limits::read_elsewhere(kernel, &common.host.tcp);
        let means = Means { limits, share: EVERYTHING, ports: &mut common.ports };
        let mut found = passes.run(kernel, started, means, &plan);
        if let Some(pass) = &mut found.connections.now {
            found.connections.unit_memory = common.owners.by_unit(kernel, started, &pass.memory);
            // What was needed once is not kept.
            let Pass { connections, troubles, walked, .. } = *pass;
            *pass = Pass { connections, troubles, walked, ..Pass::default() };
        }
        if let Some(followed) = &mut found.connections.followed {
            // Histograms are large, and not shown of other namespaces.
            let Sums { ratios, rtt, min_rtt, delivery_rates, .. } = &mut followed.sums;
            (*ratios, *rtt, *min_rtt, *delivery_rates) = Default::default();
        }
        self.failed.remove(CONNECTION);
        self.keep(CONNECTION, found.outcome);
        (self.waiting, self.passed) = (found.waiting, Some(started));
        self.connections = Arc::new(found.connections);
    }

    /// That there are none is known without a pass.
    fn without_connections(&mut self) {
        if self.passed.take().is_some() || self.connections.now.is_none() {
            let followed = self.connections.followed.clone();
            let now = Some(Pass::default());
            self.connections = Arc::new(Connections { now, followed, ..Connections::default() });
            self.waiting = None;
            self.failed.remove(CONNECTION);
        }
    }

    /// What is absent is no failure; the first failure of a source is told.
    fn keep<T>(&mut self, source: &'static str, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if !error.is_absent() {
                    self.failed.entry(source).or_insert_with(|| error.to_string());
                }
                None
            }
        }
    }
}

const CONNECTION: &str = "connection";
