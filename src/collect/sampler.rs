//! The thread that walks sockets, on a clock of its own: a scrape takes what it
//! last found and never waits for a walk.

mod tracked;
mod udp;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::namespaces::Share;
use super::owners::Owners;
use super::passes::{Means, Passes};
use crate::kernel::{Error, Kernel, Result};
use crate::model::connections::Paths;
use crate::model::connections::waiting::WaitingBy;
use crate::model::listeners::{Group, Tracker};
use crate::model::ports::Ports;
use crate::model::{Connections, Sampling, udp::Group as UdpGroup};
use crate::read::tracked::Tracked;
use crate::read::{listeners, tcp_limits};

/// Listening sockets are looked at this often; on a host with few it takes about a
/// millisecond (benches/sockets). Where the budget does not allow for it, they are looked at more
/// rarely.
const TICK: Duration = Duration::from_secs(1);

/// Time between two looks at the plan while there is nothing to do.
const IDLE: Duration = Duration::from_secs(3600);

/// Share of the budget that looks at listening sockets may take, those at UDP sockets and
/// tracked flows, and notifications of closed connections; passes have the rest.
pub(super) const PART: f64 = 0.25;

/// What was found this much longer ago than usual says nothing of now.
const LATE: Duration = Duration::from_secs(10);

/// What to walk, and how often.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) listeners: bool,
    pub(super) connections: bool,
    /// Hear of closed connections between passes.
    pub(super) close_notifications: bool,
    pub(super) udp_sockets: bool,
    pub(super) tracked_flows: bool,
    /// Time from pass to pass over connections.
    pub(super) interval: Duration,
    /// Share of one CPU that all of it may take, in other namespaces as well.
    pub(super) cpu_budget: f64,
    /// What they take of it.
    pub(super) elsewhere: Arc<Share>,
    /// Paths that connections are sorted by.
    pub(super) paths: Arc<Paths>,
    /// `net.core.somaxconn` before its last change, where that came before the exporter.
    pub(super) earlier_somaxconn: Arc<OnceLock<u64>>,
}

impl Plan {
    /// What other namespaces leave of the budget.
    pub(super) fn budget(&self) -> f64 {
        self.cpu_budget - self.elsewhere.get()
    }

    /// The same for where closed connections are not heard of.
    pub(super) fn without_close_notifications(self) -> Self {
        Self { close_notifications: false, ..self }
    }
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
    udp_sockets: Slot<Vec<UdpGroup>>,
    tracked_flows: Slot<Option<Tracked>>,
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
            passes: None,
            ports: Ports::default(),
            ended: Duration::ZERO,
            owners: Owners::default(),
            udp: udp::Watch::default(),
            tracked: tracked::Watch::default(),
            waiting: None,
            next_pass: Instant::now(),
            next_look: Instant::now(),
            look_interval: TICK,
            look_cost: Duration::ZERO,
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

    /// UDP sockets as they were last seen, likewise.
    ///
    /// # Errors
    /// It was too long ago.
    pub(super) fn udp_sockets(&self) -> Result<(Arc<Vec<UdpGroup>>, Result<()>)> {
        self.found.udp_sockets.get("look at UDP sockets")
    }

    /// Tracked flows by state as they were last seen, where the table is full enough to be
    /// looked at, likewise.
    ///
    /// # Errors
    /// It was too long ago.
    pub(super) fn tracked_flows(&self) -> Result<(Arc<Option<Tracked>>, Result<()>)> {
        self.found.tracked_flows.get("look at tracked flows")
    }

    /// What this has cost so far; `None` while there is nothing to do.
    pub(super) fn work(&self) -> Option<Sampling> {
        *locked(&self.found.work)
    }
}

/// The last sample of one kind, and a signal for whoever waits for the first.
#[derive(Debug)]
pub(super) struct Slot<T> {
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
    pub(super) fn put(&self, interval: Duration, value: T, outcome: Result<()>) {
        let outcome = outcome.map_err(Arc::new);
        *locked(&self.sample) =
            Some(Sample { at: Instant::now(), interval, value: Arc::new(value), outcome });
        self.taken.notify_all();
    }

    /// Whoever asks from now on waits for the next sample.
    fn clear(&self) {
        *locked(&self.sample) = None;
    }

