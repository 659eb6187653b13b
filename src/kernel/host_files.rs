//! Files below the host's root directory. Symbolic links lead to where they would on
//! the host: an absolute target is below its root too, and `..` does not leave it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use super::{Error, Kernel, Result, Root};

/// Links that are followed for one path, as many as the kernel does
/// (include/linux/namei.h, MAXSYMLINKS).
const LINKS: usize = 40;

/// What a file is, as far as reading goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A file with content.
    Regular,
    /// A directory.
    Directory,
    /// The null device: whoever links a file there wants it to be empty.
    Null,
    /// A pipe, socket or device, which is not read.
    Other,
}

/// What tells that a file was changed or replaced, without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// What it is.
    pub kind: FileKind,
    /// Size, bytes.
    pub size: u64,
    device: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        let kind = match metadata.file_type() {
            kind if kind.is_file() => FileKind::Regular,
            kind if kind.is_dir() => FileKind::Directory,
            _ => FileKind::Other,
        };
        Self {
            kind,
            size: metadata.size(),
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Kernel {
    /// What is known of the file at the absolute `path` of the host without reading it.
    ///
    /// # Errors
    /// [`Error::Io`]: it does not exist, its links loop, or it may not be looked at.
    pub fn host_stamp(&self, path: &str) -> Result<Stamp> {
        let found = self.on_host(path)?;
        let Some(real) = &found.real else {
            let (modified, changed) = ((0, 0), (0, 0));
            return Ok(Stamp { kind: FileKind::Null, size: 0, device: 0, inode: 0, modified, changed });
        };
        let metadata = fs::metadata(real).map_err(|source| self.host_error(path, source))?;
        Ok(Stamp::of(&metadata))
    }

    /// The same of many files, `None` where it fails. They are in few directories, whose
    /// links are followed once.
    pub fn host_stamps(&self, paths: Vec<String>) -> Vec<(String, Option<Stamp>)> {
        let mut directories: BTreeMap<String, Option<PathBuf>> = BTreeMap::new();
        let mut stamp = |path: &str| {
            let (directory, name) = path.rsplit_once('/')?;
            let found = directories
                .entry(directory.to_owned())
                .or_insert_with(|| self.on_host(directory).ok().and_then(|found| found.real));
            let metadata = fs::symlink_metadata(found.as_ref()?.join(name)).ok()?;
            if metadata.is_symlink() { self.host_stamp(path).ok() } else { Some(Stamp::of(&metadata)) }
        };
        let with_stamp = |path: String| {
            let stamp = stamp(&path);
            (path, stamp)
        };
        paths.into_iter().map(with_stamp).collect()
    }

    /// Names in a directory of the host, sorted by their bytes. One that is no text stands
    /// with marks in place of what is none, and leads nowhere.
    ///
    /// # Errors
    /// [`Error::Io`], also for more than `limit` names: some of them would tell nothing.
    pub fn host_names(&self, path: &str, limit: usize) -> Result<Vec<String>> {
        let failed = |source| self.host_error(path, source);
        let real =
            self.on_host(path)?.real.ok_or_else(|| failed(io::Error::from_raw_os_error(libc::ENOTDIR)))?;
        let mut names = Vec::new();
        for entry in fs::read_dir(real).map_err(failed)? {
            if names.len() == limit {
                return Err(failed(io::Error::other(format!("it has more than {limit} names"))));
            }
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Where the absolute `path` of the host leads, as an absolute path of the host.
    ///
    /// # Errors
    /// As [`Kernel::host_stamp`].
    pub fn host_target(&self, path: &str) -> Result<String> {
        Ok(format!("/{}", self.on_host(path)?.below.display()))
    }

    /// The bytes of a file of the host's; none of the null device.
    ///
    /// # Errors
    /// [`Error::Io`], also for what is no file or has more than `limit` bytes.
    pub fn host_file(&mut self, path: &str, limit: usize) -> Result<&[u8]> {
        let named = self.host_path(path);
        let failed = |source| Error::Io { path: named.clone(), source };
        let mut bytes = Vec::new();
        if let Some(real) = self.on_host(path)?.real {
            let is_file = |metadata: io::Result<fs::Metadata>| match metadata.map_err(failed)?.is_file() {
                true => Ok(()),
                false => Err(failed(io::Error::other("it is not a regular file"))),
            };
            // Opening alone does something to some devices, and to a pipe that came here
            // meanwhile it would wait for its writer.
            is_file(fs::metadata(&real))?;
            let file =
                File::options().read(true).custom_flags(libc::O_NONBLOCK).open(real).map_err(failed)?;
            is_file(file.metadata())?;
            file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
            if bytes.len() > limit {
                return Err(failed(io::Error::other(format!("it is larger than {limit} bytes"))));
            }
        }
        self.buffer = bytes;
        Ok(&self.buffer)
    }

    /// That a file of the host's is there and is of no use, and why.
    pub fn host_refusal(&self, path: &str, why: String) -> Error {
        self.host_error(path, io::Error::other(why))
    }

    /// Whether the key at this path below `/proc/sys` exists here.
    pub fn has_key(&self, relative: &str) -> bool {
        // A name that leads elsewhere is no key.
        !relative.split('/').any(|part| part == "..")
            && self.roots.path(Root::Proc, format_args!("sys/{relative}")).is_file()
    }

    fn on_host(&self, path: &str) -> Result<Found> {
        find(&self.roots.host, path).map_err(|source| self.host_error(path, source))
    }

    fn host_error(&self, path: &str, source: io::Error) -> Error {
        Error::Io { path: self.host_path(path), source }
    }

    fn host_path(&self, path: &str) -> PathBuf {
        self.roots.host.join(path.trim_start_matches('/'))
    }
}

/// Where a path of the host leads.
struct Found {
    /// Below the root.
    below: PathBuf,
    /// With the root; `None` for the null device, which need not exist below it.
    real: Option<PathBuf>,
}

fn find(root: &Path, path: &str) -> io::Result<Found> {
    let mut below = PathBuf::new();
    let mut ahead: Vec<OsString> = Vec::new();
    push(&mut ahead, Path::new(path));
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            below.pop();
            continue;
        }
        below.push(name);
        if ahead.is_empty() && below == Path::new("dev/null") {
            return Ok(Found { below, real: None });
        }
        match fs::read_link(root.join(&below)) {
            Ok(target) => {
                links += 1;
                if links > LINKS {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                if target.is_absolute() {
                    below.clear();
                } else {
                    below.pop();
                }
                push(&mut ahead, &target);
            }
            // Not a link.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            // The null device is there, whether or not the root shown here has a folder for it.
            Err(_) if below == Path::new("dev") => {}
            Err(error) => return Err(error),
        }
    }
    let real = Some(root.join(&below));
    Ok(Found { below, real })
}

/// Puts the parts of a path on top, the first one last.
fn push(ahead: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    ahead.extend(parts);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Roots;
    use std::os::unix::fs::symlink;

    fn tree(name: &str) -> (PathBuf, Kernel) {
        let top = std::env::temp_dir().join(format!("nettune-host-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        fs::create_dir_all(top.join("etc/a.d")).unwrap();
        (top.clone(), Kernel::live(Roots { host: top, ..Roots::default() }))
    }

    #[test]
    fn links_lead_to_where_they_would_on_the_host() {
        let (top, mut kernel) = tree("links");
        fs::write(top.join("etc/a.conf"), "x").unwrap();
        for (link, target) in
            [("up", "../a.conf"), ("absolute", "/etc/a.conf"), ("outside", "../../../../etc/a.conf")]
        {
            symlink(target, top.join("etc/a.d").join(link)).unwrap();
            let path = format!("/etc/a.d/{link}");
            assert_eq!(kernel.host_file(&path, 10).unwrap(), b"x", "{link}");
            assert_eq!(kernel.host_target(&path).unwrap(), "/etc/a.conf");
        }
        symlink("/dev/null", top.join("etc/a.d/masked")).unwrap();
        assert_eq!(kernel.host_stamp("/etc/a.d/masked").unwrap().kind, FileKind::Null);
        assert_eq!(kernel.host_file("/etc/a.d/masked", 10).unwrap(), b"");
        let paths = ["up", "masked", "none"].map(|name| format!("/etc/a.d/{name}"));
        let stamps =
            paths.iter().map(|path| (path.clone(), kernel.host_stamp(path).ok())).collect::<Vec<_>>();
        assert!(stamps[0].1.is_some() && stamps[2].1.is_none());
        assert_eq!(kernel.host_stamps(paths.to_vec()), stamps);
        assert_eq!(kernel.host_stamps(vec!["/etc/a.conf".into()])[0].1, stamps[0].1);
        assert_eq!(kernel.host_names("/etc/a.d", 4).unwrap(), ["absolute", "masked", "outside", "up"]);
        let error = kernel.host_names("/etc/a.d", 3).unwrap_err().to_string();
        assert!(error.ends_with("etc/a.d: it has more than 3 names"), "{error}");
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let (top, mut kernel) = tree("bad");
        symlink("loop", top.join("etc/loop")).unwrap();
        symlink("nowhere", top.join("etc/dangling")).unwrap();
        fs::write(top.join("etc/large"), vec![b'x'; 11]).unwrap();
        let mut said = |path: &str| kernel.host_file(path, 10).unwrap_err().to_string();
        assert!(said("/etc/loop").ends_with("etc/loop: Too many levels of symbolic links (os error 40)"));
        assert!(said("/etc/dangling").contains("No such file"));
        assert!(said("/etc/large").contains("larger than 10 bytes"));
        assert!(said("/etc/a.d").contains("not a regular file"));
        let before = kernel.host_stamp("/etc/large").unwrap();
        fs::write(top.join("etc/large"), "y").unwrap();
        assert_ne!(kernel.host_stamp("/etc/large").unwrap(), before);
        fs::remove_dir_all(top).unwrap();
    }
}
