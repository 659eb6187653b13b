//! The thread that reads other network namespaces, one after another. It is the only
//! one that ever leaves its own: scrapes take what it last found.

mod host;
mod pace;
mod reader;
mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tracing::{debug, error, warn};

use super::Settings;
use super::sampler::{Slot, cpu_time};
use crate::kernel::namespaces::Home;
use crate::kernel::{Error, Kernel, Result, Root};
use crate::model::namespaces::{Chosen, Namespaces, NotEntered, Others, Roster};
use crate::read::namespaces;
use pace::{Pace, Wanted};
use reader::{Common, Turn};
use room::{Failure, Room};

/// Namespaces are looked for this often: one that went away is kept in being by our
/// sockets for as long. Where the budget does not allow for it, more rarely.
const SCAN: Duration = Duration::from_secs(2);

/// Share of `--sockets.cpu-budget` that other namespaces may take. The own one has what
/// they leave: at least the other half.
const PART: f64 = 0.5;

/// Of it, the share of looking for them.
const SCANS: f64 = 0.25;

/// What other threads know of the work of this one.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// The share of one CPU that it takes, for whoever has the rest: bits of a double.
    cpu: AtomicU64,
    interrupted_dumps: AtomicU64,
}

impl Share {
    /// What it takes of one CPU.
    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.cpu.load(Ordering::Relaxed))
    }

    fn set(&self, share: f64) {
        self.cpu.store(share.to_bits(), Ordering::Relaxed);
    }

    /// Dumps that stayed interrupted after retries.
    pub(super) fn interrupted_dumps(&self) -> u64 {
        self.interrupted_dumps.load(Ordering::Relaxed)
    }
}

/// Handle to the thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    settings: Sender<Settings>,
    found: Arc<Slot<Namespaces>>,
}

impl Watch {
    /// Starts the thread, where other namespaces are wanted.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(super) fn start(kernel: Kernel, settings: &Settings, share: Arc<Share>) -> io::Result<Option<Self>> {
        if settings.others == Others::None {
            return Ok(None);
        }
        let (sender, inbox) = channel();
        let found = Arc::new(Slot::default());
        let (slot, settings) = (Arc::clone(&found), settings.clone());
        let run = move || match Home::of_this_thread() {
            Ok(home) => Watcher::new(kernel, home, settings, slot, share).run(&inbox),
            Err(error) => error!("other network namespaces are not read: {error}"),
        };
        std::thread::Builder::new().name("namespaces".into()).spawn(run)?;
        Ok(Some(Self { settings: sender, found }))
    }

    /// Replaces the settings.
    pub(super) fn apply(&self, settings: &Settings) {
        // A thread that is gone shows as scans that are too old.
        let _ = self.settings.send(settings.clone());
    }

    /// What was last found, and what the last scan met.
    ///
    /// # Errors
    /// It was too long ago.
    pub(super) fn found(&self) -> Result<(Arc<Namespaces>, Result<()>)> {
        self.found.get("scan for network namespaces")
    }
}

/// The thread's state.
struct Watcher {
    kernel: Kernel,
    home: Home,
    /// The system lets this thread enter namespaces and return.
    permitted: bool,
    common: Common,
    slot: Arc<Slot<Namespaces>>,
    share: Arc<Share>,
    roster: Roster,
    /// Names that were asked for and not found once.
    missed: BTreeSet<String>,
    /// Those that are read, by inode number.
    rooms: BTreeMap<u64, Room>,
    scan: Scan,
    next_scan: Instant,
    pace: Pace,
    /// CPU time of the thread up to where the last visit or scan ended.
    accounted: Duration,
}

/// What the last scan found.
struct Scan {
    at: Instant,
    interval: Duration,
    /// CPU time of the thread then.
    cpu: Duration,
    /// What scans take of one CPU.
    share: f64,
    found: u64,
    not_entered: NotEntered,
    failed: Option<Arc<Error>>,
}

