//! The one thread that reads the sources.
//!
//! Scrapes and the ticker talk to it over a channel, so that there is one
//! reader of the kernel, one set of buffers and netlink sockets, and no lock.

mod closes;
mod namespaces;
mod owners;
mod parameters;
mod passes;
mod persisted;
mod ports;
mod sampler;
mod settings;
mod sources;
mod ticker;
mod tracked;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

use tokio::sync::oneshot;
use tracing::{debug, info, warn};

use crate::kernel::Kernel;
use crate::ledger::Ledger;
use crate::model::interval::RetransmitRatio;
use crate::model::recommend::{Evidence, recommend};
use crate::model::{Exporter, Outcome, Report, Snapshot};
use crate::read::{modules, place};

pub use crate::model::namespaces::Others;
use namespaces::Watch;
use sampler::Sampler;
pub use settings::{DeviceFilter, Look, Settings};
use sources::Context;
pub use sources::{SOURCES, Source};

/// A set of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection(u64);

impl Selection {
    /// Every source.
    pub fn all() -> Self {
        Self((1 << SOURCES.len()) - 1)
    }

    /// The sources of these names; the first unknown name is the error.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        names.into_iter().try_fold(Self(0), |selection, name| {
            let index = index_of(name).ok_or_else(|| name.to_owned())?;
            Ok(Self(selection.0 | 1 << index))
        })
    }

    /// This set without the source of this name.
    pub fn without(self, name: &str) -> Self {
        Self(self.0 & !index_of(name).map_or(0, |index| 1 << index))
    }

    /// What is in both sets.
    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }
}

fn index_of(name: &str) -> Option<usize> {
    SOURCES.iter().position(|source| source.name == name)
}

/// Most requests that wait for the thread. More can only come of callers that
/// gave up long ago, while a source hangs.
const WAITING: usize = 1024;

/// Handle to the thread that reads the sources; cheap to clone.
#[derive(Debug, Clone)]
pub struct Collector {
    requests: SyncSender<Request>,
    /// Index into [`SOURCES`] of the source being read, plus one; 0 is none.
    reading: Arc<AtomicUsize>,
    ledger: Ledger,
}

#[derive(Debug)]
enum Request {
    Read { wanted: Selection, reply: oneshot::Sender<Arc<Snapshot>> },
    Apply(Settings),
}

impl Collector {
    /// Starts the thread, which also gives the ledger what it reads of parameters. It
    /// ends when the last handle is dropped.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start(mut kernel: Kernel, settings: Settings, ledger: Ledger) -> std::io::Result<Self> {
        let (requests, inbox) = sync_channel(WAITING);
        let reading = Arc::new(AtomicUsize::new(0));
        let (elsewhere, earlier_somaxconn) = (Arc::default(), Arc::default());
        let namespaces = Watch::start(kernel.another(), &settings, Arc::clone(&elsewhere))?;
        let plan = settings.sampling(&elsewhere, &earlier_somaxconn);
        let sampler = Sampler::start(kernel.another(), plan)?;
        let place = place::read(&mut kernel);
        let has_pacing_discipline = modules::has(&mut kernel, "sch_fq");
        let mut reader = Reader {
            context: Context {
                kernel,
                settings,
                sampler,
                ledger: ledger.clone(),
                place,
                earlier_somaxconn,
                namespaces,
                elsewhere,
                unusable_pages: None,
                persisted: persisted::Cache::default(),
            },
            reading: Arc::clone(&reading),
            retransmit_ratio: RetransmitRatio::default(),
            evidence: Evidence::new(has_pacing_discipline),
            outcomes: vec![None; SOURCES.len()],
        };
        std::thread::Builder::new().name("collector".into()).spawn(move || reader.run(&inbox))?;
        Ok(Self { requests, reading, ledger })
    }

    /// Reads the sources of `wanted` that are enabled. Callers that wait at the
    /// same time for the same selection share one reading, which begins later than each
    /// of them asked. Never answers when
    /// the thread is gone or far behind: callers set a time limit.
    pub async fn snapshot(&self, wanted: Selection) -> Arc<Snapshot> {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.try_send(Request::Read { wanted, reply });
        match answer.await {
            Ok(snapshot) if sent.is_ok() => snapshot,
            _ => std::future::pending().await,
        }
    }

    /// Replaces the settings, from the next reading on.
    pub fn apply(&self, settings: Settings) {
        if self.requests.try_send(Request::Apply(settings)).is_err() {
            warn!("the collector thread is gone or far behind; the new settings have no effect");
        }
    }

    /// Changes of parameters.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The source that is being read at this moment, so that a scrape that ran
    /// out of time can name what it waited for.
    pub fn reading(&self) -> Option<&'static str> {
        let index = self.reading.load(Ordering::Relaxed).checked_sub(1)?;
        SOURCES.get(index).map(|source| source.name)
    }
}

/// The thread's state.
struct Reader {
    context: Context,
    reading: Arc<AtomicUsize>,
    retransmit_ratio: RetransmitRatio,
    evidence: Evidence,
    /// The last outcome of each source, to log changes only.
    outcomes: Vec<Option<&'static str>>,
}

