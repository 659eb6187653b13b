//! System calls, bytes and layouts; no meaning.
//!
//! Everything the exporter learns comes through [`Kernel`]: files below the
//! procfs and sysfs mounts, answers to netlink requests, one ioctl and a few
//! constants. A `Kernel` is either the running one or a recording of one, so
//! that every reader can be driven by files captured elsewhere.

mod constants;
mod device_index;
mod driver_statistics;
mod error;
mod host_files;
pub mod namespaces;
pub mod netlink;
mod request;
mod roots;
pub mod sock_diag;
mod walk;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use constants::Constants;
pub use error::{Error, Malformed, Result};
pub use host_files::{FileKind, Stamp};
pub use request::Request;
pub use roots::{Root, Roots};
use sock_diag::{CloseEvents, Scope};

/// The running kernel, or a recording of one. It owns the one buffer that every
/// file and answer is read into.
#[derive(Debug)]
pub struct Kernel {
    roots: Roots,
    source: Source,
    constants: Constants,
    /// The initial network namespace, once it was looked for, and if it was found.
    initial: Option<Option<File>>,
    /// This thread is in another network namespace than its process.
    away: bool,
    interrupted_dumps: u64,
    path: OsString,
    buffer: Vec<u8>,
    value: Box<[u8]>,
    driver_statistics_room: Option<driver_statistics::Room>,
}

/// Largest value below `/proc/sys`, bytes. A list of reserved ports is the only
/// long one: a thousand separate ports take 6,000.
const VALUE_SIZE: usize = 64 << 10;

/// A dump that a change interrupted is repeated this often before it is taken
/// as it is.
const ATTEMPTS: usize = 3;

#[derive(Debug)]
enum Source {
    Live(netlink::Sockets),
    Recorded(PathBuf),
}

impl Kernel {
    /// The running kernel, seen through `roots`.
    pub fn live(roots: Roots) -> Self {
        Self::new(roots, Source::Live(netlink::Sockets::default()), Constants::live())
    }

    /// A recording: files below `roots`, and in `directory` what is not a file
    /// of procfs or sysfs: `netlink/NAME.bin` (see [`Request::name`]),
    /// `driver-statistics/DEVICE` and `constants`.
    ///
    /// # Errors
    /// `constants` is missing or malformed.
    pub fn recorded(roots: Roots, directory: &Path) -> Result<Self> {
        let constants = Constants::recorded(&directory.join("constants"))?;
        Ok(Self::new(roots, Source::Recorded(directory.to_owned()), constants))
    }

    fn new(roots: Roots, source: Source, constants: Constants) -> Self {
        Self {
            roots,
            source,
            constants,
            initial: None,
            away: false,
            interrupted_dumps: 0,
            path: OsString::new(),
            buffer: Vec::new(),
            value: vec![0; VALUE_SIZE].into(),
            driver_statistics_room: None,
        }
    }

    /// Another view of the same kernel, with buffers and sockets of its own, for
    /// another thread.
    pub fn another(&self) -> Self {
        let source = match &self.source {
            Source::Live(_) => Source::Live(netlink::Sockets::default()),
            Source::Recorded(directory) => Source::Recorded(directory.clone()),
        };
        Self::new(self.roots.clone(), source, self.constants.clone())
    }

