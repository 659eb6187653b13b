//! Modules that the running kernel has, built in or to be loaded: depmod(8)'s lists below
//! `/lib/modules`.

use crate::kernel::{Kernel, Root};

/// Enough for ten times the modules that a distribution has.
const LIMIT: usize = 16 << 20;

/// Whether this kernel has a module; false also where that cannot be told.
pub fn has(kernel: &mut Kernel, name: &str) -> bool {
    let Ok(release) = kernel.read(Root::Proc, "sys/kernel/osrelease") else { return false };
    let release = String::from_utf8_lossy(release).trim_end().to_owned();
    // A release is one part of the path.
    let is_release = !release.is_empty() && !release.starts_with('.') && !release.contains('/');
    is_release
        && ["modules.builtin", "modules.dep"].iter().any(|list| {
            let path = format!("/lib/modules/{release}/{list}");
            kernel.host_file(&path, LIMIT).is_ok_and(|bytes| lists(bytes, name))
        })
}

/// Whether a list has a module: one a line by its path, in `modules.dep` with a colon and
/// what it needs.
pub fn lists(bytes: &[u8], name: &str) -> bool {
    let file = format!("{name}.ko");
    bytes.split(|byte| *byte == b'\n').any(|line| {
        let path = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        // Compressed ones end in .ko.xz and the like.
        last.strip_prefix(file.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_known_by_its_file() {
        let dep = b"kernel/net/sched/sch_fq_codel.ko.xz:\nkernel/net/sched/act.ko: kernel/net/sch_x.ko\n";
        assert!(lists(dep, "sch_fq_codel") && lists(dep, "act"));
        assert!(!lists(dep, "sch_fq") && !lists(dep, "sch_x"));
        assert!(lists(b"kernel/net/sched/sch_fq.ko\n", "sch_fq") && !lists(b"", "sch_fq"));
    }
}
