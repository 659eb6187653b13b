//! The thread that walks sockets, on a clock of its own: a scrape takes what it
//! last found and never waits for a walk.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tracing::warn;

use super::closes::Closes;
use crate::kernel::sock_diag::Scope;
use crate::kernel::{Error, Kernel, Result};
use crate::model::connections::{Pass, Times, Unaccepted, WaitingBy, ports};
use crate::model::listeners::{Group, Tracker};
use crate::model::{Connections, Sampling};
use crate::read::{Family, connections, listeners};

/// Listening sockets are looked at this often; on a host with few it takes about a
/// millisecond (benches/sockets.rs). Where the budget does not allow for it, they are looked at more
/// rarely.
const TICK: Duration = Duration::from_secs(1);

/// Time between two looks at the plan while there is nothing to do.
const IDLE: Duration = Duration::from_secs(3600);

/// What was found this much longer ago than usual says nothing of now.
const LATE: Duration = Duration::from_secs(10);

/// What to walk, and how often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    pub(super) listeners: bool,
    pub(super) connections: bool,
    /// Hear of closed connections between passes.
    pub(super) close_notifications: bool,
    /// Time from pass to pass over connections.
    pub(super) interval: Duration,
    /// Share of one CPU that passes may take, and looks as much again; beyond it
    /// they are rarer.
    pub(super) cpu_budget: f64,
}

/// Handle to the thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    plans: Sender<Plan>,
    found: Arc<Found>,
}

/// What the thread has found so far.
#[derive(Debug, Default)]
struct Found {
    listeners: Slot<Vec<Group>>,
    connections: Slot<Connections>,
    work: Mutex<Option<Sampling>>,
}

impl Sampler {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(super) fn start(kernel: Kernel, plan: Plan) -> io::Result<Self> {
        let (plans, inbox) = channel();
        let found = Arc::new(Found::default());
        let mut walker = Walker {
            kernel,
            plan,
            found: Arc::clone(&found),
            tracker: Tracker::default(),
            unaccepted: Unaccepted::default(),
            waiting: None,
            times: None,
            passes: 0,
            last_pass: None,
            next_pass: Instant::now(),
            interval: plan.interval,
            next_look: Instant::now(),
            look_interval: TICK,
            closes: None,
            lost_events: 0,
            closes_cpu: Duration::ZERO,
        };
        std::thread::Builder::new().name("sampler".into()).spawn(move || walker.run(&inbox))?;
        Ok(Self { plans, found })
    }

    /// Replaces the plan.
    pub(super) fn apply(&self, plan: Plan) {
        // A thread that is gone shows as samples that are too old.
        let _ = self.plans.send(plan);
    }

    /// Listeners as they were last seen, and what that look met. Waits a moment
    /// for the first.
    ///
    /// # Errors
    /// It was too long ago.
    pub(super) fn listeners(&self) -> Result<(Arc<Vec<Group>>, Result<()>)> {
        self.found.listeners.get("look at listening sockets")
    }

    /// Connections as the last pass found them, likewise.
    ///
    /// # Errors
    /// It was too long ago.
    pub(super) fn connections(&self) -> Result<(Arc<Connections>, Result<()>)> {
        self.found.connections.get("pass over connections")
    }

    /// What this has cost so far; `None` while there is nothing to do.
    pub(super) fn work(&self) -> Option<Sampling> {
        *locked(&self.found.work)
    }
}

/// The last sample of one kind, and a signal for whoever waits for the first.
#[derive(Debug)]
struct Slot<T> {
    sample: Mutex<Option<Sample<T>>>,
    taken: Condvar,
}

#[derive(Debug, Clone)]
struct Sample<T> {
    at: Instant,
    /// Until the next one comes, as a rule.
    interval: Duration,
    /// What was understood, even when something was not.
    value: Arc<T>,
    outcome: std::result::Result<(), Arc<Error>>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { sample: Mutex::new(None), taken: Condvar::new() }
    }
}

impl<T> Slot<T> {
    fn put(&self, interval: Duration, value: T, outcome: Result<()>) {
        let outcome = outcome.map_err(Arc::new);
        *locked(&self.sample) =
            Some(Sample { at: Instant::now(), interval, value: Arc::new(value), outcome });
        self.taken.notify_all();
    }

    /// Whoever asks from now on waits for the next sample.
    fn clear(&self) {
        *locked(&self.sample) = None;
    }

    fn get(&self, what: &'static str) -> Result<(Arc<T>, Result<()>)> {
        let guard = locked(&self.sample);
        let waited = self.taken.wait_timeout_while(guard, TICK, |sample| sample.is_none());
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(sample) = guard.as_ref() else { return Err(Error::Late { what, limit: TICK }) };
        let limit = sample.interval + LATE;
        if sample.at.elapsed() > limit {
            return Err(Error::Late { what, limit });
        }
        Ok((Arc::clone(&sample.value), sample.outcome.clone().map_err(Error::Shared)))
    }
}

/// A lock is held only to put or copy something whole, so that a panic
/// elsewhere leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread's state.
struct Walker {
    kernel: Kernel,
    plan: Plan,
    found: Arc<Found>,
    tracker: Tracker,
    unaccepted: Unaccepted,
    waiting: Option<WaitingBy>,
    times: Option<Times>,
    passes: u64,
    last_pass: Option<Instant>,
    next_pass: Instant,
    /// As planned, or longer where the budget asks for it.
    interval: Duration,
    next_look: Instant,
    look_interval: Duration,
    closes: Option<Closes>,
    lost_events: u64,
    closes_cpu: Duration,
}

