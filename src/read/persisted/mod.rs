//! The files that set parameters at boot, and those that say which kernel modules are
//! loaded before: sysctl.d(5), modules-load.d(5), modprobe.d(5).

mod modules;
mod offered;
mod parse;

use std::collections::BTreeSet;

pub use modules::{Modprobe, Modules, parse_loaded, parse_modprobe, parse_module_names};
pub use offered::{Offered, parse_module_files};
pub use parse::{Content, Line, Loader, is_pattern, matches, parse, path};

use crate::kernel::{Kernel, Result, Stamp};

/// Where the files are: a name that stands in several counts in the first of them
/// (sysctl.d(5); src/sysctl.c:PreloadSystem of procps 4.0.2 has the same list).
pub(super) const DIRECTORIES: [&str; 5] = ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"];

/// procps reads it after all others; systemd only where a link in a directory leads here.
pub const SYSCTL_CONF: &str = "/etc/sysctl.conf";

/// Where either program is, below the host's root.
const SYSTEMD: [&str; 2] = ["/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"];
const PROCPS: [&str; 4] = ["/usr/sbin/sysctl", "/sbin/sysctl", "/usr/bin/sysctl", "/bin/sysctl"];

/// dpkg's list of packages.
const DPKG_STATUS: &str = "/var/lib/dpkg/status";

/// The largest one that is read, bytes; that of a desktop with all is below 10 MB.
const STATUS_LIMIT: usize = 32 << 20;

/// Most names that are looked at in one directory.
const NAMES: usize = 1000;

/// Largest file that is read, bytes; systemd gives up on a line of this size.
const FILE_LIMIT: usize = 1 << 20;

/// What the files of a host say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The program that applies them at boot; `None` where there is neither.
    pub loader: Option<Loader>,
    /// Whether the other one is there too, to be run by hand.
    pub both: bool,
    /// By name, as they are applied; `/etc/sysctl.conf` is the last.
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
    paths.push(SYSCTL_CONF.to_owned());
    paths.extend(modules::paths(kernel));
    paths.extend(SYSTEMD.iter().chain(&PROCPS).map(|path| (*path).to_owned()));
    stamps(kernel, paths)
}

/// What tells of a change of each of these files.
pub(super) fn stamps(kernel: &Kernel, paths: Vec<String>) -> Vec<Seen> {
    let stamp = |path: String| {
        let stamp = kernel.host_stamp(&path).ok();
        (path, stamp)
    };
    paths.into_iter().map(stamp).collect()
}

/// Files `*.conf` of the directories called `folder`, one for each name, by name.
pub(super) fn find(kernel: &Kernel, folder: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for top in DIRECTORIES {
        let directory = format!("{top}/{folder}");
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
    let mut result = Ok(());
    let mut files = Vec::new();
    for path in find(kernel, "sysctl.d") {
        let (file, read) = read_one(kernel, path);
        files.push(file);
        result = result.and(read);
    }
    if kernel.host_stamp(SYSCTL_CONF).is_ok() {
        let (file, read) = read_one(kernel, SYSCTL_CONF.to_owned());
        files.push(file);
        result = result.and(read);
    }
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

fn read_one(kernel: &mut Kernel, path: String) -> (File, Result<()>) {
    let target = kernel.host_target(&path).ok().filter(|target| *target != path);
    match kernel.host_file(&path, FILE_LIMIT) {
        Ok(bytes) => {
            let lines = |loader| Some(parse(bytes, loader));
            let (systemd, procps) = (lines(Loader::Systemd), lines(Loader::Procps));
            (File { path, target, systemd, procps }, Ok(()))
        }
        Err(error) => {
            // A link to nowhere hides others of its name, and sets nothing by intent.
            let result = if error.is_absent() { Ok(()) } else { Err(error) };
            (File { path, target, systemd: None, procps: None }, result)
        }
    }
}
