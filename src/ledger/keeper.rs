//! The thread that writes the ledger's file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::store::{self, Store};
use super::{Desk, Disk, Error, Shared, line};

/// Time between two attempts to write what could not be written.
const RETRY: Duration = Duration::from_secs(5);

/// Reads the ledger, then writes until the end. Where that is of no use it returns.
pub(super) fn run(shared: &Shared, directory: &Path) {
    let _leave = Leave(shared);
    match Keeper::start(shared, directory) {
        Ok(mut keeper) => keeper.run(),
        Err(error) => in_memory_only(&error),
    }
}

fn in_memory_only(error: &Error) {
    warn!("changes of parameters are kept in memory only: {error}");
}

/// However the thread ends, nobody waits for it or takes the file for written.
struct Leave<'s>(&'s Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.lock().disk = Disk::None;
        self.0.taken.notify_all();
    }
}

struct Keeper<'s> {
    shared: &'s Shared,
    directory: PathBuf,
    /// `None` while the directory cannot be written to.
    store: Option<Store>,
    /// There was no file when it was looked for, and none was written since.
    missing: bool,
}

/// What is to be done, taken from the desk.
enum Job {
    Add(String),
    Replace(String),
}

impl<'s> Keeper<'s> {
    /// Reads the file, also where it cannot be written.
    ///
    /// # Errors
    /// Another exporter writes there; or there may be a file that cannot be read, which
    /// must not be replaced.
    fn start(shared: &'s Shared, directory: &Path) -> Result<Self, Error> {
        let mut store = match Store::lock(directory) {
            Err(error @ Error::InUse { .. }) => return Err(error),
            store => store,
        };
        let lines = match store::read(directory) {
            Ok(lines) => Some(lines),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let missing = lines.is_none();
        let lines = lines.unwrap_or_default();
        let path = store::path(directory);
        if let Some(first) = &lines.first {
            let (count, path) = (lines.unreadable, path.display());
            warn!("{path}: left out {count} lines that cannot be read; {first}");
            match store.as_ref().map(Store::keep_damaged) {
                Ok(Ok(kept)) => info!("{path}: kept as it was under {}", kept.display()),
                Ok(Err(error)) => warn!("{path}: not kept as it was: {error}"),
                Err(_) => {}
            }
        }
        if lines.cut {
            info!("{}: left out the last line, which was not written to its end", path.display());
        }
        let whole = !missing && lines.unreadable == 0 && lines.ends_well;
        let resumed = whole && store.as_mut().is_ok_and(|store| store.resume().is_ok());

        let mut desk = shared.lock();
        desk.unreadable = lines.unreadable + u64::from(lines.cut);
        desk.book.restore(lines.records);
        desk.anew = !resumed;
        let store = match store {
            Ok(store) => {
                desk.disk = Disk::Good;
                Some(store)
            }
            Err(error) => {
                desk.fail(&error);
                None
            }
        };
        drop(desk);
        shared.taken.notify_all();
        Ok(Self { shared, directory: directory.to_owned(), store, missing })
    }

    fn run(&mut self) {
        loop {
            let (job, closing) = self.next_job();
            if let Some(job) = job {
                let done = self.work(job);
                let mut desk = self.shared.lock();
                match done {
                    Ok(()) if desk.disk == Disk::Failing => {
                        desk.disk = Disk::Good;
                        info!("changes of parameters are written again");
                    }
                    Ok(()) => {}
                    Err(error @ Error::InUse { .. }) => return in_memory_only(&error),
                    Err(error) => desk.fail(&error),
                }
            }
            if closing {
                return;
            }
        }
    }

    /// Waits for something to do, or for the end.
    fn next_job(&self) -> (Option<Job>, bool) {
        let mut desk = self.shared.lock();
        while !desk.closing && !desk.has_work() {
            desk = if desk.disk == Disk::Failing {
                let waited = self.shared.given.wait_timeout(desk, RETRY);
                waited.unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.shared.given.wait(desk).unwrap_or_else(PoisonError::into_inner)
            };
        }
        let anew = desk.anew || !self.store.as_ref().is_some_and(Store::can_append);
        let job = if !desk.anew && desk.waiting.is_empty() {
            None
        } else if anew {
            Some(Job::Replace(desk.take_all()))
        } else {
            Some(Job::Add(std::mem::take(&mut desk.waiting)))
        };
        (job, desk.closing)
    }

    fn work(&mut self, job: Job) -> Result<(), Error> {
        // Whoever removes the folder, or the lock in it, lets others in.
        self.store.take_if(|store| !store.is_held());
        let store = match &mut self.store {
            Some(store) => store,
            None => self.store.insert(Store::lock(&self.directory)?),
        };
        let path = store::path(&self.directory);
        if self.missing && path.exists() {
            // It came with a file system that was mounted meanwhile, say.
            return Err(Error::InUse { path });
        }
        let job = match job {
            Job::Add(_) if !store.is_in_place() => {
                warn!("{}: somebody removed or replaced it; it is written anew", path.display());
                if path.exists()
                    && let Err(error) = store.keep_damaged()
                {
                    warn!("{}: not kept as it was: {error}", path.display());
                }
                Job::Replace(self.shared.lock().take_all())
            }
            job => job,
        };
        match &job {
            Job::Add(lines) => store.append(lines)?,
            Job::Replace(lines) => store.replace(lines)?,
        }
        self.missing = false;
        Ok(())
    }
}

impl Desk {
    fn has_work(&self) -> bool {
        (self.anew || !self.waiting.is_empty())
            && self.not_before.is_none_or(|moment| Instant::now() >= moment)
    }

    /// All lines of a file that is written anew; nothing waits then.
    fn take_all(&mut self) -> String {
        self.anew = false;
        self.waiting.clear();
        let mut lines = String::new();
        self.book.records().iter().for_each(|record| line::write(record, &mut lines));
        lines
    }

    /// Everything is to be written once that is possible.
    fn fail(&mut self, error: &Error) {
        if self.disk != Disk::Failing {
            warn!("changes of parameters are kept in memory only until they can be written: {error}");
        }
        self.disk = Disk::Failing;
        self.failures += 1;
        self.anew = true;
        self.waiting.clear();
        self.not_before = Some(Instant::now() + RETRY);
    }
}
