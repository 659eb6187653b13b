//! Network namespaces of our own, on the running kernel.

use std::fs::File;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Command, Output};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, deleted when it is dropped.
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Fails without the privilege or the tools, and when the name is taken.
    pub(crate) fn create(name: String) -> Result<Self, String> {
        let output = Command::new("ip")
            .args(["netns", "add", &name])
            .output()
            .map_err(|error| format!("ip: {error}; `make tools` installs it"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("no network namespace: {}", said.trim()));
        }
        let namespace = Self { name };
        namespace.run("ip link set lo up");
        Ok(namespace)
    }

    /// As `ip netns` knows it.
    pub(crate) fn name(&self) -> &str {
        &self.name
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
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
