//! Fixture trees, copied so that a test may garble its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::Scratch;

/// Where the fixtures are.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Names of all fixtures.
pub(crate) fn names() -> Vec<String> {
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap());
    // Trees of sysctl.d are no captures of a host.
    let folders = entries.filter(|entry| entry.path().join("constants").is_file());
    let mut names: Vec<_> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A copy of one fixture.
pub(crate) struct Fixture(Scratch);

impl Fixture {
    pub(crate) fn copy(name: &str) -> Self {
        let scratch = Scratch::new();
        copy(&root().join(name), scratch.as_ref());
        if let Ok(list) = fs::read_to_string(scratch.path("read-only")) {
            for path in list.lines() {
                fs::set_permissions(scratch.path(path), fs::Permissions::from_mode(0o444)).unwrap();
            }
        }
        Self(scratch)
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.0.path(relative)
    }

    /// Replaces a file, whatever its mode.
    pub(crate) fn write(&self, relative: &str, bytes: &[u8]) {
        let path = self.path(relative);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// The flags that make the exporter read this copy.
    pub(crate) fn flags(&self) -> Vec<String> {
        let flag = |name: &str, relative: &str| format!("--path.{name}={}", self.path(relative).display());
        vec![flag("procfs", "proc"), flag("sysfs", "sys"), flag("rootfs", "root"), flag("recorded", "")]
    }
}

/// Copies what is below one folder into another, links as links.
pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else if source.is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}
