//! The thread that walks sockets, on a clock of its own: a scrape takes what it
//! last found and never waits for a walk.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::kernel::{Error, Kernel, Result};
use crate::model::listeners::{Group, Tracker};
use crate::read::listeners;

/// Listening sockets are looked at this often; a walk over them takes less than
/// a millisecond.
const INTERVAL: Duration = Duration::from_secs(1);

/// What was found longer ago says nothing of now.
const STALE: Duration = Duration::from_secs(10);

/// Handle to the thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    switch: Sender<bool>,
    latest: Arc<Latest>,
}

/// The last sample, and a signal for whoever waits for the first.
#[derive(Debug, Default)]
struct Latest {
    sample: Mutex<Option<Sample>>,
    taken: Condvar,
}

#[derive(Debug, Clone)]
struct Sample {
    at: Instant,
    /// Empty when the walk failed; what was understood when a parameter was not.
    listeners: Arc<[Group]>,
    outcome: std::result::Result<(), Arc<Error>>,
}

impl Sampler {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(super) fn start(kernel: Kernel, enabled: bool) -> io::Result<Self> {
        let (switch, switched) = channel();
        let latest = Arc::new(Latest::default());
        let shared = Arc::clone(&latest);
        std::thread::Builder::new()
            .name("sampler".into())
            .spawn(move || run(kernel, enabled, &switched, &shared))?;
        Ok(Self { switch, latest })
    }

    /// Goes on or pauses.
    pub(super) fn enable(&self, enabled: bool) {
        // A thread that is gone shows as a sample that is too old.
        let _ = self.switch.send(enabled);
    }

    /// Listeners as they were last seen, and what that look met. Waits a moment
    /// for the first.
    ///
    /// # Errors
    /// It was too long ago.
    pub(super) fn listeners(&self) -> Result<(Arc<[Group]>, Result<()>)> {
        let guard = self.latest.lock();
        let waited = self.latest.taken.wait_timeout_while(guard, INTERVAL, |sample| sample.is_none());
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match guard.clone() {
            Some(sample) if sample.at.elapsed() < STALE => {
                Ok((sample.listeners, sample.outcome.map_err(Error::Shared)))
            }
            _ => Err(Error::Late { what: "look at listening sockets", limit: STALE }),
        }
    }
}

impl Latest {
    fn lock(&self) -> MutexGuard<'_, Option<Sample>> {
        // The lock is only held to copy a whole sample.
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(mut kernel: Kernel, mut enabled: bool, switched: &Receiver<bool>, latest: &Latest) {
    let mut tracker = Tracker::default();
    loop {
        let started = Instant::now();
        if enabled {
            *latest.lock() = Some(observe(&mut kernel, &mut tracker));
            latest.taken.notify_all();
        } else {
            // Whoever asks after a pause waits for the first look again.
            *latest.lock() = None;
        }
        match switched.recv_timeout(INTERVAL.saturating_sub(started.elapsed())) {
            Ok(wanted) => enabled = wanted,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn observe(kernel: &mut Kernel, tracker: &mut Tracker) -> Sample {
    let (listeners, outcome) = match listeners::read(kernel) {
        Ok(found) => {
            let (bounds, outcome) = listeners::read_bounds(kernel);
            (tracker.observe(Instant::now(), &found, &bounds), outcome)
        }
        Err(error) => (Vec::new(), Err(error)),
    };
    Sample { at: Instant::now(), listeners: listeners.into(), outcome: outcome.map_err(Arc::new) }
}
