//! Network namespaces other than the one this process is in.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Processes that are asked for their namespace; the first is nearly always in the
/// initial one.
const ASKED: usize = 1024;

/// Runs `work` on a thread inside the namespace. What it opens there stays there.
/// `None` where that cannot be entered.
pub(super) fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> Option<T> {
    let enter = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        Some(work())
    };
    // The thread ends inside: this one never leaves its own.
    std::thread::scope(|scope| scope.spawn(enter).join()).ok().flatten()
}

/// The initial network namespace, which is known by the keys that only it has; `None`
/// where no process leads there, or none that may be followed.
pub(super) fn initial(proc: &Path) -> Option<File> {
    let key = proc.join("sys/net/ipv4/tcp_mem");
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
