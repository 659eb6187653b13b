//! Files in which programs say what parameters they set after the boot.

mod ini;
mod kubernetes;
mod others;
mod tuned;

use crate::kernel::Kernel;
use crate::read::persisted::{Content, Loader, Seen, parse, stamps};

pub use ini::parse_ini;
pub use kubernetes::{KubeProxy, parse_kube_proxy};
pub use tuned::{parse_profile, parse_profile_names};

/// Largest of these files that is read, bytes.
const FILE_LIMIT: usize = 1 << 20;

/// Most names that are looked at in one directory.
const NAMES: usize = 1000;

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

/// What a file says that a program sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The program.
    pub program: Program,
    /// Path below `/proc/sys`, or a pattern of such paths.
    pub path: String,
    /// The text that it writes.
    pub value: String,
    /// Where that stands, absolute on the host.
    pub file: String,
}

/// What the files of this host say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// In no order that means anything.
    pub claims: Vec<Claim>,
    /// How kube-proxy is set up, and the file that shows that it is here.
    pub kube_proxy: Option<(KubeProxy, String)>,
    /// Every file that was looked for or read.
    pub files: Vec<String>,
}

/// What tells that [`read`] would now find something else than `evidence`.
pub fn look(kernel: &Kernel, evidence: &Evidence) -> Vec<Seen> {
    let mut paths = others::paths(kernel);
    paths.extend(evidence.files.iter().cloned());
    stamps(kernel, paths)
}

/// Reads them. What cannot be read says nothing.
pub fn read(kernel: &mut Kernel) -> Evidence {
    let mut evidence = Evidence::default();
    kubernetes::read(kernel, &mut evidence);
    tuned::read(kernel, &mut evidence);
    others::read(kernel, &mut evidence);
    evidence
}

impl Evidence {
    /// The text of a file, which is from now on among those that are looked at.
    fn text(&mut self, kernel: &mut Kernel, path: &str) -> Option<String> {
        self.files.push(path.to_owned());
        let bytes = kernel.host_file(path, FILE_LIMIT).ok()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Takes over a file in the format of sysctl.conf(5).
    fn claim_lines(&mut self, program: Program, text: &str, file: &str) {
        for line in parse(text.as_bytes(), Loader::Procps) {
            if let Content::Assignment { path, value, .. } = line.content {
                self.claim(program, path, value, file);
            }
        }
    }

    fn claim(&mut self, program: Program, path: impl Into<String>, value: impl Into<String>, file: &str) {
        self.claims.push(Claim { program, path: path.into(), value: value.into(), file: file.into() });
    }
}
