//! Walks over folders and links whose number nobody bounds, so that each has a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};

use super::{Error, Kernel, Result, Root, Source};

/// Most open files of one process that are looked at, so that one that has a
/// million of them hides no other. Sockets that listen are among the first.
const FILES_OF_A_PROCESS: usize = 1000;

impl Kernel {
    /// Folders at and below the absolute path `top`, as (inode number, path below it
    /// with a slash at its start), outer ones first, at most `limit` of them. A
    /// recording has none.
    ///
    /// # Errors
    /// `top` cannot be read; what is wrong further below is passed over.
    pub fn folders(&self, top: &str, limit: usize) -> Result<Vec<(u64, String)>> {
        if let Source::Recorded(_) = self.source {
            return Ok(Vec::new());
        }
        let with_path = |source| Error::Io { path: top.into(), source };
        let mut found = vec![(fs::metadata(top).map_err(with_path)?.ino(), "/".to_owned())];
        let mut index = 0;
        while let Some((_, parent)) = found.get(index) {
            let parent = parent.trim_end_matches('/').to_owned();
            let entries = match fs::read_dir(format!("{top}{parent}")) {
                Ok(entries) => entries,
                Err(error) if index == 0 => return Err(with_path(error)),
                // It went away meanwhile, or is not for us.
                Err(_) => {
                    index += 1;
                    continue;
                }
            };
            for entry in entries.map_while(|entry| entry.ok()) {
                // Kind and number come with the name: nothing more is asked for.
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                if found.len() >= limit {
                    return Ok(found);
                }
                if let Ok(name) = entry.file_name().into_string() {
                    found.push((entry.ino(), format!("{parent}/{name}")));
                }
            }
            index += 1;
        }
        Ok(found)
    }

    /// The lowest process of those that hold each of these sockets, by inode number
    /// of the socket. Looks at no more than `limit` open files, and at those of
    /// other users only with the privilege.
    ///
    /// # Errors
    /// procfs cannot be listed.
    pub fn socket_holders(&self, inodes: &BTreeSet<u32>, limit: usize) -> Result<BTreeMap<u32, u32>> {
        let mut processes: Vec<u32> =
            self.roots.list(Root::Proc, "")?.iter().filter_map(|name| name.parse().ok()).collect();
        processes.sort_unstable();
        let mut found = BTreeMap::new();
        let mut left = limit;
        for process in processes {
            // It ended meanwhile, or is another user's.
            let Ok(files) = fs::read_dir(self.roots.path(Root::Proc, format_args!("{process}/fd"))) else {
                continue;
            };
            for file in files.map_while(|file| file.ok()).take(FILES_OF_A_PROCESS.min(left)) {
                left -= 1;
                let target = fs::read_link(file.path()).unwrap_or_default();
                if let Some(inode) =
                    target.to_str().and_then(socket_inode).filter(|inode| inodes.contains(inode))
                {
                    found.entry(inode).or_insert(process);
                }
            }
            if left == 0 || found.len() == inodes.len() {
                break;
            }
        }
        Ok(found)
    }
}

/// The number in `socket:[12345]` (net/socket.c:sockfs_dname).
fn socket_inode(target: &str) -> Option<u32> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Roots;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    #[test]
    fn folders_are_found_down_to_the_limit() {
        let top = std::env::temp_dir().join(format!("nettune-folders-{}", std::process::id()));
        for folder in ["a/b", "a/c/d", "e"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        fs::write(top.join("file"), "").unwrap();
        std::os::unix::fs::symlink(&top, top.join("loop")).unwrap();
        let kernel = Kernel::live(Roots::default());
        let name = top.display().to_string();
        let mut found = kernel.folders(&name, 100).unwrap();
        assert_eq!(found[0], (fs::metadata(&top).unwrap().ino(), "/".to_owned()));
        found.sort_unstable_by(|one, two| one.1.cmp(&two.1));
        let paths: Vec<_> = found.iter().map(|(_, path)| path.as_str()).collect();
        assert_eq!(paths, ["/", "/a", "/a/b", "/a/c", "/a/c/d", "/e"]);
        assert_eq!(found[4].0, fs::metadata(top.join("a/c/d")).unwrap().ino());
        assert_eq!(kernel.folders(&name, 3).unwrap().len(), 3);
        fs::remove_dir_all(&top).unwrap();
        assert!(kernel.folders(&name, 3).unwrap_err().is_absent());
    }

    #[test]
    fn a_socket_is_held_by_whoever_has_it_open() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(socket.as_fd()).unwrap().st_ino as u32;
        let kernel = Kernel::live(Roots::default());
        let holders = kernel.socket_holders(&BTreeSet::from([inode]), 100_000).unwrap();
        assert_eq!(holders, BTreeMap::from([(inode, std::process::id())]));
        assert!(kernel.socket_holders(&BTreeSet::from([inode]), 0).unwrap().is_empty());
        assert_eq!((socket_inode("socket:[7]"), socket_inode("pipe:[7]")), (Some(7), None));
    }
}
