//! Files in which programs say what parameters they set after the boot, and those that
//! show that the programs run.

mod cloud_init;
mod docker;
mod ini;
mod kubernetes;
mod network_manager;
mod networkd;
mod shell;
mod tuned;
mod ufw;

use crate::kernel::Kernel;
use crate::read::persisted::{Seen, directories, find};

pub use cloud_init::parse_cloud_config;
pub use ini::parse_ini;
pub use kubernetes::{KubeProxy, parse_kube_proxy};
pub use shell::parse_commands;
pub use tuned::{parse_profile, parse_profile_names};

/// Largest of these files that is read, bytes.
const FILE_LIMIT: usize = 1 << 20;

/// Most names that a directory may have.
const NAMES: usize = 5000;

/// Most claims that are kept, of all programs; every scrape looks through them.
const CLAIMS: usize = 2000;

const IP_FORWARD: &str = "net/ipv4/ip_forward";

/// A program that sets parameters of its own accord.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// kube-proxy
    KubeProxy,
    /// tuned
    Tuned,
    /// ufw
    Ufw,
    /// dockerd
    Docker,
    /// cloud-init
    CloudInit,
    /// systemd-networkd
    Networkd,
    /// NetworkManager
    NetworkManager,
}

/// Where a program has a value from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file that says so, absolute on the host.
    pub file: String,
    /// What a person edits to change it, as an end of "change it in …".
    pub place: String,
}

/// What a file says that a program sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The program.
    pub program: Program,
    /// Path below `/proc/sys`, or a pattern of such paths.
    pub path: String,
    /// The text that it writes.
    pub value: String,
    /// The only text over which it writes that; `None` when over any.
    pub over: Option<&'static str>,
    /// Where that stands.
    pub origin: Origin,
}

/// What the files of this host say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// In no order that means anything.
    pub claims: Vec<Claim>,
    /// How kube-proxy is set up, and what shows that it is here.
    pub kube_proxy: Option<(KubeProxy, Origin)>,
    /// Every file and directory that was looked for or read.
    pub files: Vec<String>,
}

/// What tells that [`read`] would now find something else than `evidence`.
pub fn look(kernel: &Kernel, evidence: &Evidence) -> Vec<Seen> {
    kernel.host_stamps(evidence.files.clone())
}

/// Reads them. What cannot be read says nothing.
pub fn read(kernel: &mut Kernel) -> Evidence {
    let mut evidence = Evidence::default();
    kubernetes::read(kernel, &mut evidence);
    tuned::read(kernel, &mut evidence);
    ufw::read(kernel, &mut evidence);
    docker::read(kernel, &mut evidence);
    cloud_init::read(kernel, &mut evidence);
    networkd::read(kernel, &mut evidence);
    network_manager::read(kernel, &mut evidence);
    evidence
}

fn text(kernel: &mut Kernel, path: &str) -> Option<String> {
    let bytes = kernel.host_file(path, FILE_LIMIT).ok()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// All that is looked at is among the files from then on, whether or not it is there.
impl Evidence {
    /// The text of a file.
    fn text(&mut self, kernel: &mut Kernel, path: &str) -> Option<String> {
        self.files.push(path.to_owned());
        text(kernel, path)
    }

    /// Whether there is such a file.
    fn has(&mut self, kernel: &Kernel, path: &str) -> bool {
        self.files.push(path.to_owned());
        kernel.host_stamp(path).is_ok()
    }

    /// Paths of what is in a directory, whose own stamp tells of what comes and goes.
    fn entries(&mut self, kernel: &Kernel, directory: &str) -> Vec<String> {
        self.files.push(directory.to_owned());
        let names = kernel.host_names(directory, NAMES).unwrap_or_default();
        names.iter().map(|name| format!("{directory}/{name}")).collect()
    }

    /// Files `*.conf` of the directories called `folder`, as systemd finds drop-ins.
    fn drop_ins(&mut self, kernel: &Kernel, folder: &str) -> Vec<String> {
        self.files.extend(directories(folder));
        find(kernel, folder)
    }

    fn claim(&mut self, program: Program, path: impl Into<String>, value: impl Into<String>, origin: Origin) {
        self.claim_over(None, program, path, value, origin);
    }

    fn claim_over(
        &mut self,
        over: Option<&'static str>,
        program: Program,
        path: impl Into<String>,
        value: impl Into<String>,
        origin: Origin,
    ) {
        if self.claims.len() < CLAIMS {
            self.claims.push(Claim { program, path: path.into(), value: value.into(), over, origin });
        }
    }
}

impl Origin {
    fn new(file: &str, place: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: place.into() }
    }
}
