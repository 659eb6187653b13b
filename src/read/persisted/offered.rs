//! Congestion controls and queueing disciplines that this kernel has, or can load. A name
//! that is written as a default and not there yet is asked for as a module
//! (net/ipv4/tcp_cong.c:tcp_ca_find_autoload, net/sched/sch_api.c:qdisc_set_default of 6.18).

use std::collections::BTreeSet;

use crate::kernel::{Kernel, Root};

const MODULES: &str = "/lib/modules";
/// What the kernel's build and depmod(8) write for each release.
const BUILT_IN: &str = "modules.builtin";
const ON_DISK: &str = "modules.dep";

/// Some hundred kB, for all modules of a distribution.
const LIMIT: usize = 8 << 20;

/// Most releases of kernels that are looked at.
const RELEASES: usize = 100;

/// What is known of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offered {
    /// Their modules that are part of the kernel; `None` where nothing says so.
    pub built_in: Option<BTreeSet<String>>,
    /// Their modules that can be loaded; `None` where nothing says so.
    pub on_disk: Option<BTreeSet<String>>,
    /// Congestion controls that are here now.
    pub congestion_controls: BTreeSet<String>,
    /// The kernel loads no modules at all.
    pub is_fixed: bool,
    /// The kernel may ask for a module, and who it asks is here.
    pub on_demand: bool,
}

pub(super) fn paths(kernel: &Kernel) -> Vec<String> {
    let releases = kernel.host_names(MODULES, RELEASES).unwrap_or_default();
    let files = |release: &String| [BUILT_IN, ON_DISK].map(|file| format!("{MODULES}/{release}/{file}"));
    releases.iter().flat_map(files).collect()
}

pub(super) fn read(kernel: &mut Kernel) -> Offered {
    let release = text(kernel, "sys/kernel/osrelease").unwrap_or_default();
    let mut list = |file| {
        let path = format!("{MODULES}/{release}/{file}");
        kernel.host_file(&path, LIMIT).map(parse_module_files).ok()
    };
    let (built_in, on_disk) = (list(BUILT_IN), list(ON_DISK));
    let available = text(kernel, "sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let asked = text(kernel, "sys/kernel/modprobe");
    let lacks = |path| kernel.read(Root::Proc, path).is_err_and(|error| error.is_absent());
    Offered {
        built_in,
        on_disk,
        congestion_controls: available.split_whitespace().map(str::to_owned).collect(),
        // Both come with CONFIG_MODULES (kernel/module/procfs.c, kernel/sysctl.c).
        is_fixed: ["modules", "sys/kernel/modprobe"].into_iter().all(lacks),
        // An empty path lets it ask nobody.
        on_demand: asked.is_some_and(|asked| asked.starts_with('/') && kernel.host_stamp(&asked).is_ok()),
    }
}

fn text(kernel: &mut Kernel, path: &str) -> Option<String> {
    let bytes = kernel.read(Root::Proc, path).ok()?;
    Some(String::from_utf8_lossy(bytes).trim().to_owned())
}

/// Names of modules of congestion control and queueing in a list of files, one a line with
/// what it needs behind a colon (modules.dep(5)); modules.builtin is the same without that.
pub fn parse_module_files(bytes: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(bytes);
    let names = text.lines().filter_map(|line| {
        let file = line.split(':').next()?.rsplit('/').next()?;
        let name = file.split(".ko").next()?.replace('-', "_");
        (name.starts_with("tcp_") || name.starts_with("sch_")).then_some(name)
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_their_files() {
        let list = b"kernel/net/ipv4/tcp_bbr.ko.xz: kernel/x/tcp_y.ko\nkernel/net/sched/sch_fq-pie.ko:\n\
                     kernel/fs/ext4.ko.zst: kernel/lib/crc16.ko\nupdates/dkms/tcp_own.ko\n\n";
        let expected = ["sch_fq_pie", "tcp_bbr", "tcp_own"].map(str::to_owned);
        assert_eq!(parse_module_files(list), BTreeSet::from(expected));
    }
}
