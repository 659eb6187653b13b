//! Everything that is made of the answers of sock_diag, pass after pass, and what must
//! hold whatever they are. The fuzz target of sockets shares this file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nettune::catalogue::{CATALOGUE, Kind, Parameter};
use nettune::kernel::Constants;
use nettune::kernel::sock_diag::Scope;
use nettune::metrics::{Format, Serving, encode};
use nettune::model::connections::paths::Declared;
use nettune::model::connections::waiting::{Waiters, WaitingBy};
use nettune::model::connections::{Flows, Pass, Paths, Role, Turn, ports};
use nettune::model::host::Facts;
use nettune::model::parameters::State;
use nettune::model::ports::Ports;
use nettune::model::recommend::{Evidence, recommend};
use nettune::model::slices::{Cost, MOST, Slices};
use nettune::model::units::Names;
use nettune::model::{Connections, Followed, Snapshot, listeners, udp};
use nettune::read::connections::State as Connection;
use nettune::read::host::Host;
use nettune::read::ports::Parameters;
use nettune::read::sysctl::{Reading, Value};
use nettune::read::tcp_limits::TcpLimits;
use nettune::read::{closes, connections, listeners as read_listeners, udp as read_udp};

/// So few that a table of them fills.
const FOLLOWED: usize = 24;

/// When and how a pass is made.
#[derive(Debug, Clone)]
pub(crate) struct Circumstances {
    /// Since the start; passes need not be in the order of time.
    pub(crate) at: Duration,
    /// Time since it was the turn of the same connections.
    pub(crate) since: Duration,
    /// Slices of a round, and how many were before this one.
    pub(crate) slices: (u16, u16),
    /// Ports that the kernel gives away.
    pub(crate) range: RangeInclusive<u16>,
    /// What a parameter that is a number of bytes says.
    pub(crate) limit: u64,
    /// Share of a CPU that may be used, and what the pass took of it.
    pub(crate) budget: (f64, Duration),
    /// The last slice of a round.
    pub(crate) round: bool,
    /// The bytes are notifications of closed connections as well.
    pub(crate) closes: bool,
}

/// What is known from pass to pass.
pub(crate) struct Chain {
    start: Instant,
    paths: Arc<Paths>,
    flows: Flows,
    waiters: Waiters,
    ports: Ports,
    cost: Cost,
    names: Names,
    listeners: listeners::Tracker,
    udp: udp::Tracker,
    evidence: Evidence,
    /// Samples of counters and histograms, by series.
    counters: BTreeMap<String, f64>,
}

impl Chain {
    pub(crate) fn new() -> Self {
        let start = Instant::now();
        let declared = Declared {
            name: "far".into(),
            bandwidth: 125_000_000,
            rtt: Duration::from_millis(80),
            peers: ["192.0.2.0/24", "2001:db8::/32"].map(|peer| peer.parse().unwrap()).into(),
        };
        let paths = Arc::new(Paths(vec![declared]));
        Self {
            start,
            // Some passes are before this.
            flows: Flows::new(start + Duration::from_secs(600), Arc::clone(&paths), FOLLOWED),
            paths,
            waiters: Waiters::default(),
            ports: Ports::default(),
            cost: Cost::default(),
            names: Names::default(),
            listeners: listeners::Tracker::default(),
            udp: udp::Tracker::default(),
            evidence: Evidence::new(true),
            counters: BTreeMap::new(),
        }
    }

    /// Takes `bytes` for the answer to every request there is to sock_diag.
    pub(crate) fn pass(&mut self, bytes: &[u8], how: &Circumstances) {
        let started = self.start + how.at;
        let mut listening = Vec::new();
        let _ = read_listeners::parse(&mut listening, bytes);
        let mut bound = Vec::new();
        let _ = read_udp::parse(&mut bound, bytes);
        // Every other one, so that there are clients as well.
        listening.retain(|listener| listener.port % 2 == 1);

        let mut slices = Slices::new(how.slices.0, how.range.clone(), &ports(&listening));
        for _ in 0..how.slices.1 % slices.count() {
            slices.advance();
        }
        let weight = u64::from(slices.count());
        let (pass, waiting) = self.walk(bytes, started, &slices, &ports(&listening), how);
        if how.closes {
            let _ = closes::walk(bytes, |closed| self.flows.close(&closed));
        }
        self.flows.finish(started, how.round);
        assert!(self.flows.followed() <= FOLLOWED, "the table grew");

        let (share, cost) = how.budget;
        self.cost.learn(cost, pass.walked, slices.count());
        let next = self.cost.slices(share, how.since);
        assert!((1..=MOST).contains(&next), "{next} slices");
        assert!(self.cost.interval(next, share, how.since) >= how.since);

        let missing = self.names.missing(started, pass.memory.cgroups());
        let found = missing.iter().map(|number| (*number, format!("{number}\n\"\\"))).collect();
        self.names.learn(missing, found);
        let memory = pass.memory.by_unit(&self.names);
        let connections = Connections {
            listening: Some(Arc::new(ports(&listening))),
            followed: Some(Followed {
                sums: self.flows.sums().clone(),
                algorithms: self.flows.algorithms().collect(),
                paths: Arc::clone(&self.paths),
                witnessed: self.flows.witnessed(),
                witnessed_in_flight: self.flows.witnessed_in_flight(),
                followed: self.flows.followed() as u64,
            }),
            ports: self.ports.usage(weight),
            unit_memory: memory,
            now: Some(pass),
        };
        let groups = self.look(started, &listening, &bound, &waiting, how);
        let mut snapshot = Snapshot {
            connections: Some(Arc::new(connections)),
            listeners: Some(Arc::new(groups.0)),
            udp_sockets: Some(Arc::new(groups.1)),
            ..Snapshot::default()
        };
        self.evidence.observe(started, &snapshot, how.since);
        let states = states(how.limit);
        snapshot.recommendations = recommend(&states, Some(&facts()), &self.evidence, &self.paths);
        self.check(snapshot);
    }

