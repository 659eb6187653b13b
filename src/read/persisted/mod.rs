//! The files that set parameters at boot, and those that say which kernel modules are
//! loaded before: sysctl.d(5), modules-load.d(5), modprobe.d(5).

mod modules;
mod offered;
mod parse;

use std::collections::BTreeSet;

pub use modules::{Modprobe, Modules, parse_loaded, parse_modprobe, parse_module_names};
pub use offered::{Offered, parse_module_files};
pub use parse::{Content, Line, Loader, is_pattern, matches, parse, path};

use crate::kernel::{Error, FileKind, Kernel, Result, Stamp};

/// Where the files are: a name that stands in several counts in the first of them
/// (sysctl.d(5); src/sysctl.c:PreloadSystem of procps 4.0.2 has the same list).
const DIRECTORIES: [&str; 5] = ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"];

/// procps reads it after all others; systemd only where a link in a directory leads here.
pub const SYSCTL_CONF: &str = "/etc/sysctl.conf";

/// Where either program is, below the host's root.
const SYSTEMD: [&str; 2] = ["/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"];
const PROCPS: [&str; 4] = ["/usr/sbin/sysctl", "/sbin/sysctl", "/usr/bin/sysctl", "/bin/sysctl"];

/// dpkg's list of packages.
const DPKG_STATUS: &str = "/var/lib/dpkg/status";

/// The largest one that is read, bytes; that of a desktop with all is below 10 MB.
const STATUS_LIMIT: usize = 32 << 20;

/// Most names that a directory may have.
const NAMES: usize = 20_000;

/// Largest file that is read, bytes; the kernel takes no value of this size
/// (fs/proc/proc_sysctl.c:proc_sys_call_handler).
const FILE_LIMIT: usize = 4 << 20;

/// Most lines that are kept of all files. What is in a file beyond them is not known.
const LINES: usize = 50_000;

/// What the files of a host say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The program that applies them at boot; `None` where there is neither.
    pub loader: Option<Loader>,
    /// Whether the other one is there too, to be run by hand.
    pub both: bool,
    /// By name, as they are applied; `/etc/sysctl.conf` is the last. Behind it are
    /// directories that cannot be read.
    pub files: Vec<File>,
    /// What is known of modules.
    pub modules: Modules,
    /// Files below `/etc` that a package of Debian's brought, absolute on the host; empty
    /// until [`read_packaged`] is asked, since only advice on what to edit needs it.
    pub packaged: BTreeSet<String>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Absolute path on the host, as it is found in its directory.
    pub path: String,
    /// Where that leads, when it is a link.
    pub target: Option<String>,
    /// Its lines as systemd reads them; `None` when it cannot be read.
    pub systemd: Option<Vec<Line>>,
    /// The same for procps.
    pub procps: Option<Vec<Line>>,
}

impl File {
    fn unreadable(path: String, target: Option<String>) -> Self {
        Self { path, target, systemd: None, procps: None }
    }

    /// Its lines as `loader` reads them; `None` for a file that it does not read.
    pub fn lines(&self, loader: Loader) -> Option<&[Line]> {
        match loader {
            Loader::Systemd => self.systemd.as_deref(),
            Loader::Procps => self.procps.as_deref(),
        }
    }

    /// Whether `loader` applies it at all. systemd passes over names that start with a
    /// dot (src/basic/path-util.c:hidden_or_backup_file), and over `/etc/sysctl.conf`.
    pub fn is_applied_by(&self, loader: Loader) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        loader == Loader::Procps || (self.path != SYSCTL_CONF && !name.starts_with('.'))
    }
}

/// A file as it was found, before it is read.
pub type Seen = (String, Option<Stamp>);

/// Every file that [`read`] would read, with what tells of a change.
pub fn look(kernel: &Kernel) -> Vec<Seen> {
    let mut paths = find(kernel, "sysctl.d");
    paths.extend(directories("sysctl.d"));
    paths.push(SYSCTL_CONF.to_owned());
    paths.extend(modules::paths(kernel));
    paths.extend(SYSTEMD.iter().chain(&PROCPS).map(|path| (*path).to_owned()));
    kernel.host_stamps(paths)
}

/// Where files of `folder` may be, the most important first.
pub(super) fn directories(folder: &str) -> [String; DIRECTORIES.len()] {
    DIRECTORIES.map(|top| format!("{top}/{folder}"))
}

