//! Network namespaces, and the ways into each: bind mounts of nsfs, as `ip netns` and
//! container runtimes make them below `/run`, and processes. What neither shows is
//! held by an open file or socket alone, and there is no way in.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::{mounts, text};
use crate::kernel::{Kernel, Malformed, Result, Root, namespaces};

/// Ways into one network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ways {
    /// Where it is mounted.
    pub mounts: Vec<OsString>,
    /// The lowest process in it.
    pub process: Option<u32>,
}

/// Parses `/proc/self/mountinfo`: mounts of network namespaces, by inode number.
///
/// # Errors
/// A line without mount point and kind.
pub fn parse_mounts(bytes: &[u8]) -> std::result::Result<BTreeMap<u64, Ways>, Malformed> {
    let mut found: BTreeMap<u64, Ways> = BTreeMap::new();
    for mount in mounts::parse(bytes) {
        let mount = mount?;
        let inode = std::str::from_utf8(mount.root).ok().and_then(namespaces::inode);
        if let (b"nsfs", Some(inode)) = (mount.kind, inode) {
            found.entry(inode).or_default().mounts.push(mount.point());
        }
    }
    Ok(found)
}

/// Every network namespace that there is a way into, by inode number.
pub fn read(kernel: &mut Kernel) -> Result<BTreeMap<u64, Ways>> {
    let mut found = kernel.parse(Root::Proc, "self/mountinfo", parse_mounts)?;
    for (process, inode) in kernel.process_namespaces()? {
        found.entry(inode).or_default().process.get_or_insert(process);
    }
    Ok(found)
}

/// Parses `/proc/PID/cgroup`: where the process is in the hierarchy of version 2, and in
/// that of systemd, which stands in for it where version 1 is in use
/// (kernel/cgroup/cgroup.c:proc_cgroup_show).
pub fn parse_cgroups(bytes: &[u8]) -> Vec<String> {
    // 0::/path, and 9:name=systemd:/path
    let path = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let rank = if number == "0" { 0 } else { 1 };
        (rank == 0 || controllers == "name=systemd").then(|| (rank, path.to_owned()))
    };
    let mut paths: Vec<_> = text::lines(bytes).filter_map(|(_, line)| path(line)).collect();
    paths.sort();
    paths.into_iter().map(|(_, path)| path).collect()
}

/// The same of a process; none where it has ended.
pub fn read_cgroups(kernel: &mut Kernel, process: u32) -> Vec<String> {
    kernel.read(Root::Proc, format_args!("{process}/cgroup")).map(parse_cgroups).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_network_namespaces_are_found() {
        let text = "\
22 1 0:21 / /proc rw - proc proc rw
90 24 0:4 net:[4026532201] /run/netns/web rw shared:50 - nsfs nsfs rw
91 24 0:4 net:[4026532201] /srv/web rw - nsfs nsfs rw
92 24 0:4 net:[4026532202] /run/netns/a\\040b rw - nsfs nsfs rw
93 24 0:4 mnt:[4026532203] /run/snapd/ns/x.mnt rw - nsfs nsfs rw
";
        let ways =
            |mounts: &[&str]| Ways { mounts: mounts.iter().map(OsString::from).collect(), process: None };
        let expected =
            [(4026532201, ways(&["/run/netns/web", "/srv/web"])), (4026532202, ways(&["/run/netns/a b"]))];
        assert_eq!(parse_mounts(text.as_bytes()).unwrap(), BTreeMap::from(expected));
        assert_eq!(parse_mounts(b"1 2 0:3 /\n").unwrap_err().item, "mount");
    }

    #[test]
    fn version_2_speaks_first_and_other_controllers_not_at_all() {
        let text = b"9:name=systemd:/s\n4:memory:/m\n0::/a:b\n\n";
        assert_eq!(parse_cgroups(text), ["/a:b", "/s"]);
        assert_eq!(parse_cgroups(b""), [""; 0]);
    }
}