    /// As the thread that walks sockets does it.
    fn walk(
        &mut self,
        bytes: &[u8],
        started: Instant,
        slices: &Slices,
        listening: &BTreeSet<u16>,
        how: &Circumstances,
    ) -> (Pass, WaitingBy) {
        let most = Some(how.limit);
        let limits = TcpLimits {
            wmem_max: most,
            rmem_max: most,
            core_wmem_max: most,
            core_rmem_max: most,
            slow_start_after_idle: most,
            mem_low: most,
            mem: most,
        };
        let weight = u64::from(slices.count());
        self.flows.begin(Turn { started, since: how.since, weight, limits });
        let parameters = Parameters {
            range: Some([*how.range.start(), *how.range.end()].map(u64::from)),
            tw_reuse: Some(how.limit % 4),
            ..Parameters::default()
        };
        if self.ports.begin(&parameters) > 0 {
            self.ports.expect_time_wait(&parameters);
        }
        let filter = slices.filter();
        let scope = Scope { time_wait: true, filter: filter.as_ref(), most: None };
        let mut pass = Pass::default();
        let (flows, count) = (&mut self.flows, &mut self.ports);
        let _ = connections::walk(bytes, |connection| {
            if scope.filter.is_some_and(|filter| !filter.passes(connection.port, connection.peer_port)) {
                return;
            }
            let is_served = listening.contains(&connection.port);
            count.observe(connection, is_served);
            if connection.state != Connection::TimeWait {
                let had_full_mss = flows.observe(connection);
                let nearby = || flows.mss_nearby(connection);
                let role = if is_served { Role::Server } else { Role::Client };
                pass.observe(connection, role, &limits, had_full_mss, nearby, weight);
            }
        });
        let waiting = self.waiters.observe(started, &pass, filter.as_ref());
        (pass, waiting)
    }

    fn look(
        &mut self,
        started: Instant,
        listening: &[read_listeners::Listener],
        bound: &[read_udp::Socket],
        waiting: &WaitingBy,
        how: &Circumstances,
    ) -> (Vec<listeners::Group>, Vec<udp::Group>) {
        let port_range = Some([*how.range.start(), *how.range.end()].map(u64::from));
        let bounds = read_listeners::Bounds {
            somaxconn: Some(how.limit),
            earlier_somaxconn: None,
            port_range,
            reserved: vec![[9, 3]],
        };
        let groups = self.listeners.observe(started, listening, &bounds, Some(waiting), how.since);
        let bounds = read_udp::Bounds {
            rmem_default: Some(how.limit),
            rmem_max: Some(how.limit),
            port_range,
            reserved: vec![[9, 3]],
        };
        (groups, self.udp.observe(started, bound, &bounds, how.since))
    }

    /// Each sample is a finite number and comes once; no counter falls.
    fn check(&mut self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        let serving = Serving { reload_successful: true, reload_timestamp: 0.0 };
        let mut text = Vec::new();
        encode(&snapshot, serving, Format::Text, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut counters = BTreeMap::new();
        let (mut family, mut counts) = ("", false);
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                (family, counts) = (name, kind != "gauge");
            } else if !line.starts_with('#') {
                assert!(line.starts_with(family), "{line:?} is no sample of {family}");
                let (series, value) = line.rsplit_once(' ').unwrap();
                let value: f64 = value.parse().unwrap();
                assert!(value.is_finite() && value >= 0.0, "{line}");
                if counts {
                    let before = self.counters.get(series).copied();
                    assert!(before.is_none_or(|before| value >= before), "{line}, and before {before:?}");
                }
                let kept = if counts { value } else { 0.0 };
                assert!(counters.insert(series.to_owned(), kept).is_none(), "{line} comes twice");
            }
        }
        self.counters = counters;
    }
}

/// Every parameter with this number alone.
fn states(number: u64) -> Vec<State> {
    let all = CATALOGUE.parameters.iter().filter(|parameter| parameter.path().is_some());
    let state = |parameter: &Parameter| {
        let value = match parameter.kind {
            Kind::Text | Kind::Object => Value::Text(String::new()),
            Kind::Int | Kind::Ints => {
                Value::Numbers(vec![number.cast_signed(); parameter.fields.len().max(1)])
            }
        };
        State::new(parameter, parameter.name.clone(), Reading { value, read_only: false }, None)
    };
    all.map(state).collect()
}

/// A host with 8 GiB.
fn facts() -> Facts {
    let host = Host { release: "6.18.0".into(), memory_total: 8 << 30, ..Host::default() };
    let machine = "x86_64".into();
    Facts::new(host, 0, Constants { page_size: 4096, clock_ticks: 100, hz: 250, machine })
}
