//! The thread that reads other network namespaces, one after another. It is the only
//! one that ever leaves its own: scrapes take what it last found.

mod room;

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};

use super::Settings;
use super::sampler::{Slot, cpu_time};
use crate::kernel::namespaces::Home;
use crate::kernel::{Error, Kernel, Result, Root};
use crate::model::namespaces::{Chosen, Namespace, Namespaces, NotEntered, Others, Roster};
use crate::read::namespaces;
use room::{Host, Room};

/// Namespaces are looked for this often: one that went away is kept in being by our
/// sockets for as long. Where the budget does not allow for it, more rarely.
const SCAN: Duration = Duration::from_secs(2);

/// Share of `--sockets.cpu-budget` that other namespaces may take. The own one has what
/// they leave: at least the other half.
const PART: f64 = 0.5;

/// Of it, the share of looking for them.
const SCANS: f64 = 0.25;

/// What other namespaces take of one CPU, for whoever has the rest.
#[derive(Debug, Default)]
pub(super) struct Share(AtomicU64);

impl Share {
    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, share: f64) {
        self.0.store(share.to_bits(), Ordering::Relaxed);
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
    settings: Settings,
    slot: Arc<Slot<Namespaces>>,
    share: Arc<Share>,
    roster: Roster,
    /// Those that are read, by inode number.
    rooms: BTreeMap<u64, Room>,
    host: Host,
    scan: Scan,
    next_scan: Instant,
    /// Until then the budget is used up.
    next_visit: Instant,
}

/// What the last scan found.
struct Scan {
    at: Instant,
    interval: Duration,
    /// CPU time of the thread then.
    cpu: Duration,
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
            settings,
            slot,
            share,
            roster: Roster::default(),
            rooms: BTreeMap::new(),
            host: Host::default(),
            scan: Scan {
                at: now,
                interval: SCAN,
                cpu: Duration::ZERO,
                found: 0,
                not_entered: NotEntered::default(),
                failed: None,
            },
            next_scan: now,
            next_visit: now,
        }
    }

    fn run(&mut self, inbox: &Receiver<Settings>) {
        loop {
            let now = Instant::now();
            if now >= self.next_scan {
                self.scan(now);
            }
            if let Some((inode, at)) = self.next()
                && at <= now
            {
                self.visit(inode, now);
            }
            self.publish();
            if self.home.is_stranded() {
                error!("cannot return from another network namespace; no other ones are read any more");
                return;
            }
            let next = self.next().map_or(self.next_scan, |(_, at)| at.min(self.next_scan));
            match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(settings) => self.change(settings),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn change(&mut self, settings: Settings) {
        if settings.paths != self.settings.paths {
            // Sums by path begin anew.
            self.rooms.values_mut().for_each(Room::forget_connections);
        }
        self.settings = settings;
    }

    /// Share of one CPU that all of this may take.
    fn budget(&self) -> f64 {
        PART * self.settings.sockets_cpu_budget
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
        let others = if self.settings.wants("netns") { &self.settings.others } else { &none };
        let kernel = &mut self.kernel;
        let cgroups = |process| namespaces::read_cgroups(kernel, process);
        let (chosen, mut not_entered) = self.roster.choose(now, &found, others, cgroups);
        if self.permitted {
            self.enlist(chosen);
        } else {
            not_entered.privilege += chosen.len() as u64;
        }
        let cost = cpu_time().saturating_sub(before);
        let interval = SCAN.max(cost.div_f64(self.budget() * SCANS));
        self.next_scan = now + interval;
        self.scan = Scan { at: now, interval, cpu: before, found: found.len() as u64, not_entered, failed };
    }

    fn enlist(&mut self, chosen: Vec<Chosen>) {
        let mut before = std::mem::take(&mut self.rooms);
        self.rooms = chosen
            .into_iter()
            .map(|chosen| {
                let inode = chosen.place.inode;
                let room = match before.remove(&inode) {
                    Some(room) => room.moved(chosen),
                    None => {
                        debug!(netns = chosen.place.name, inode, "found");
                        Room::new(chosen)
                    }
                };
                (inode, room)
            })
            .collect();
        // The others' sockets are closed here, which lets those namespaces go.
    }

    /// The namespace that has its turn next, and when. One that was never read goes
    /// first and beyond the budget: its first visit does not look at sockets, and names
    /// are rationed.
    fn next(&self) -> Option<(u64, Instant)> {
        let due = |room: &Room| room.due(self.settings.sockets_interval);
        let (inode, room) = self.rooms.iter().min_by_key(|(_, room)| due(room))?;
        Some((*inode, due(room).map_or(self.scan.at, |due| due.max(self.next_visit))))
    }

    fn visit(&mut self, inode: u64, started: Instant) {
        let before = cpu_time();
        self.host.refresh(&mut self.kernel, &self.settings, started);
        let share = self.budget() * (1.0 - SCANS);
        let Some(room) = self.rooms.get_mut(&inode) else { return };
        let doors = doors(&self.kernel, room.chosen());
        let mut outcome = Ok(());
        for door in doors {
            let (kernel, home) = (&mut self.kernel, &self.home);
            let visit = || room.visit(kernel, home, &door, (&self.settings, &self.host, share), started);
            // A panic is that of one namespace; whoever left it is home again.
            outcome = catch_unwind(AssertUnwindSafe(visit)).unwrap_or_else(|_| {
                error!(inode, "the exporter has a bug here: reading a network namespace panicked");
                Ok(())
            });
            if outcome.is_ok() || self.home.is_stranded() {
                break;
            }
        }
        let name = &room.chosen().place.name;
        if let Err(error) = &outcome {
            debug!(netns = name, "not read: {error}");
            if error.is_permission() && !room.has_failed() {
                info!(netns = name, "cannot be entered: {error}");
            }
        }
        room.note(outcome, started);
        let cost = cpu_time().saturating_sub(before);
        self.next_visit = started + cost.div_f64(share);
    }

    fn publish(&self) {
        let mut not_entered = self.scan.not_entered;
        self.rooms.values().for_each(|room| room.count(&mut not_entered));
        let read = self.rooms.values().filter_map(|room| {
            let (at, snapshot) = room.seen()?;
            Some(Namespace { place: Arc::clone(&room.chosen().place), at, snapshot: Arc::clone(snapshot) })
        });
        let namespaces = Namespaces {
            read: read.collect(),
            found: self.scan.found,
            not_entered,
            new_names: self.roster.new_names() as u64,
            cpu: cpu_time().as_secs_f64(),
        };
        let outcome = self.scan.failed.clone().map_or(Ok(()), |error| Err(Error::Shared(error)));
        self.slot.put(self.scan.interval, namespaces, outcome);
    }
}

/// Files that stand for a namespace.
fn doors(kernel: &Kernel, chosen: &Chosen) -> Vec<PathBuf> {
    let process = chosen.process.map(|process| format!("{process}/ns/net"));
    let process = process.map(|path| kernel.roots().path(Root::Proc, path));
    chosen.mount.iter().map(PathBuf::from).chain(process).collect()
}