impl Reader {
    fn run(&mut self, inbox: &Receiver<Request>) {
        let mut waiting: VecDeque<Request> = VecDeque::new();
        self.tick(ticker::FIRST);
        let mut next_tick = Instant::now() + self.context.settings.sample_interval;
        loop {
            let request = match waiting.pop_front() {
                Some(request) => Ok(request),
                None => inbox.recv_timeout(next_tick.saturating_duration_since(Instant::now())),
            };
            match request {
                Ok(Request::Apply(settings)) => {
                    self.context.apply(&settings);
                    self.context.settings = settings;
                }
                // Whoever gave up waiting behind a slow source wants no reading.
                Ok(Request::Read { reply, .. }) if reply.is_closed() => {}
                Ok(Request::Read { wanted, reply }) => {
                    // Whoever asks later is not answered with what was there before.
                    waiting.extend(inbox.try_iter());
                    let snapshot = Arc::new(self.collect(wanted));
                    // A caller that gave up meanwhile is no error.
                    let _ = reply.send(Arc::clone(&snapshot));
                    share(&mut waiting, wanted, &snapshot);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= next_tick {
                self.tick(ticker::ALL);
                next_tick = Instant::now() + self.context.settings.sample_interval;
            }
        }
    }

    fn collect(&mut self, wanted: Selection) -> Snapshot {
        let wanted = wanted.and(self.context.settings.enabled);
        let mut snapshot = Snapshot {
            constants: Some(self.context.kernel.constants().clone()),
            netstat_all: self.context.settings.netstat_all,
            declared: Arc::clone(&self.context.settings.declared),
            ..Snapshot::default()
        };
        for (index, source) in SOURCES.iter().enumerate().filter(|(index, _)| wanted.contains(*index)) {
            let started = Instant::now();
            let outcome = self.read(index, &mut snapshot);
            let report = Report { source: source.name, outcome, duration: started.elapsed() };
            self.log_change(index, &report);
            snapshot.reports.push(report);
        }
        let sampling = self.context.sampler.work();
        snapshot.exporter = Exporter {
            interrupted_dumps: self.context.kernel.interrupted_dumps()
                + self.context.elsewhere.interrupted_dumps()
                + sampling.map_or(0, |sampling| sampling.interrupted_dumps),
            retransmit_ratio: self.retransmit_ratio.get(),
            sampling,
            ledger: self.context.ledger.figures(),
        };
        self.observe(&snapshot);
        let states = snapshot.parameters.as_deref().unwrap_or_default();
        let paths = &self.context.settings.paths;
        snapshot.recommendations = recommend(states, snapshot.facts.as_ref(), &self.evidence, paths);
        snapshot
    }

    /// Reads one source, known as the one being read meanwhile. A panic in it is
    /// a failure of that source, not of the exporter.
    fn read(&mut self, index: usize, snapshot: &mut Snapshot) -> Outcome {
        self.reading.store(index + 1, Ordering::Relaxed);
        let read = || (SOURCES[index].read)(&mut self.context, snapshot);
        let outcome = match catch_unwind(AssertUnwindSafe(read)) {
            Ok(result) => result.into(),
            Err(_) => Outcome::Failed("the exporter has a bug here: its reader panicked".into()),
        };
        self.reading.store(0, Ordering::Relaxed);
        outcome
    }

    fn log_change(&mut self, index: usize, report: &Report) {
        let (Some(last), outcome) = (self.outcomes.get_mut(index), &report.outcome) else {
            return;
        };
        let before = last.replace(outcome.name());
        if before == Some(outcome.name()) {
            return;
        }
        match outcome {
            // What is expected at start is not news.
            Outcome::Ok if before.is_none() => debug!(collector = report.source, "ok"),
            Outcome::Failed(detail) => warn!(collector = report.source, "failed: {detail}"),
            Outcome::Absent(detail) => info!(collector = report.source, "absent: {detail}"),
            Outcome::Ok => info!(collector = report.source, "ok"),
        }
    }
}

/// Answers the requests for `wanted` that waited when it was read.
fn share(waiting: &mut VecDeque<Request>, wanted: Selection, snapshot: &Arc<Snapshot>) {
    for _ in 0..waiting.len() {
        match waiting.pop_front() {
            Some(Request::Read { wanted: other, reply }) if other == wanted => {
                let _ = reply.send(Arc::clone(snapshot));
            }
            Some(request) => waiting.push_back(request),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_by_name() {
        let two = Selection::named(["snmp", "sysctl"]).unwrap();
        assert_eq!(two.without("sysctl"), Selection::named(["snmp"]).unwrap());
        assert_eq!(Selection::named(["snmp", "nosuch"]).unwrap_err(), "nosuch");
        assert_eq!(Selection::named(SOURCES.iter().map(|source| source.name)).unwrap(), Selection::all());
    }

    #[test]
    fn names_of_sources_are_unique() {
        for (index, source) in SOURCES.iter().enumerate() {
            assert_eq!(index_of(source.name), Some(index), "{}", source.name);
        }
    }
}
