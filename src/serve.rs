//! HTTP: metrics, health, and pages for people.
//!
//! [`run`] serves connections of given listeners until a given future ends;
//! it knows no signals and no flags. [`start`] is the `serve` command around it.

mod answer;
mod changes;
mod connection;
mod listen;
mod negotiate;
mod paced;
mod page;
mod process;
mod query;
mod scrape;
mod stream;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::collect::Collector;
use crate::config::ReloadState;

use connection::Notice;

pub use listen::Listeners;
pub use process::{Error, start};

/// Bounds on what a client can hold or wait for.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections that are served at once; others wait in the backlog.
    pub connections: usize,
    /// A request's head must have arrived this long after its first byte, or
    /// after the connection's start.
    pub head: Duration,
    /// An answer must have been taken, whole, this long after it was ready.
    pub answer: Duration,
    /// A connection is closed after this long without a request.
    pub idle: Duration,
    /// A scrape that names no limit of its own is given up after this long.
    pub scrape: Duration,
    /// Requests in flight may take this long after the end was asked for.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            // Longer than the usual scrape interval, so that it can keep its connection.
            idle: Duration::from_secs(120),
            scrape: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

/// What every request needs.
#[derive(Debug)]
pub struct App {
    collector: Collector,
    telemetry_path: String,
    limits: Limits,
    reload: Arc<ReloadState>,
    ready: AtomicBool,
    free: Arc<Semaphore>,
}

impl App {
    /// `telemetry_path` starts with a slash.
    pub fn new(
        collector: Collector,
        telemetry_path: String,
        limits: Limits,
        reload: Arc<ReloadState>,
    ) -> Self {
        let free = Arc::new(Semaphore::new(limits.connections));
        Self { collector, telemetry_path, limits, reload, ready: AtomicBool::new(false), free }
    }

    /// From now on `/-/ready` says yes.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }
}

/// Serves connections until `shutdown` ends, then lets those in flight finish.
pub async fn run(mut listeners: Listeners, app: Arc<App>, shutdown: impl Future<Output = ()>) {
    // Every connection holds a receiver; when all are gone, all are served.
    let (notices, _) = watch::channel(Notice::Serve);
    tokio::select! {
        never = accept(&mut listeners, &app, &notices) => match never {},
        () = shutdown => {}
    }
    drop(listeners);
    notices.send_replace(Notice::Drain);
    if timeout(app.limits.drain, notices.closed()).await.is_err() {
        warn!("gave up on {} connections that did not finish in time", notices.receiver_count());
    }
}

/// Longest pause after an accept that failed, for want of file descriptors say.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

async fn accept(listeners: &mut Listeners, app: &Arc<App>, notices: &watch::Sender<Notice>) -> Infallible {
    let mut pause = Duration::ZERO;
    let (mut full, mut failed) = (OncePerMinute::default(), OncePerMinute::default());
    loop {
        if app.free.available_permits() == 0 {
            // Connections that do nothing must not keep others waiting.
            notices.send_replace(Notice::CloseIdle);
            if full.is_due() {
                warn!(limit = app.limits.connections, "as many connections as allowed; further ones wait");
            }
        }
        // Waits for a place without taking it: while nobody comes it is free,
        // and nobody but this loop takes one.
        let Ok(permit) = app.free.acquire().await else { unreachable!("the semaphore is never closed") };
        drop(permit);
        match listeners.accept().await {
            Ok(stream) => {
                pause = Duration::ZERO;
                let Ok(permit) = app.free.clone().try_acquire_owned() else {
                    unreachable!("nobody else takes the place that was free a moment ago")
                };
                tokio::spawn(connection::serve(stream, app.clone(), permit, notices.subscribe()));
            }
            Err(error) => {
                if failed.is_due() {
                    warn!("cannot accept connections: {error}");
                }
                // Descriptors that idle connections hold are missed elsewhere.
                notices.send_replace(Notice::CloseIdle);
                // The first failure may concern one connection only.
                sleep(pause).await;
                pause = (pause * 2).clamp(Duration::from_millis(10), LONGEST_PAUSE);
            }
        }
    }
}

/// Keeps a condition that lasts from filling the log.
#[derive(Default)]
struct OncePerMinute(Option<Instant>);

impl OncePerMinute {
    fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= Duration::from_secs(60));
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}
