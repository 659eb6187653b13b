//! The ledger: every change of a parameter that was noticed, with both values, kept in
//! memory and, where there is a directory for it, in a small file.
//!
//! Whoever notices a change takes it into memory and goes on; a thread of its own
//! writes. So a disk that is slow, full or gone holds up neither a scrape nor the
//! ticker, and what it missed is written once it is back: memory is what counts, and
//! the file can be made from it anew at any time.

mod keeper;
mod line;
mod shown;
mod store;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::info;

use crate::model::LedgerFigures;
use crate::model::changes::{Book, Change, Found, Moment, Record};
use crate::model::parameters::State;
use crate::read::place::Place;
use crate::read::sysctl::Value;

pub use line::{Lines, parse};
pub use shown::{json, row, text};

/// Why the ledger's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// Another exporter writes there.
    #[error("{}: held by another exporter", path.display())]
    InUse {
        /// The lock, or the file.
        path: PathBuf,
    },
}

/// How long the start waits for the ledger's file to be read. Usually it takes a few
/// milliseconds; a disk that takes longer must not hold up the exporter.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lines that wait to be written take no more than this, bytes; where more come
/// the file is written anew as a whole.
const WAITING: usize = 64 << 10;

/// Handle to the ledger; cheap to clone.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    desk: Mutex<Desk>,
    /// There may be something to write.
    given: Condvar,
    /// The file was read, or the thread has ended.
    taken: Condvar,
}

/// What the threads share. It is held for as long as memory takes, never for a disk.
#[derive(Debug)]
struct Desk {
    book: Book,
    disk: Disk,
    /// Lines to be added to the file.
    waiting: String,
    /// The file is to be written anew from the book.
    anew: bool,
    /// No attempt before this moment.
    not_before: Option<Instant>,
    /// The end was asked for.
    closing: bool,
    changes: u64,
    failures: u64,
    unreadable: u64,
}

/// How things stand with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    /// There is none that could be used.
    None,
    /// It is being read. What was before is not known yet, so nothing is noticed.
    Reading,
    /// It is as memory is, but for what waits.
    Good,
    /// It could not be written and is tried again.
    Failing,
}

impl Ledger {
    /// A ledger that ends with the process.
    pub fn in_memory() -> Self {
        Self::with(Disk::None)
    }

    fn with(disk: Disk) -> Self {
        let desk = Desk {
            book: Book::default(),
            disk,
            waiting: String::new(),
            anew: false,
            not_before: None,
            closing: false,
            changes: 0,
            failures: 0,
            unreadable: 0,
        };
        Self(Arc::new(Shared { desk: Mutex::new(desk), given: Condvar::new(), taken: Condvar::new() }))
    }

    /// The ledger of a directory. Whatever is wrong with that is logged and does no
    /// harm: then changes are kept in memory.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn open(directory: PathBuf) -> io::Result<Self> {
        let ledger = Self::with(Disk::Reading);
        let shared = Arc::clone(&ledger.0);
        std::thread::Builder::new().name("ledger".into()).spawn(move || keeper::run(&shared, &directory))?;
        ledger.0.wait(PATIENCE, |desk| desk.disk == Disk::Reading);
        Ok(ledger)
    }

    /// Takes in one look at all parameters; `complete` where none was left out for
    /// want of being read.
    pub fn observe(&self, now: Moment, place: &Place, states: &[State], complete: bool) {
        let mut desk = self.0.lock();
        if desk.disk == Disk::Reading {
            return;
        }
        let found = states.iter().filter(|state| state.changeable);
        let found =
            found.map(|state| Found { parameter: &state.name, value: &state.value, device: state.device });
        let records = desk.book.observe(now, place, found, complete);
        desk.changes += records.iter().filter(|record| matches!(record, Record::Change(_))).count() as u64;
        desk.give(&records);
        drop(desk);
        self.0.given.notify_one();
        for record in &records {
            if let Record::Change(change) = record {
                info!("{}", row(change));
            }
        }
    }

    /// Puts beside each parameter the change that led to its value.
    pub fn annotate(&self, states: &mut [State]) {
        let desk = self.0.lock();
        for state in states {
            state.last_change = desk.book.last_change(&state.name, &state.value).cloned();
        }
    }

    /// The value that a parameter had before the last change that came before the first
    /// look of this process; `None` without one, and before that look.
    pub fn before_start(&self, parameter: &str) -> Option<Value> {
        self.0.lock().book.before_start(parameter).cloned()
    }

    /// Changes that are remembered, the oldest first.
    pub fn changes(&self) -> Vec<Arc<Change>> {
        self.0.lock().book.changes()
    }

    /// What the ledger tells of itself.
    pub fn figures(&self) -> LedgerFigures {
        let desk = self.0.lock();
        LedgerFigures {
            changes: desk.changes,
            entries: desk.book.len() as u64,
            write_failures: desk.failures,
            unreadable_lines: desk.unreadable,
            persistent: desk.disk == Disk::Good,
        }
    }

    /// Writes what waits, and when was looked last; waits no longer than `limit` for it.
    pub fn finish(&self, limit: Duration) {
        let mut desk = self.0.lock();
        let last = desk.book.last_look();
        desk.give(last.as_slice());
        desk.closing = true;
        drop(desk);
        self.0.given.notify_one();
        self.0.wait(limit, |desk| desk.disk != Disk::None);
    }
}

impl Desk {
    fn give(&mut self, records: &[Record]) {
        if self.disk != Disk::Good || self.anew {
            return;
        }
        for record in records {
            line::write(record, &mut self.waiting);
        }
        if self.waiting.len() > WAITING {
            self.waiting.clear();
            self.anew = true;
        }
    }
}

impl Shared {
    /// The book is the only part that a panic could leave half done, and no step of it
    /// depends on the one before.
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, limit: Duration, condition: impl FnMut(&mut Desk) -> bool) {
        let waited = self.taken.wait_timeout_while(self.lock(), limit, condition);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Changes by the file in a directory, the oldest first, and what else was found there;
/// an exporter that writes it is not disturbed.
///
/// # Errors
/// There is no such file, or it cannot be read.
pub fn read(directory: &Path) -> Result<(Vec<Arc<Change>>, Lines), Error> {
    let mut lines = store::read(directory)?;
    let mut book = Book::default();
    book.restore(std::mem::take(&mut lines.records));
    Ok((book.changes(), lines))
}

#[cfg(test)]
mod tests;