impl Walker {
    fn run(&mut self, inbox: &Receiver<Plan>) {
        self.listen();
        loop {
            self.hear();
            let started = Instant::now();
            if !self.plan.connections {
                self.found.connections.clear();
                (self.waiting, self.last_pass) = (None, None);
            } else if started >= self.next_pass {
                self.pass(started);
            }
            if !self.plan.listeners {
                self.found.listeners.clear();
                self.tracker.pause();
            } else if started >= self.next_look {
                self.look(started);
            }
            if !self.plan.listeners && !self.plan.connections {
                *locked(&self.found.work) = None;
            }
            match inbox.recv_timeout(self.time_to_next()) {
                Ok(plan) => self.change(plan),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn time_to_next(&self) -> Duration {
        let looks = self.plan.listeners.then_some(self.next_look);
        let passes = self.plan.connections.then_some(self.next_pass);
        let next = looks.into_iter().chain(passes).min();
        next.map_or(IDLE, |next| next.saturating_duration_since(Instant::now()))
    }

    /// A reload asks for nothing sooner than the plan does, except what was off.
    fn change(&mut self, plan: Plan) {
        let now = Instant::now();
        if plan.connections && !self.plan.connections {
            self.next_pass = now;
        }
        if plan.listeners && !self.plan.listeners {
            self.next_look = now;
        }
        self.next_pass = self.next_pass.min(now + plan.interval);
        self.plan = plan;
        self.listen();
    }

    /// Begins or ends to hear of closed connections, as planned.
    fn listen(&mut self) {
        if !self.plan.connections || !self.plan.close_notifications {
            self.closes = None;
        } else if self.closes.is_none() {
            self.closes = match Closes::start(&self.kernel) {
                Ok(closes) => Some(closes),
                Err(error) if error.is_absent() => None,
                Err(error) => {
                    warn!("{error}");
                    None
                }
            };
        }
    }

    /// Fetches what was heard.
    fn hear(&mut self) {
        let Some(closes) = &mut self.closes else { return };
        let batch = closes.take();
        (self.lost_events, self.closes_cpu) = (batch.lost, batch.cpu);
        if let Err(error) = closes.keep_to(self.plan.cpu_budget) {
            warn!("close notifications: {error}");
        }
    }

    /// What this much CPU time may be spent on once.
    fn affordable(&self, cost: Duration) -> Duration {
        cost.div_f64(self.plan.cpu_budget)
    }

    /// Looks at listening sockets.
    fn look(&mut self, started: Instant) {
        let cpu_before = cpu_time();
        let (groups, outcome) = match listeners::read(&mut self.kernel) {
            Ok(found) => {
                let (bounds, outcome) = listeners::read_bounds(&mut self.kernel);
                let waiting = self.waiting.as_ref();
                let longest = 3 * self.look_interval;
                (self.tracker.observe(started, &found, &bounds, waiting, longest), outcome)
            }
            Err(error) => (Vec::new(), Err(error)),
        };
        self.look_interval = TICK.max(self.affordable(cpu_time().saturating_sub(cpu_before)));
        self.next_look = started + self.look_interval;
        self.account();
        self.found.listeners.put(self.look_interval, groups, outcome);
    }

    /// Passes over all connections.
    fn pass(&mut self, started: Instant) {
        let cpu_before = cpu_time();
        // At the first pass the time of one interval is taken.
        let since = self.last_pass.map_or(self.plan.interval, |last| started - last);
        let found = walk(&mut self.kernel, since);
        let cost = cpu_time().saturating_sub(cpu_before);
        self.interval = self.plan.interval.max(self.affordable(cost));
        self.next_pass = started + self.interval;
        let (now, outcome) = match found {
            Ok(now) => {
                self.passes += 1;
                self.last_pass = Some(started);
                self.waiting = Some(self.unaccepted.observe(started, &now));
                self.times.get_or_insert_default().add(&now.times);
                (Some(now), Ok(()))
            }
            Err(error) => {
                self.waiting = None;
                (None, Err(error))
            }
        };
        let value = Connections { now, times: self.times.clone() };
        self.account();
        self.found.connections.put(self.interval, value, outcome);
    }

    /// Before what was found: whoever sees that knows what it cost.
    fn account(&self) {
        *locked(&self.found.work) = Some(Sampling {
            passes: self.passes,
            interval: self.interval,
            cpu: cpu_time() + self.closes_cpu,
            lost_events: self.lost_events,
            interrupted_dumps: self.kernel.interrupted_dumps(),
        });
    }
}

fn walk(kernel: &mut Kernel, since: Duration) -> Result<Pass> {
    let listening = ports(&listeners::read(kernel)?);
    let mut pass = Pass::default();
    for family in Family::BOTH {
        let observe = |pass: &mut Pass, connection: &_| pass.observe(connection, &listening, since);
        pass.add(&connections::read(kernel, family, Scope::default(), observe)?);
    }
    Ok(pass)
}

/// User and system time of this thread.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
