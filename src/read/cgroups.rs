//! Folders of the cgroup v2 hierarchy. Each has a number that sock_diag gives for the
//! sockets that were made in it, which is that of its inode (fs/kernfs/mount.c, on
//! 64-bit machines, 5.8-6.18).

use super::mounts;
use crate::kernel::{Kernel, Malformed, Result, Root};

/// Most folders that are looked at, at 20 µs each. A host that runs 250 pods has about
/// a thousand.
const FOLDERS: usize = 4096;

/// Parses `/proc/self/mountinfo`: where the
/// cgroup v2 hierarchy is mounted, the whole of it rather than a part; `None` where
/// it is not.
///
/// # Errors
/// A line without mount point and kind.
pub fn parse_mount(bytes: &[u8]) -> std::result::Result<Option<String>, Malformed> {
    let mut part = None;
    for mount in mounts::parse(bytes) {
        let mount = mount?;
        let point = || mount.point().to_string_lossy().into_owned();
        match (mount.kind, mount.root) {
            (b"cgroup2", b"/") => return Ok(Some(point())),
            (b"cgroup2", _) => part = Some(point()),
            _ => {}
        }
    }
    Ok(part)
}

/// Every folder of the hierarchy that is mounted here, as (inode number, path below
/// the mount), up to a limit; none where there is no such mount.
pub fn read(kernel: &mut Kernel) -> Result<Vec<(u64, String)>> {
    match kernel.parse(Root::Proc, "self/mountinfo", parse_mount)? {
        Some(point) => kernel.folders(&point, FOLDERS),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_wherever_it_is() {
        let line = |root: &str, point: &str, kind: &str| {
            format!("32 31 0:29 {root} {point} rw,relatime shared:9 master:1 - {kind} {kind} rw\n")
        };
        let hybrid = [
            line("/", "/cgroup", "tmpfs"),
            line("/", "/cgroup/cpu", "cgroup"),
            line("/", "/cgroup/unified", "cgroup2"),
        ];
        let found = |text: &str| parse_mount(text.as_bytes()).unwrap();
        assert_eq!(found(&hybrid.concat()).as_deref(), Some("/cgroup/unified"));
        assert_eq!(found(&hybrid[..2].concat()), None);
        let part = [line("/pod", "/part", "cgroup2"), line("/", "/my\\040\\134x", "cgroup2")];
        assert_eq!(found(&part.concat()).as_deref(), Some("/my \\x"));
        assert_eq!(found(&part[0]).as_deref(), Some("/part"));
        // No tags.
        assert_eq!(found("1 2 0:3 / /c rw - cgroup2 none rw").as_deref(), Some("/c"));
    }

    #[test]
    fn a_line_that_is_no_mount_says_so() {
        assert_eq!(parse_mount(b"1 2 0:3 / /c rw - cgroup2 none rw\n").unwrap().as_deref(), Some("/c"));
        for bad in [&b"1 2 0:3 / /a rw - tmpfs none rw\n1 2 0:3 /\n"[..], b"x\n1 2 0:3 / /c rw cgroup2\n"] {
            assert_eq!(parse_mount(bad).unwrap_err().item, "mount");
        }
        assert_eq!(parse_mount(b"").unwrap(), None);
    }
}