impl Watcher {
    fn new(
        kernel: Kernel,
        home: Home,
        settings: Settings,
        slot: Arc<Slot<Namespaces>>,
        share: Arc<Share>,
    ) -> Self {
        let permitted = home.prove();
        if let Err(error) = &permitted {
            warn!("other network namespaces cannot be entered, which takes CAP_SYS_ADMIN: {error}");
        }
        let now = Instant::now();
        Self {
            kernel,
            home,
            permitted: permitted.is_ok(),
            common: Common::new(settings),
            slot,
            share,
            roster: Roster::default(),
            missed: BTreeSet::new(),
            rooms: BTreeMap::new(),
            scan: Scan {
                at: now,
                interval: SCAN,
                cpu: Duration::ZERO,
                share: 0.0,
                found: 0,
                not_entered: NotEntered::default(),
                failed: None,
            },
            next_scan: now,
            pace: Pace::from(now),
            accounted: Duration::ZERO,
        }
    }

    fn run(&mut self, inbox: &Receiver<Settings>) {
        loop {
            let now = Instant::now();
            if now >= self.next_scan {
                self.scan(now);
            }
            if let Some(next) = self.next()
                && next.at <= now
            {
                self.visit(next.inode, Turn { started: now, pass: next.pass });
            }
            self.publish();
            if self.home.is_stranded() {
                error!("cannot return from another network namespace; no other ones are read any more");
                return;
            }
            let next = self.next().map_or(self.next_scan, |next| next.at.min(self.next_scan));
            match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(settings) => self.change(settings),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn change(&mut self, settings: Settings) {
        if settings.paths != self.common.settings.paths {
            // Sums by path begin anew.
            self.rooms.values_mut().for_each(Room::forget_connections);
        }
        self.common.settings = settings;
    }

    /// Share of one CPU that all of this may take.
    fn budget(&self) -> f64 {
        PART * self.common.settings.sockets_cpu_budget
    }

    /// Looks for namespaces, and lets go of those that are no more.
    fn scan(&mut self, now: Instant) {
        let before = cpu_time();
        let used = before.saturating_sub(self.scan.cpu).as_secs_f64();
        let elapsed = now.saturating_duration_since(self.scan.at).max(SCAN).as_secs_f64();
        // Smoothed: a visit may take longer than a scan is away.
        self.share.set(((self.share.get() + used / elapsed) / 2.0).min(self.budget()));

        let (found, failed) = match namespaces::read(&mut self.kernel) {
            Ok(found) => (found, None),
            Err(error) => (BTreeMap::new(), Some(Arc::new(error))),
        };
        let mut found = found;
        found.remove(&self.home.inode());
        let none = Others::None;
        let Settings { others, .. } = &self.common.settings;
        let others = if self.common.settings.wants("netns") { others } else { &none };
        let kernel = &mut self.kernel;
        let cgroups = |process| namespaces::read_cgroups(kernel, process);
        let (chosen, mut not_entered) = self.roster.choose(now, &found, others, cgroups);
        if failed.is_none() {
            for name in self.roster.missing(others) {
                not_entered.not_found += 1;
                if self.missed.insert(name.to_owned()) {
                    warn!("--netns={name}: there is no such network namespace; it is read once there is");
                }
            }
        }
        if self.permitted {
            self.enlist(chosen, now);
        } else {
            not_entered.privilege += chosen.len() as u64;
        }
        let cost = self.cost();
        let interval = SCAN.max(cost.div_f64(self.budget() * SCANS));
        self.next_scan = now + interval;
        let (found, share) = (found.len() as u64, cost.as_secs_f64() / interval.as_secs_f64());
        self.scan = Scan { at: now, interval, cpu: before, share, found, not_entered, failed };
    }

    fn enlist(&mut self, chosen: Vec<Chosen>, now: Instant) {
        let mut before = std::mem::take(&mut self.rooms);
        self.rooms = chosen
            .into_iter()
            .map(|chosen| {
                let inode = chosen.place.inode;
                let room = match before.remove(&inode) {
                    Some(room) => room.moved(chosen),
                    None => {
                        debug!(netns = chosen.place.name, inode, "found");
                        Room::new(chosen, now)
                    }
                };
                (inode, room)
            })
            .collect();
        // The others' sockets are closed here, which lets those namespaces go.
    }

    /// The next visit. A namespace that was never visited goes first and beyond the
    /// budget: its first visit does not look at sockets, and names are rationed. A pass
    /// goes before a look, which is in it.
    fn next(&self) -> Option<Next> {
        let Settings { sockets_interval, .. } = self.common.settings;
        let due = |room: &Room| room.due(sockets_interval);
        let look = self.rooms.iter().min_by_key(|(_, room)| due(room)).map(|(inode, room)| Next {
            at: due(room).map_or(self.scan.at, |due| due.max(self.pace.look)),
            pass: false,
            inode: *inode,
        });
        let wants_passes = self.common.settings.wants("connection");
        let passes = self.rooms.iter().filter(|_| wants_passes);
        let passes = passes.filter_map(|(inode, room)| Some((room.pass_due(sockets_interval)?, *inode)));
        let pass = passes.min().map(|([due, latest], inode)| Next {
            at: due.max(self.pace.pass).min(latest),
            pass: true,
            inode,
        });
        pass.into_iter().chain(look).min_by_key(|next| next.at)
    }

    fn visit(&mut self, inode: u64, turn: Turn) {
        self.common.host.refresh(&mut self.kernel, &self.common.settings, turn.started);
        let wanted = self.wanted();
        let left = self.budget() - self.scan.share;
        let Some(room) = self.rooms.get_mut(&inode) else { return };
        let mut failure = None;
        for door in doors(&self.kernel, room.chosen()) {
            let (kernel, home, common) = (&mut self.kernel, &self.home, &mut self.common);
            let visit = AssertUnwindSafe(|| room.visit(kernel, home, &door, common, turn));
            // A panic is that of one namespace; whoever left it is home again.
            failure = match catch_unwind(visit) {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some((Failure::from(&error), error.to_string())),
                Err(_) => Some((Failure::Other, "the exporter has a bug here: its reader panicked".into())),
            };
            if failure.is_none() || self.home.is_stranded() {
                break;
            }
        }
        let cost = self.cost();
        if let Some(room) = self.rooms.get_mut(&inode) {
            room.note(failure, turn, cost);
        }
        self.pace.spend(turn, cost, left, wanted);
    }

    /// CPU time since it was last asked for.
    fn cost(&mut self) -> Duration {
        let before = std::mem::replace(&mut self.accounted, cpu_time());
        self.accounted.saturating_sub(before)
    }

    /// What visits would cost if they came when they are due.
    fn wanted(&self) -> Wanted {
        let costs = self.rooms.values().map(Room::costs);
        let [looks, passes] =
            costs.fold([Duration::ZERO; 2], |[looks, passes], [look, pass]| [looks + look, passes + pass]);
        let of_one_cpu =
            |cost: Duration| cost.as_secs_f64() / self.common.settings.sockets_interval.as_secs_f64();
        Wanted { looks: of_one_cpu(looks), passes: of_one_cpu(passes) }
    }

    fn publish(&self) {
        self.share.interrupted_dumps.store(self.kernel.interrupted_dumps(), Ordering::Relaxed);
        let mut not_entered = self.scan.not_entered;
        self.rooms.values().for_each(|room| room.count(&mut not_entered));
        let namespaces = Namespaces {
            read: self.rooms.values().filter_map(Room::seen).collect(),
            found: self.scan.found,
            not_entered,
            new_names: self.roster.new_names() as u64,
            cpu: cpu_time().as_secs_f64(),
        };
        let outcome = self.scan.failed.clone().map_or(Ok(()), |error| Err(Error::Shared(error)));
        self.slot.put(self.scan.interval, namespaces, outcome);
    }
}

/// Which namespace has its turn next, and when.
struct Next {
    at: Instant,
    inode: u64,
    /// With a pass over its connections.
    pass: bool,
}

/// Files that stand for a namespace.
fn doors(kernel: &Kernel, chosen: &Chosen) -> Vec<PathBuf> {
    let process = chosen.process.map(|process| format!("{process}/ns/net"));
    let process = process.map(|path| kernel.roots().path(Root::Proc, path));
    chosen.mount.iter().map(PathBuf::from).chain(process).collect()
}
