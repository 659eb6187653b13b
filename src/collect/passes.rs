//! Passes over connections: which of them have their turn, and what comes of it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use super::closes::Closes;
use super::sampler::{PART, Plan, cpu_time};
use crate::kernel::sock_diag::Scope;
use crate::kernel::{Kernel, Result};
use crate::model::connections::waiting::{Waiters, WaitingBy};
use crate::model::connections::{Flows, Pass, Paths, Role, Turn, ports};
use crate::model::ports::{PortSet, Ports, Usage};
use crate::model::slices::{Cost, Slices};
use crate::model::{Connections, Followed, Sampling};
use crate::read::connections::State;
use crate::read::listeners::Bounds;
use crate::read::tcp_limits::TcpLimits;
use crate::read::{Family, connections, listeners};

/// Most connections that are followed: 64 bytes of memory each.
const FOLLOWED: usize = 1_000_000;

/// Ports that the kernel gives to connections where it does not tell which:
/// its default (net/ipv4/af_inet.c:inet_init_net).
const EPHEMERAL: [u16; 2] = [32_768, 60_999];

/// What is known from pass to pass.
#[derive(Debug)]
pub(super) struct Passes {
    flows: Flows,
    paths: Arc<Paths>,
    waiters: Waiters,
    slices: Slices,
    cost: Cost,
    /// Beginnings of the passes of this round, and of the one before.
    begun: [Vec<Instant>; 2],
    rounds: u64,
    interval: Duration,
    closes: Option<Closes>,
    heard: Heard,
}

/// What is known of notifications of closed connections.
#[derive(Debug, Clone, Copy)]
struct Heard {
    /// When the thread that hears them was started.
    since: Instant,
    cpu: Duration,
    lost: u64,
    /// False while they are not listened to, to keep to the budget.
    on: bool,
}

/// What a pass goes by.
#[derive(Debug)]
pub(super) struct Means<'a> {
    /// Bounds of buffers.
    pub(super) limits: TcpLimits,
    /// What it may cost, of one CPU, when it comes as planned.
    pub(super) share: f64,
    /// Room to count ports in.
    pub(super) ports: &'a mut Ports,
}

/// What a pass found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) connections: Connections,
    pub(super) waiting: Option<WaitingBy>,
    pub(super) outcome: Result<()>,
}

/// The same of one that went well; the outcome is that of what it had to read besides.
struct Walked {
    pass: Pass,
    waiting: WaitingBy,
    ports: Option<Usage>,
    listening: BTreeSet<u16>,
    outcome: Result<()>,
}

impl Passes {
    /// Begins to hear of closed connections, where that is planned and possible.
    pub(super) fn new(kernel: &Kernel, plan: &Plan) -> Self {
        let now = Instant::now();
        let closes = plan.close_notifications.then(|| Closes::start(kernel));
        let closes = match closes.transpose() {
            Ok(closes) => closes,
            Err(error) => {
                if !error.is_absent() {
                    warn!("{error}");
                }
                None
            }
        };
        Self {
            flows: Flows::new(now, Arc::clone(&plan.paths), FOLLOWED),
            paths: Arc::clone(&plan.paths),
            waiters: Waiters::default(),
            slices: Slices::whole(),
            cost: Cost::default(),
            begun: [Vec::new(), Vec::new()],
            rounds: 0,
            interval: plan.interval,
            heard: Heard { since: now, cpu: Duration::ZERO, lost: 0, on: closes.is_some() },
            closes,
        }
    }

    /// Time to the next pass.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// What this has cost and given so far; the CPU time is that of other threads.
    pub(super) fn work(&self) -> Sampling {
        Sampling {
            passes: self.rounds,
            sampled_ratio: 1.0 / f64::from(self.slices.count()),
            interval: self.interval,
            cpu: self.heard.cpu,
            lost_events: self.heard.lost,
            hears_closes: self.heard.on,
            ..Sampling::default()
        }
    }

    /// Share of one CPU that hearing of closed connections took so far.
    pub(super) fn closes_share(&self) -> f64 {
        self.heard.cpu.as_secs_f64() / self.heard.since.elapsed().as_secs_f64().max(1.0)
    }

    /// Takes in connections that closed.
    pub(super) fn hear(&mut self, plan: &Plan) {
        let Some(closes) = &mut self.closes else { return };
        let batch = closes.take();
        (self.heard.lost, self.heard.cpu) = (batch.lost, batch.cpu);
        for closed in batch.closed {
            self.flows.close(closed);
        }
        match closes.keep_to(PART * plan.budget()) {
            Ok(on) => self.heard.on = on,
            Err(error) => {
                warn!("close notifications: {error}; no more are heard");
                (self.closes, self.heard.on) = (None, false);
            }
        }
    }

