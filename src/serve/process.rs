//! The `serve` command: the process around the server, with its log, sockets,
//! signals and service manager.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use listenfd::ListenFd;
use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tracing::{debug, error, info, warn};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};

use super::{App, Limits, Listeners, run};
use crate::REVISION;
use crate::cli::{ListenAddress, LogFormat, ServeArgs};
use crate::collect::{Collector, Others, Selection};
use crate::config::{Config, ReloadState, one_line};
use crate::kernel::{self, Kernel, Root};
use crate::ledger::Ledger;
use crate::model::namespaces::LIMIT;

/// Why the exporter did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be listened on.
    #[error("--web.listen-address={address}: {source}")]
    Listen {
        /// The address.
        address: ListenAddress,
        /// What the system answered.
        source: io::Error,
    },
    /// The sockets that systemd passed are of no use.
    #[error("--web.systemd-socket: {0}")]
    Inherit(io::Error),
    /// There is no procfs where it should be.
    #[error("--path.procfs: {0}")]
    Procfs(kernel::Error),
    /// The recording is incomplete.
    #[error("--path.recorded: {0}")]
    Recorded(kernel::Error),
    /// The system refused something that every process needs.
    #[error("{what}: {source}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it answered.
        source: io::Error,
    },
}

impl Error {
    fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Runs the exporter until SIGTERM or SIGINT.
///
/// # Errors
/// It could not be started. Once it runs, nothing ends it but a signal.
pub fn start(config: Config) -> Result<(), Error> {
    // Takes variables out of the environment, so before there are threads.
    let passed = passed_sockets();
    let _log = start_log(&config.args);
    let mut kernel = open_kernel(&config.args)?;
    let release = release(&mut kernel);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("cannot start the event loop"))?;
    let connections = bounded_by_descriptors(config.args.max_connections, &config.args.others);
    let result = runtime.block_on(async {
        let stop = stop_signal().map_err(Error::system("cannot receive signals"))?;
        let reload = signal(SignalKind::hangup()).map_err(Error::system("cannot receive signals"))?;
        let listeners = listen(&config.args, passed).await?;
        info!(
            version = env!("CARGO_PKG_VERSION"),
            revision = REVISION,
            kernel = release,
            addresses = listeners.addresses().join(" "),
            url = listeners.url(),
            "listening"
        );
        let ledger = match &config.args.state_dir {
            Some(directory) => Ledger::open(directory.clone()),
            None => Ok(Ledger::in_memory()),
        };
        let ledger = ledger.map_err(Error::system("cannot start the thread that writes changes"))?;
        let collector = Collector::start(kernel, config.settings.clone(), ledger.clone())
            .map_err(Error::system("cannot start the collecting thread"))?;
        let state = Arc::new(ReloadState::started());
        let limits = Limits { connections, ..Limits::default() };
        let app = App::new(collector.clone(), config.args.telemetry_path.clone(), limits, state.clone());
        let app = Arc::new(app);
        tokio::spawn(first_collection(app.clone(), collector.clone()));
        tokio::spawn(reload_on(reload, config, collector, state));
        run(listeners, app, async {
            stop.await;
            info!("stopping");
            notify(&[NotifyState::Stopping]);
        })
        .await;
        ledger.finish(LAST_WORDS);
        Ok(())
    });
    // Not waiting for a reload that may hang in its file system.
    runtime.shutdown_background();
    result
}

/// How long the end waits for the ledger to be written: a restart then knows when
/// parameters were looked at last. A disk that takes longer loses that, and no change.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Descriptors kept for files, netlink sockets and listeners.
const DESCRIPTORS_RESERVED: u64 = 40;

/// Those of other network namespaces: a socket for each of three netlink protocols.
const DESCRIPTORS_OF_NAMESPACES: u64 = 3 * LIMIT as u64;

/// As many connections as wanted, or as descriptors allow after raising the
/// limit as far as it goes: connections must not take those that files need.
fn bounded_by_descriptors(wanted: usize, others: &Others) -> usize {
    let reserved = match others {
        Others::None => DESCRIPTORS_RESERVED,
        _ => DESCRIPTORS_RESERVED + DESCRIPTORS_OF_NAMESPACES,
    };
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        debug!("cannot raise the limit of file descriptors: {error}");
    }
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = usize::try_from(descriptors.saturating_sub(reserved)).unwrap_or(usize::MAX).max(1);
    if room < wanted {
        warn!(
            descriptors,
            connections = room,
            "fewer connections than asked for: the limit of file descriptors is low"
        );
    }
    wanted.min(room)
}

/// More sockets than this are not what a service manager passes.
const PASSED_LIMIT: u64 = 1024;

fn passed_sockets() -> io::Result<ListenFd> {
    let count = std::env::var("LISTEN_FDS").ok().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    if count > PASSED_LIMIT {
        return Err(io::Error::other(format!("LISTEN_FDS is {count}, more than {PASSED_LIMIT}")));
    }
    Ok(ListenFd::from_env())
}

/// Lines are written by a thread of their own, and dropped when nobody reads
/// them: a full pipe must not stop the exporter.
fn start_log(args: &ServeArgs) -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(1000).finish(io::stderr());
    // Without a place to write to there is nobody to tell that either.
    let log = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_max_level(args.log_level)
        .with_target(false)
        .with_ansi(false)
        .log_internal_errors(false);
    match args.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    guard
}

fn open_kernel(args: &ServeArgs) -> Result<Kernel, Error> {
    args.roots.list(Root::Proc, "net").map_err(Error::Procfs)?;
    match &args.recorded {
        Some(directory) => Kernel::recorded(args.roots.clone(), directory).map_err(Error::Recorded),
        None => Ok(Kernel::live(args.roots.clone())),
    }
}

fn release(kernel: &mut Kernel) -> String {
    match kernel.read(Root::Proc, "sys/kernel/osrelease") {
        Ok(bytes) => String::from_utf8_lossy(bytes.trim_ascii()).into_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

async fn listen(args: &ServeArgs, passed: io::Result<ListenFd>) -> Result<Listeners, Error> {
    if args.systemd_socket {
        return passed.and_then(Listeners::inherit).map_err(Error::Inherit);
    }
    let mut listeners = Listeners::default();
    for address in &args.listen_addresses {
        let bound = listeners.bind(address).await;
        bound.map_err(|source| Error::Listen { address: address.clone(), source })?;
    }
    Ok(listeners)
}

fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn first_collection(app: Arc<App>, collector: Collector) {
    collector.snapshot(Selection::all()).await;
    app.set_ready();
    info!("ready");
    notify(&[NotifyState::Ready]);
}

async fn reload_on(mut signal: Signal, config: Config, collector: Collector, state: Arc<ReloadState>) {
    let config = Arc::new(config);
    while signal.recv().await.is_some() {
        // systemd.service(5), Type=notify-reload: the time goes with the notice.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(error) => debug!("no monotonic clock for systemd: {error}"),
        }
        // Not here: the file may lie on a file system that does not answer.
        let config = Arc::clone(&config);
        let reloaded = spawn_blocking(move || config.reload().map_err(|problem| problem.to_string())).await;
        match reloaded.unwrap_or_else(|panic| Err(panic.to_string())) {
            Ok(settings) => {
                collector.apply(settings);
                state.record(true);
                info!("configuration reloaded");
            }
            Err(problem) => {
                state.record(false);
                error!("configuration not reloaded, the one before stays in use: {}", one_line(&problem));
            }
        }
        notify(&[NotifyState::Ready]);
    }
}

/// Tells the service manager, if there is one.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!("cannot notify systemd: {error}");
    }
}