    /// Files below the procfs and sysfs mounts.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Page size, clock ticks, tick rate and architecture.
    pub fn constants(&self) -> &Constants {
        &self.constants
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::TooLarge`], with the full path.
    pub fn read(&mut self, root: Root, relative: impl Display) -> Result<&[u8]> {
        match root {
            Root::Net if self.away => namespaces::write_path(relative, &mut self.path),
            _ => self.roots.write_path(root, relative, &mut self.path),
        }
        roots::read_file(Path::new(&self.path), &mut self.buffer)?;
        Ok(&self.buffer)
    }

    /// A file, parsed; what the parser objects to gets the file's path.
    pub fn parse<T>(
        &mut self,
        root: Root,
        relative: impl Display,
        parse: impl FnOnce(&[u8]) -> std::result::Result<T, Malformed>,
    ) -> Result<T> {
        self.read(root, relative)?;
        parse(&self.buffer).map_err(|malformed| malformed.at(&self.path))
    }

    /// A value below `/proc/sys`, parsed; the parser is also told whether the
    /// file's mode lets nobody write it.
    pub fn parse_value<T>(
        &mut self,
        relative: impl Display,
        parse: impl FnOnce(&[u8], bool) -> std::result::Result<T, Malformed>,
    ) -> Result<T> {
        self.roots.write_path(Root::Proc, format_args!("sys/{relative}"), &mut self.path);
        let (size, read_only) = roots::read_value(Path::new(&self.path), &mut self.value)?;
        parse(&self.value[..size], read_only).map_err(|malformed| malformed.at(&self.path))
    }

    /// The same of a key that exists once, in the initial network namespace: read there
    /// where this process is in another one, if it may enter that.
    pub fn parse_global_value<T: Send>(
        &mut self,
        relative: &str,
        parse: impl Fn(&[u8], bool) -> std::result::Result<T, Malformed> + Sync,
    ) -> Result<T> {
        let own = self.parse_value(relative, &parse);
        match own {
            Err(error) if error.is_absent() && matches!(self.source, Source::Live(_)) => {
                let initial = self.initial.get_or_insert_with(|| namespaces::initial(&self.roots.proc));
                let Some(namespace) = initial else { return Err(error) };
                let mut kernel = Self::live(self.roots.clone());
                let read = || kernel.parse_value(relative, &parse);
                namespaces::inside(namespace, read).unwrap_or(Err(error))
            }
            own => own,
        }
    }

    /// The kernel's answer to `request`, folded into a value: `fold` is given
    /// netlink messages, headers included and the closing one left out, as many
    /// as came in one piece.
    ///
    /// # Errors
    /// [`Error::Netlink`]: the kernel refused, or does not know the request.
    pub fn ask<T: Default>(
        &mut self,
        request: Request,
        fold: impl FnMut(&mut T, &[u8]) -> std::result::Result<(), Malformed>,
    ) -> Result<T> {
        self.fold(request, Scope::default(), ATTEMPTS, fold)
    }

    /// Gives the answer within `scope` to `each`, as it comes: an
    /// interrupted one is counted and not repeated, since `each` would meet the same
    /// connection again. A recording answers with all that was recorded.
    ///
    /// # Errors
    /// As [`Kernel::ask`].
    pub fn walk(
        &mut self,
        request: Request,
        scope: Scope<'_>,
        mut each: impl FnMut(&[u8]) -> std::result::Result<(), Malformed>,
    ) -> Result<()> {
        self.fold(request, scope, 1, |(), bytes| each(bytes))
    }

    fn fold<T: Default>(
        &mut self,
        request: Request,
        scope: Scope<'_>,
        attempts: usize,
        mut fold: impl FnMut(&mut T, &[u8]) -> std::result::Result<(), Malformed>,
    ) -> Result<T> {
        match &mut self.source {
            Source::Live(sockets) => {
                let (value, interrupted) = sockets.ask(request, scope, attempts, &mut fold)?;
                self.interrupted_dumps += u64::from(interrupted);
                Ok(value)
            }
            Source::Recorded(directory) => {
                let path = directory.join("netlink").join(format!("{}.bin", request.name()));
                roots::read_file(&path, &mut self.buffer)?;
                let mut value = T::default();
                let folded = fold(&mut value, &self.buffer);
                folded.map_err(|malformed| malformed.at(format!("netlink {}", request.name())))?;
                Ok(value)
            }
        }
    }

    /// The driver's own counters of `device`, one `name: value` a line as
    /// `ethtool -S` prints them.
    ///
    /// # Errors
    /// [`Error::Ioctl`]; absent where the driver has no counters.
    pub fn driver_statistics(&mut self, device: &str) -> Result<&[u8]> {
        self.buffer.clear();
        match &self.source {
            Source::Live(_) => {
                let room = self.driver_statistics_room.get_or_insert_default();
                driver_statistics::read(device, room, &mut self.buffer)?;
            }
            Source::Recorded(directory) => {
                roots::read_file(&directory.join("driver-statistics").join(device), &mut self.buffer)?;
            }
        }
        Ok(&self.buffer)
    }

    /// Notifications of closed connections, with room for `room` bytes of them.
    ///
    /// # Errors
    /// [`Error::Netlink`]; absent in a recording, and where the kernel does not
    /// tell what was lost (before 4.12).
    pub fn close_events(&self, room: usize) -> Result<CloseEvents> {
        let joined = match &self.source {
            Source::Live(_) => CloseEvents::join(room),
            Source::Recorded(_) => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        };
        joined.map_err(|source| Error::Netlink { request: "close-notifications", source })
    }

    /// Dumps that the kernel marked as interrupted by a change
    /// (`NLM_F_DUMP_INTR`) even after retries, since start.
    pub fn interrupted_dumps(&self) -> u64 {
        self.interrupted_dumps
    }
}