    /// Takes one pass.
    pub(super) fn run(
        &mut self,
        kernel: &mut Kernel,
        started: Instant,
        means: Means<'_>,
        plan: &Plan,
    ) -> Found {
        let (share, interval) = (means.share, plan.interval);
        let before = cpu_time();
        let walked = self.walk(kernel, started, means, interval);
        let cost = cpu_time().saturating_sub(before);
        let mut connections = Connections::default();
        let (waiting, outcome) = match walked {
            Ok(Walked { pass, waiting, ports, listening, outcome }) => {
                // Before what is not known counts as new: what closed during the first
                // pass may be older than that.
                self.hear(plan);
                self.finish(started, cost, pass.walked);
                (connections.now, connections.ports) = (Some(pass), ports);
                connections.listening = Some(Arc::new(listening));
                (Some(waiting), outcome)
            }
            Err(error) => (None, Err(error)),
        };
        let slices = self.next_slices(share, interval);
        self.interval = self.cost.interval(slices, share, interval);
        connections.followed = (self.rounds > 0).then(|| Followed {
            sums: self.flows.sums().clone(),
            algorithms: self.flows.algorithms().collect(),
            paths: Arc::clone(&self.paths),
            witnessed: self.flows.witnessed(),
            witnessed_in_flight: self.flows.witnessed_in_flight(),
            followed: self.flows.followed() as u64,
        });
        Found { connections, waiting, outcome }
    }

    fn walk(
        &mut self,
        kernel: &mut Kernel,
        started: Instant,
        Means { limits, share, ports: count }: Means<'_>,
        interval: Duration,
    ) -> Result<Walked> {
        let listening = ports(&listeners::read(kernel)?);
        // The first is over everything: what is met later for the first time is new.
        if self.slices.turn() == 0 && self.rounds > 0 {
            let (bounds, _) = listeners::read_bounds(kernel);
            self.slices = Slices::new(self.cost.slices(share, interval), range(&bounds), &listening);
        }
        let weight = u64::from(self.slices.count());
        let since = self.since(started).unwrap_or(interval);
        self.flows.begin(Turn { started, since, weight, limits });
        let filter = self.slices.filter();
        let (time_wait, outcome) = super::ports::begin(kernel, count);
        let scope = Scope { time_wait, filter: filter.as_ref(), most: None };
        let served: PortSet = listening.iter().collect();
        let mut pass = Pass::default();
        for family in Family::BOTH {
            let flows = &mut self.flows;
            connections::read(kernel, family, scope, |connection| {
                let is_served = served.contains(connection.port);
                count.observe(connection, is_served);
                if connection.state == State::TimeWait {
                    return;
                }
                let had_full_mss = flows.observe(connection);
                let nearby = || flows.mss_nearby(connection);
                let role = if is_served { Role::Server } else { Role::Client };
                pass.observe(connection, role, &limits, had_full_mss, nearby, weight);
            })?;
        }
        let waiting = self.waiters.observe(started, &pass, filter.as_ref());
        Ok(Walked { pass, waiting, ports: count.usage(weight), listening, outcome })
    }

    /// Time since it was the turn of the same connections; `None` at first.
    fn since(&self, started: Instant) -> Option<Duration> {
        let [_, before] = &self.begun;
        let place = before.len() * usize::from(self.slices.turn()) / usize::from(self.slices.count());
        before.get(place).map(|then| started.saturating_duration_since(*then))
    }

    fn finish(&mut self, started: Instant, cost: Duration, walked: u64) {
        self.cost.learn(cost, walked, self.slices.count());
        self.begun[0].push(started);
        let round = self.slices.advance();
        if round {
            self.rounds += 1;
            self.begun[1] = std::mem::take(&mut self.begun[0]);
        }
        self.flows.finish(started, round);
    }

    /// Of how many slices the next pass takes one.
    fn next_slices(&self, share: f64, interval: Duration) -> u16 {
        if self.slices.turn() == 0 { self.cost.slices(share, interval) } else { self.slices.count() }
    }
}

fn range(bounds: &Bounds) -> RangeInclusive<u16> {
    let [first, last] = bounds.port_range.unwrap_or(EPHEMERAL.map(u64::from));
    let port = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
    port(first)..=port(last)
}
