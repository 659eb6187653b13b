//! Network namespaces other than the one this process is in.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::{Display, Write};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::netlink::Open;
use super::{Error, Kernel, Result, Root, Source};

/// Processes that are asked for their namespace; the first is nearly always in the
/// initial one.
const ASKED: usize = 1024;

/// This thread as its own procfs shows it. A procfs of the host that is mounted
/// elsewhere need not show it at all.
const THREAD: &str = "/proc/thread-self";

/// Replaces `path` by that of a file of this thread's namespace: `/proc/net` is that of
/// the process's first thread, wherever this one is.
pub(super) fn write_path(relative: impl Display, path: &mut OsString) {
    path.clear();
    // Writing to an OsString cannot fail.
    let _ = write!(path, "{THREAD}/net/{relative}");
}

/// The network namespace that a thread belongs to and returns to after each visit
/// elsewhere.
#[derive(Debug)]
pub struct Home {
    namespace: File,
    inode: u64,
    stranded: Cell<bool>,
}

impl Home {
    /// That of the calling thread.
    ///
    /// # Errors
    /// There is no procfs.
    pub fn of_this_thread() -> Result<Self> {
        let path = Path::new(THREAD).join("ns/net");
        let failed = |source| Error::Io { path: path.clone(), source };
        let namespace = File::open(&path).map_err(failed)?;
        let inode = namespace.metadata().map_err(failed)?.ino();
        Ok(Self { namespace, inode, stranded: Cell::new(false) })
    }

    /// Enters it anew: whoever may not do that could not return either.
    ///
    /// # Errors
    /// Not permitted.
    pub fn prove(&self) -> io::Result<()> {
        enter(&self.namespace)
    }

    /// The inode number that the namespace is known by.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The thread could not return: whatever it reads from now on is of a foreign
    /// namespace, so that it has to end.
    pub fn is_stranded(&self) -> bool {
        self.stranded.get()
    }
}

/// A stay in a foreign namespace, which ends when this is dropped, by a panic as well.
struct Visit<'a> {
    kernel: &'a mut Kernel,
    home: &'a Home,
    open: &'a mut Open,
}

impl Visit<'_> {
    fn swap(&mut self, away: bool) {
        self.kernel.away = away;
        if let Source::Live(sockets) = &mut self.kernel.source {
            std::mem::swap(&mut sockets.open, self.open);
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.swap(false);
        self.home.stranded.set(enter(&self.home.namespace).is_err());
    }
}

impl Kernel {
    /// Runs `work` while this thread is in the network namespace that the file `door`
    /// stands for. Files below `/proc/net` and `/proc/sys/net` are then of that
    /// namespace, and netlink sockets are those of `open`, where they stay.
    ///
    /// # Errors
    /// It may not be entered; absent where `door` leads to no namespace of this inode
    /// number any more, and in a recording.
    pub fn visit<T>(
        &mut self,
        home: &Home,
        (door, inode): (&Path, u64),
        open: &mut Open,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<T> {
        let failed = |source| Error::Io { path: door.into(), source };
        let gone = || failed(io::Error::from_raw_os_error(libc::ENOENT));
        let Source::Live(_) = self.source else { return Err(gone()) };
        let namespace = File::open(door).map_err(failed)?;
        if namespace.metadata().map_err(failed)?.ino() != inode {
            return Err(gone());
        }
        enter(&namespace).map_err(failed)?;
        let mut visit = Visit { kernel: self, home, open };
        visit.swap(true);
        Ok(work(visit.kernel))
    }

    /// Network namespaces of processes, as (process, inode number), by number of the
    /// process; those of other users are told only with the privilege.
    ///
    /// # Errors
    /// procfs cannot be listed.
    pub fn process_namespaces(&self) -> Result<Vec<(u32, u64)>> {
        let mut processes: Vec<u32> =
            self.roots.list(Root::Proc, "")?.iter().filter_map(|name| name.parse().ok()).collect();
        processes.sort_unstable();
        let namespace = |process: &u32| {
            let link = self.roots.path(Root::Proc, format_args!("{process}/ns/net"));
            inode(fs::read_link(link).ok()?.to_str()?)
        };
        Ok(processes.iter().filter_map(|process| Some((*process, namespace(process)?))).collect())
    }

    /// Whether this process is in the initial network namespace, which is known by keys
    /// that only it has; `None` where keys of every namespace cannot be seen either.
    pub fn is_in_initial_namespace(&self) -> Option<bool> {
        let has = |key: &str| self.roots.path(Root::Proc, key).exists();
        has(GLOBAL_KEY).then_some(true).or_else(|| has("sys/net/ipv4/tcp_rmem").then_some(false))
    }
}

/// Only the initial namespace has it (net/ipv4/sysctl_net_ipv4.c:ipv4_table, 4.18-6.18).
const GLOBAL_KEY: &str = "sys/net/ipv4/tcp_mem";

/// The number in `net:[4026531840]`, as links and mounts of namespaces have it
/// (fs/nsfs.c:ns_dname).
pub fn inode(text: &str) -> Option<u64> {
    text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

fn enter(namespace: &File) -> io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(Into::into)
}

/// Runs `work` on a thread inside the namespace. What it opens there stays there.
/// `None` where that cannot be entered.
pub(super) fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> Option<T> {
    let enter = || {
        enter(namespace).ok()?;
        Some(work())
    };
    // The thread ends inside: this one never leaves its own.
    std::thread::scope(|scope| scope.spawn(enter).join()).ok().flatten()
}

/// The initial network namespace; `None` where no process leads there, or none that
/// may be followed.
pub(super) fn initial(proc: &Path) -> Option<File> {
    let key = proc.join(GLOBAL_KEY);
    let mut seen = HashSet::new();
    let mut processes: Vec<u32> =
        fs::read_dir(proc).ok()?.flatten().filter_map(|entry| pid(&entry)).collect();
    processes.sort_unstable();
    processes.into_iter().take(ASKED).find_map(|pid| {
        let namespace = File::open(proc.join(pid.to_string()).join("ns/net")).ok()?;
        let is_new = seen.insert(namespace.metadata().ok()?.ino());
        (is_new && inside(&namespace, || key.exists())?).then_some(namespace)
    })
}

fn pid(entry: &fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}