/// Files `*.conf` of the directories called `folder`, one for each name, by name.
pub(super) fn find(kernel: &Kernel, folder: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for directory in directories(folder) {
        for name in kernel.host_names(&directory, NAMES).unwrap_or_default() {
            if name.ends_with(".conf") && seen.insert(name.clone()) {
                found.push((name.clone(), format!("{directory}/{name}")));
            }
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Reads all of them. A file that cannot be read is in the answer without lines, and
/// the first such that is there is the error; absent where neither program is here.
pub fn read(kernel: &mut Kernel) -> (Configuration, Result<()>) {
    let mut reading = Reading { files: Vec::new(), left: LINES, result: Ok(()) };
    for path in find(kernel, "sysctl.d") {
        reading.add(kernel, path);
    }
    if kernel.host_stamp(SYSCTL_CONF).is_ok() {
        reading.add(kernel, SYSCTL_CONF.to_owned());
    }
    for directory in directories("sysctl.d") {
        let Err(error) = kernel.host_names(&directory, NAMES) else { continue };
        let error = match kernel.host_stamp(&directory) {
            Ok(stamp) if stamp.kind != FileKind::Directory => {
                kernel.host_refusal(&directory, "it is no directory".to_owned())
            }
            _ if error.is_absent() => continue,
            _ => error,
        };
        reading.files.push(File::unreadable(directory, None));
        reading.note(error);
    }
    let Reading { files, mut result, .. } = reading;
    let has = |paths: &[&str]| paths.iter().any(|path| kernel.host_stamp(path).is_ok());
    let (systemd, procps) = (has(&SYSTEMD), has(&PROCPS));
    let loader = match (systemd, procps) {
        (true, _) => Some(Loader::Systemd),
        (false, true) => Some(Loader::Procps),
        (false, false) => None,
    };
    if loader.is_none() {
        result = result.and(kernel.host_stamp(SYSTEMD[0]).map(drop));
    }
    let modules = modules::read(kernel);
    (Configuration { loader, both: systemd && procps, files, modules, ..Configuration::default() }, result)
}

/// Files read so far.
struct Reading {
    files: Vec<File>,
    /// Lines that may still be kept.
    left: usize,
    result: Result<()>,
}

impl Reading {
    fn add(&mut self, kernel: &mut Kernel, path: String) {
        let target = kernel.host_target(&path).ok().filter(|target| *target != path);
        let read = kernel.host_file(&path, FILE_LIMIT).map(|bytes| {
            let lines = |loader| parse(bytes, loader);
            (lines(Loader::Systemd), lines(Loader::Procps))
        });
        match read {
            Ok((systemd, procps)) => match self.left.checked_sub(systemd.len().max(procps.len())) {
                Some(left) => {
                    self.left = left;
                    self.files.push(File { path, target, systemd: Some(systemd), procps: Some(procps) });
                }
                None => {
                    self.note(
                        kernel
                            .host_refusal(&path, format!("it and those before have more than {LINES} lines")),
                    );
                    self.files.push(File::unreadable(path, target));
                }
            },
            Err(error) => {
                // A link to nowhere hides others of its name, and sets nothing by intent. A
                // name that is no text is only known not to be this one.
                if !error.is_absent() {
                    self.note(error);
                } else if path.contains(char::REPLACEMENT_CHARACTER) {
                    self.note(kernel.host_refusal(&path, "its name is no text".to_owned()));
                }
                self.files.push(File::unreadable(path, target));
            }
        }
    }

    /// The first counts.
    fn note(&mut self, error: Error) {
        if self.result.is_ok() {
            self.result = Err(error);
        }
    }
}

/// What [`parse_packaged`] finds in dpkg's list, some MB; nothing where there is none.
pub fn read_packaged(kernel: &mut Kernel) -> BTreeSet<String> {
    kernel.host_file(DPKG_STATUS, STATUS_LIMIT).map(parse_packaged).unwrap_or_default()
}

/// Files of sysctl.d among the configuration files of packages that dpkg lists, one a
/// line with a blank before it and a checksum behind it (deb-conffiles(5)).
pub fn parse_packaged(bytes: &[u8]) -> BTreeSet<String> {
    const START: &[u8] = b" /etc/sysctl.d/";
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| line.starts_with(START));
    let names =
        lines.filter_map(|line| String::from_utf8_lossy(line).split_whitespace().next().map(str::to_owned));
    names.collect()
}
