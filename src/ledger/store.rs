//! The ledger's files in the state directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Error;
use super::line::{self, Lines};

const NAME: &str = "changes.jsonl";

/// Held by the exporter that writes. Not the ledger itself, which is replaced by
/// another file now and then.
const LOCK: &str = "changes.lock";

/// What will become the ledger once it is whole.
const NEW: &str = "changes.jsonl.new";

/// A ledger with lines that could not be read, or that somebody put in the place of ours,
/// as it was found.
const DAMAGED: &str = "changes.jsonl.damaged";

/// From this size on the file is written anew, bytes.
const SIZE_LIMIT: u64 = 1 << 20;

/// Of a larger file only so much is read, from its end, bytes.
const READ_LIMIT: u64 = 8 << 20;

/// The ledger's file in this directory.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Reads the ledger of this directory, whoever writes it.
pub(super) fn read(directory: &Path) -> Result<Lines, Error> {
    let path = path(directory);
    let bytes = read_bytes(&path).map_err(|source| Error::Io { path, source })?;
    Ok(line::parse(&bytes))
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    // Not to wait for somebody to write into a pipe of that name.
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.len() > READ_LIMIT {
        file.seek(SeekFrom::End(-(READ_LIMIT.cast_signed())))?;
    }
    let mut bytes = Vec::new();
    file.take(READ_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether this file is the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => identity(open) == identity(there),
        _ => false,
    }
}

/// Removes a file if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The right to write into a directory, and the file that is written.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    /// Open for as long as the right is held.
    lock: File,
    /// `None` until it is written whole.
    file: Option<File>,
    /// Bytes of whole lines.
    length: u64,
    /// From this size on it is written anew.
    limit: u64,
}

impl Store {
    /// Takes the right to write, and makes the directory where there is none.
    pub(super) fn lock(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(LOCK);
        let open = || {
            fs::create_dir_all(directory)?;
            OpenOptions::new().create(true).append(true).open(&path)
        };
        let lock = match open() {
            Ok(lock) => lock,
            Err(source) => return Err(Error::Io { path, source }),
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse { path }),
            Err(TryLockError::Error(source)) => return Err(Error::Io { path, source }),
        }
        let directory = directory.to_owned();
        Ok(Self { directory, lock, file: None, length: 0, limit: SIZE_LIMIT })
    }

    /// Whether the lock is still the one that others would meet.
    pub(super) fn is_held(&self) -> bool {
        is_at(&self.lock, &self.directory.join(LOCK))
    }

    /// Whether the file that is written is the one that a restart would find.
    pub(super) fn is_in_place(&self) -> bool {
        self.file.as_ref().is_some_and(|file| is_at(file, &path(&self.directory)))
    }

    /// Goes on with the file that is there, of which every line is whole.
    pub(super) fn resume(&mut self) -> Result<(), Error> {
        let path = path(&self.directory);
        let open = || {
            let file = OpenOptions::new().append(true).open(&path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        match open() {
            Ok((file, length)) => (self.file, self.length) = (Some(file), length),
            Err(source) => return Err(Error::Io { path, source }),
        }
        Ok(())
    }

    /// Keeps the file that is there beside the one that will take its place.
    pub(super) fn keep_damaged(&self) -> Result<PathBuf, Error> {
        let kept = self.directory.join(DAMAGED);
        let keep = || {
            remove(&kept)?;
            fs::hard_link(path(&self.directory), &kept)
        };
        match keep() {
            Ok(()) => Ok(kept),
            Err(source) => Err(Error::Io { path: kept, source }),
        }
    }

    /// Whether lines can be added to the file as it is.
    pub(super) fn can_append(&self) -> bool {
        self.file.is_some() && self.length < self.limit
    }

    /// Adds whole lines, and returns when they are on the disk. Where that fails the
    /// file is to be replaced before more is added.
    pub(super) fn append(&mut self, lines: &str) -> Result<(), Error> {
        let path = path(&self.directory);
        let Some(file) = &mut self.file else {
            return Err(Error::Io { path, source: io::Error::other("is to be replaced first") });
        };
        match file.write_all(lines.as_bytes()).and_then(|()| file.sync_data()) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(source) => {
                // Best without half a line, should this process end before it is replaced.
                let _ = file.set_len(self.length);
                self.file = None;
                Err(Error::Io { path, source })
            }
        }
    }

    /// Puts a file of these lines in the place of the one that is there, so that at any
    /// moment one of them is there whole.
    pub(super) fn replace(&mut self, lines: &str) -> Result<(), Error> {
        let new = self.directory.join(NEW);
        let write = || {
            // A new one, also where somebody put something else there.
            remove(&new)?;
            let mut file = OpenOptions::new().append(true).create_new(true).open(&new)?;
            file.write_all(lines.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, path(&self.directory))?;
            // Or the name is lost where the power is.
            File::open(&self.directory)?.sync_all()?;
            Ok(file)
        };
        match write() {
            Ok(file) => {
                self.file = Some(file);
                self.length = lines.len() as u64;
                // What takes more than half the room at once would be written over and over.
                self.limit = SIZE_LIMIT.max(2 * self.length);
                Ok(())
            }
            Err(source) => {
                self.file = None;
                // It may be what fills the file system.
                let _ = fs::remove_file(&new);
                Err(Error::Io { path: new, source })
            }
        }
    }
}
