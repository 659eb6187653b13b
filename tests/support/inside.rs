//! What tests ask of a network namespace besides.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Exporter, skip};
use crate::namespace::Namespace;

impl Namespace {
    /// `None`, loudly, without the privilege or the tools.
    pub(crate) fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = Self::create(format!("nettune-{}-{number}", std::process::id()));
        namespace.map_err(|why| skip(&why)).ok()
    }

    /// Sets a parameter, by its dotted name, in the namespace alone.
    pub(crate) fn sysctl(&self, name: &str, value: &str) {
        self.run(&format!("sysctl -qw {name}='{value}'"));
    }

    /// Where the exporter inside listens.
    pub(crate) fn socket(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{}.socket", self.name()))
    }

    /// An exporter inside, on a unix socket, so that scrapes leave no traffic.
    pub(crate) fn exporter(&self, flags: &[&str]) -> Exporter {
        let mut command = self.command(env!("CARGO_BIN_EXE_nettune"));
        command.arg(format!("--web.listen-address=unix:{}", self.socket().display()));
        command.args(flags);
        let exporter = Exporter::launch(command);
        exporter.wait_until_ready();
        exporter
    }
}
