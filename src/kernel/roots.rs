//! The only place where a path below a mount is joined or a kernel file opened.

use std::ffi::OsString;
use std::fmt::{Display, Write};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Error, Result};

/// Largest file that is read, bytes. `/proc/interrupts` of a host with 480
/// CPUs and thousands of vectors is about 10 MB.
const FILE_LIMIT: usize = 32 << 20;

/// Which mount a path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// procfs
    Proc,
    /// `net` in procfs: that of one network namespace
    Net,
    /// sysfs
    Sys,
}

/// Where procfs, sysfs and the host's root directory are mounted.
#[derive(Debug, Clone)]
pub struct Roots {
    /// Mount point of procfs, usually `/proc`.
    pub proc: PathBuf,
    /// Mount point of sysfs, usually `/sys`.
    pub sys: PathBuf,
    /// The host's root directory, usually `/`; in a container wherever it is mounted.
    pub host: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), host: "/".into() }
    }
}

impl Roots {
    /// The full path of `relative`.
    pub fn path(&self, root: Root, relative: impl Display) -> PathBuf {
        let mut path = OsString::new();
        self.write_path(root, relative, &mut path);
        path.into()
    }

    /// Replaces `path` by the full path of `relative`: hundreds of files are
    /// read at each scrape, so the path of one is written over that of another.
    pub(super) fn write_path(&self, root: Root, relative: impl Display, path: &mut OsString) {
        path.clear();
        path.push(match root {
            Root::Proc | Root::Net => &self.proc,
            Root::Sys => &self.sys,
        });
        // Writing to an OsString cannot fail.
        let _ = match root {
            Root::Net => write!(path, "/net/{relative}"),
            _ => write!(path, "/{relative}"),
        };
    }

    /// Names in a directory, sorted; names that are not UTF-8 are left out,
    /// since the kernel's own names here are ASCII.
    pub fn list(&self, root: Root, relative: impl Display) -> Result<Vec<String>> {
        let path = self.path(root, relative);
        let with_path = |source| Error::Io { path: path.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(with_path)? {
            if let Ok(name) = entry.map_err(with_path)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        // A directory that changes meanwhile may give an entry twice.
        names.dedup();
        Ok(names)
    }

    /// Last part of where the symbolic link `relative` points to.
    pub fn link_name(&self, root: Root, relative: impl Display) -> Result<String> {
        let path = self.path(root, relative);
        let target = fs::read_link(&path).map_err(|source| Error::Io { path, source })?;
        Ok(target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
    }
}

/// Replaces `buffer` by the bytes of `path`.
pub(super) fn read_file(path: &Path, buffer: &mut Vec<u8>) -> Result<()> {
    read_open(open(path)?, path, buffer)
}

/// Reads a value below `/proc/sys` into `buffer` and returns its size, and
/// whether the file's mode lets nobody write it. One read gives a value whole;
/// what does not fit is lost, since a second read gives nothing
/// (kernel/sysctl.c:proc_do_large_bitmap). So a value that fills the first
/// read is read again from its start.
pub(super) fn read_value(path: &Path, buffer: &mut [u8]) -> Result<(usize, bool)> {
    let failed = |source| Error::Io { path: path.into(), source: interpret(source) };
    let file = open(path)?;
    let read_only = file.metadata().map_err(failed)?.permissions().mode() & 0o222 == 0;
    // The kernel allocates and clears as much as it is asked for
    // (fs/proc/proc_sysctl.c:proc_sys_call_handler).
    for room in [FIRST_READ, buffer.len()] {
        let size = file.read_at(&mut buffer[..room], 0).map_err(failed)?;
        if size < room {
            return Ok((size, read_only));
        }
    }
    Err(Error::TooLarge { path: path.into(), limit: buffer.len() })
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| Error::Io { path: path.into(), source })
}

/// What is asked for first, bytes. A shorter answer is the whole file, which
/// saves the read that would say so: seq_file collects lines until it has what
/// was asked for or there are no more, as long as that fits a page
/// (fs/seq_file.c:seq_read_iter, 5.10-6.18). Most files are that short.
const FIRST_READ: usize = 512;

/// What is kept of the buffer after a large file, bytes.
const KEPT: usize = 1 << 20;

fn read_open(mut file: File, path: &Path, buffer: &mut Vec<u8>) -> Result<()> {
    let failed = |source| Error::Io { path: path.into(), source: interpret(source) };
    buffer.clear();
    buffer.shrink_to(KEPT);
    buffer.resize(FIRST_READ, 0);
    let size = file.read(buffer).map_err(failed)?;
    buffer.truncate(size);
    if size < FIRST_READ {
        return Ok(());
    }
    file.take((FILE_LIMIT - size) as u64 + 1).read_to_end(buffer).map_err(failed)?;
    if buffer.len() > FILE_LIMIT {
        // Give the memory back: the buffer is used again for small files.
        *buffer = Vec::new();
        return Err(Error::TooLarge { path: path.into(), limit: FILE_LIMIT });
    }
    Ok(())
}

/// A directory where a file should be reads as an error of its own; it means
/// the same as a file that is not there.
fn interpret(source: io::Error) -> io::Error {
    match source.kind() {
        io::ErrorKind::IsADirectory => io::Error::from_raw_os_error(libc::ENOTDIR),
        _ => source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_absent_and_names_its_path() {
        let path = Roots::default().path(Root::Proc, "net/no-such-file");
        let error = read_file(&path, &mut Vec::new()).unwrap_err();
        assert!(error.is_absent());
        assert!(error.to_string().starts_with("/proc/net/no-such-file: "), "{error}");
    }

    #[test]
    fn an_endless_file_stops_at_the_limit() {
        let mut buffer = Vec::new();
        let error = read_file(Path::new("/dev/zero"), &mut buffer).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn a_value_is_whole_or_too_large() {
        let path = std::env::temp_dir().join(format!("nettune-value-{}", std::process::id()));
        let mut buffer = vec![0; 2 * FIRST_READ];
        for (size, fits) in [(FIRST_READ - 1, true), (FIRST_READ, true), (2 * FIRST_READ, false)] {
            let value = vec![b'7'; size];
            fs::write(&path, &value).unwrap();
            match read_value(&path, &mut buffer) {
                Ok((read, false)) if fits => assert_eq!(buffer[..read], value),
                Err(Error::TooLarge { .. }) if !fits => {}
                other => panic!("{size}: {other:?}"),
            }
        }
        fs::remove_file(&path).unwrap();
    }
}
