//! Network namespaces of the test's own, on the running kernel.

use std::fs::File;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::{Exporter, Scratch, skip};

/// A network namespace, deleted at the end of the test.
pub(crate) struct Namespace {
    name: String,
    scratch: Scratch,
}

impl Namespace {
    /// `None`, loudly, without the privilege or the tools.
    pub(crate) fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("nettune-{}-{number}", std::process::id());
        match Command::new("ip").args(["netns", "add", &name]).output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                skip(&format!("no network namespace: {}", String::from_utf8_lossy(&output.stderr).trim()));
                return None;
            }
            Err(error) => {
                skip(&format!("ip: {error}; `make tools` installs it"));
                return None;
            }
        }
        let namespace = Self { name, scratch: Scratch::new() };
        namespace.run("ip link set lo up");
        Some(namespace)
    }

    /// As `ip netns` knows it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where the exporter inside listens.
    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.scratch.path("socket")
    }

    /// A command in the namespace, not yet started.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a shell line in the namespace; it must succeed.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.try_run(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a shell line in the namespace.
    pub(crate) fn try_run(&self, line: &str) -> Output {
        self.command("bash").args(["-c", line]).output().expect("bash is there")
    }

    /// Runs `work` on a thread inside the namespace; sockets made there stay there.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(Path::new("/run/netns").join(&self.name)).expect("`ip netns add` made it");
        let enter = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).expect("whoever made it may enter it");
            work()
        };
        std::thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| resume_unwind(panic))
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

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
