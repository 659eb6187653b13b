//! Which kernel modules are there when the parameters are set.

use std::collections::{BTreeMap, BTreeSet};

use super::{FILE_LIMIT, find};
use crate::kernel::{Kernel, Root};

/// Debian's list, which a link in modules-load.d leads to; others read it themselves.
const ETC_MODULES: &str = "/etc/modules";

/// What is known of modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules {
    /// Loaded at boot before parameters are set, by name.
    pub at_boot: BTreeSet<String>,
    /// Whose loading runs a command of modprobe.d that sets parameters.
    pub with_command: BTreeSet<String>,
    /// Loaded now, with the modules that need them.
    pub loaded: BTreeMap<String, Vec<String>>,
}

impl Modules {
    /// Whether this module is there at boot before parameters are set, or sets them
    /// itself: it is listed, or what is listed needs it.
    pub fn is_early(&self, name: &str) -> bool {
        let mut ahead = vec![name];
        let mut seen = BTreeSet::new();
        while let Some(name) = ahead.pop() {
            if self.at_boot.contains(name) || self.with_command.contains(name) {
                return true;
            }
            if seen.insert(name) {
                ahead.extend(self.loaded.get(name).into_iter().flatten().map(String::as_str));
            }
        }
        false
    }
}

pub(super) fn paths(kernel: &Kernel) -> Vec<String> {
    let mut paths = find(kernel, "modules-load.d");
    paths.extend(find(kernel, "modprobe.d"));
    paths.push(ETC_MODULES.to_owned());
    paths
}

/// What cannot be read counts as empty: it loads nothing that we could know of.
pub(super) fn read(kernel: &mut Kernel) -> Modules {
    let mut modules = Modules::default();
    let lists = find(kernel, "modules-load.d").into_iter().chain([ETC_MODULES.to_owned()]);
    for path in lists {
        let names = kernel.host_file(&path, FILE_LIMIT).map(parse_module_names);
        modules.at_boot.extend(names.unwrap_or_default());
    }
    for path in find(kernel, "modprobe.d") {
        let names = kernel.host_file(&path, FILE_LIMIT).map(parse_modprobe);
        modules.with_command.extend(names.unwrap_or_default());
    }
    if let Ok(line) = kernel.read(Root::Proc, "cmdline") {
        modules.at_boot.extend(parse_command_line(line));
    }
    modules.loaded = kernel.read(Root::Proc, "modules").map(parse_loaded).unwrap_or_default();
    modules
}

/// The kernel takes both for the same.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// Names in a file of modules-load.d(5): one a line.
pub fn parse_module_names(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    // /etc/modules may have options behind a name.
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !name.starts_with(['#', ';'])).map(plain).collect()
}

/// Modules for which modprobe.d(5) has an `install` command that runs sysctl.
pub fn parse_modprobe(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).replace("\\\n", " ");
    let installs = text.lines().filter(|line| line.contains("sysctl")).filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("install")).then(|| words.next()).flatten()
    });
    installs.map(plain).collect()
}

/// `modules_load=` of the kernel's command line (systemd-modules-load.service(8)).
fn parse_command_line(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let options = ["modules_load=", "modules-load="];
    let lists =
        text.split_whitespace().filter_map(|word| options.iter().find_map(|name| word.strip_prefix(name)));
    lists.flat_map(|list| list.split(',')).map(plain).collect()
}

/// Parses `/proc/modules` (kernel/module/procfs.c:m_show): name, size, uses, users, …
pub fn parse_loaded(bytes: &[u8]) -> BTreeMap<String, Vec<String>> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter_map(|line| {
        let mut columns = line.split_whitespace();
        let (name, users) = (columns.next()?, columns.nth(2).unwrap_or_default());
        let users =
            users.split(',').filter(|user| !user.is_empty() && *user != "-").map(str::to_owned).collect();
        Some((name.to_owned(), users))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_early_when_what_needs_it_is() {
        let loaded = parse_loaded(
            b"nf_conntrack 172032 2 nf_nat,xt_conntrack, Live 0x0\nnf_nat 49152 1 nft_chain_nat, Live 0x0\nfoo 1 0 - Live 0x0\n",
        );
        let at_boot = parse_module_names(b"# list\nnft-chain-nat\n\nbbr options=1\n").into_iter().collect();
        let modules = Modules { at_boot, loaded, ..Modules::default() };
        assert!(modules.is_early("nf_conntrack") && modules.is_early("bbr") && !modules.is_early("foo"));
    }

    #[test]
    fn commands_and_the_command_line_count() {
        let modprobe = b"options x sysctl=1\ninstall nf_conntrack /sbin/modprobe -i nf_conntrack; \\\n sysctl -p\ninstall y /bin/true\n";
        assert_eq!(parse_modprobe(modprobe), ["nf_conntrack"]);
        assert_eq!(parse_command_line(b"quiet modules-load=br-netfilter,x ro\n"), ["br_netfilter", "x"]);
    }
}
