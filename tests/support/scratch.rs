//! Folders that belong to one test.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A folder that is removed at the end of the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nettune-test-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A procfs whose `softnet` source cannot be read before it is let through.
    pub(crate) fn gated_procfs(&self) -> (PathBuf, Gate) {
        self.gated_procfs_at("net/softnet_stat")
    }

    /// As [`Scratch::gated_procfs`], for another file.
    pub(crate) fn gated_procfs_at(&self, file: &str) -> (PathBuf, Gate) {
        let procfs = self.path("proc");
        fs::create_dir_all(procfs.join("net")).unwrap();
        let gate = Gate(procfs.join(file));
        assert!(Command::new("mkfifo").arg(&gate.0).status().unwrap().success());
        (procfs, gate)
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A named pipe: whoever opens it to read waits for [`Gate::open`].
pub(crate) struct Gate(PathBuf);

impl Gate {
    /// Lets a reader through if there is one.
    fn let_through(&self) -> bool {
        // Without a reader this fails (ENXIO) instead of waiting for ever.
        OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&self.0).is_ok()
    }

    /// Lets everybody through from now on, until the guard is dropped.
    pub(crate) fn open(self) -> OpenGate {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                self.let_through();
                thread::sleep(Duration::from_millis(2));
            }
        });
        OpenGate { stop, thread: Some(thread) }
    }
}

/// A gate that stands open.
pub(crate) struct OpenGate {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for OpenGate {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