    pub(super) fn get(&self, what: &'static str) -> Result<(Arc<T>, Result<()>)> {
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
    /// `None` while connections are not wanted.
    passes: Option<Passes>,
    ports: Ports,
    /// CPU time of threads that heard of closed connections for earlier passes.
    ended: Duration,
    owners: Owners,
    udp: udp::Watch,
    tracked: tracked::Watch,
    waiting: Option<WaitingBy>,
    next_pass: Instant,
    next_look: Instant,
    look_interval: Duration,
    /// What the last look cost.
    look_cost: Duration,
}

impl Walker {
    fn run(&mut self, inbox: &Receiver<Plan>) {
        loop {
            let started = Instant::now();
            if self.plan.connections {
                let passes = self.passes.get_or_insert_with(|| Passes::new(&self.kernel, &self.plan));
                passes.hear(&self.plan);
                if started >= self.next_pass {
                    self.pass(started);
                }
            } else {
                self.found.connections.clear();
                self.waiting = None;
                self.end_passes();
            }
            if !self.plan.listeners {
                self.found.listeners.clear();
                self.tracker.pause();
            } else if started >= self.next_look {
                self.look(started);
            }
            self.watch_udp(started);
            self.watch_tracked(started);
            let Plan { listeners, connections, udp_sockets, tracked_flows, .. } = self.plan;
            if !listeners && !connections && !udp_sockets && !tracked_flows {
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
        let now = Instant::now();
        let looks = self.plan.listeners.then_some(self.next_look);
        // What is heard of closed connections is fetched before there is no room for it.
        let passes = self.plan.connections.then(|| self.next_pass.min(now + TICK));
        let others = self.udp.next(&self.plan).into_iter().chain(self.tracked.next(&self.plan));
        let next = looks.into_iter().chain(passes).chain(others).min();
        next.map_or(IDLE, |next| next.saturating_duration_since(now))
    }

    /// A reload asks for nothing sooner than the plan does, except what was off. Sums
    /// by path begin anew when paths are declared otherwise.
    fn change(&mut self, plan: Plan) {
        let now = Instant::now();
        let other =
            plan.paths != self.plan.paths || plan.close_notifications != self.plan.close_notifications;
        if other {
            self.end_passes();
        }
        if plan.connections && (other || !self.plan.connections) {
            self.next_pass = now;
        }
        if plan.listeners && !self.plan.listeners {
            self.next_look = now;
        }
        self.next_pass = self.next_pass.min(now + plan.interval);
        self.plan = plan;
    }

    fn end_passes(&mut self) {
        self.ended += self.passes.take().map_or(Duration::ZERO, |passes| passes.work().cpu);
    }

    /// Looks at listening sockets.
    fn look(&mut self, started: Instant) {
        let cpu_before = cpu_time();
        let (groups, outcome) = match listeners::read(&mut self.kernel) {
            Ok(mut found) => {
                let (mut bounds, outcome) = listeners::read_bounds(&mut self.kernel);
                let chosen = listeners::mark_chosen(&mut self.kernel, &mut found, &bounds);
                bounds.earlier_somaxconn = self.plan.earlier_somaxconn.get().copied();
                let waiting = self.waiting.as_ref();
                let longest = 3 * self.look_interval;
                let mut groups = self.tracker.observe(started, &found, &bounds, waiting, longest);
                let named = self.owners.name(&mut self.kernel, started, &found, &mut groups);
                (groups, outcome.and(chosen).and(named))
            }
            Err(error) => (Vec::new(), Err(error)),
        };
        self.look_cost = cpu_time().saturating_sub(cpu_before);
        self.look_interval = TICK.max(self.look_cost.div_f64(self.plan.budget() * PART));
        self.next_look = started + self.look_interval;
        self.account();
        self.found.listeners.put(self.look_interval, groups, outcome);
    }

    /// Passes over connections.
    fn pass(&mut self, started: Instant) {
        let Some(passes) = &mut self.passes else { return };
        // What looks and notifications leave of the budget.
        let looks = self.look_cost.as_secs_f64() / self.look_interval.as_secs_f64();
        let looks = if self.plan.listeners { looks } else { 0.0 };
        let others = self.udp.share(&self.plan) + self.tracked.share();
        let used = looks + others + passes.closes_share();
        let budget = self.plan.budget();
        let share = budget - used.min(3.0 * PART * budget);
        let limits = tcp_limits::read(&mut self.kernel);
        let means = Means { limits, share, ports: &mut self.ports };
        let mut found = passes.run(&mut self.kernel, started, means, &self.plan);
        let interval = passes.interval();
        self.next_pass = started + interval;
        self.waiting = found.waiting;
        if let Some(pass) = &found.connections.now {
            found.connections.unit_memory = self.owners.by_unit(&mut self.kernel, started, &pass.memory);
        }
        self.account();
        self.found.connections.put(interval, found.connections, found.outcome);
    }

    /// Before what was found: whoever sees that knows what it cost.
    fn account(&self) {
        let passes = self.passes.as_ref().map(Passes::work);
        let passes = passes.unwrap_or(Sampling { interval: self.plan.interval, ..Sampling::default() });
        *locked(&self.found.work) = Some(Sampling {
            cpu: cpu_time() + self.ended + passes.cpu,
            interrupted_dumps: self.kernel.interrupted_dumps(),
            ..passes
        });
    }
}

/// User and system time of this thread.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
