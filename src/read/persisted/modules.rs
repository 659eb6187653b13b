//! Which kernel modules are there when the parameters are set.

use std::collections::{BTreeMap, BTreeSet};

use super::offered::{self, Offered};
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
    /// Who wants one of these gets a command of modprobe.d that loads nothing.
    pub replaced: BTreeSet<String>,
    /// Not found by another name than their own, and not loaded at boot.
    pub blacklisted: BTreeSet<String>,
    /// Loaded now, with the modules that need them.
    pub loaded: BTreeMap<String, Vec<String>>,
    /// Those of congestion control and queueing.
    pub offered: Offered,
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
    paths.extend(offered::paths(kernel));
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
        let read = kernel.host_file(&path, FILE_LIMIT).map(parse_modprobe).unwrap_or_default();
        for (module, command) in read.installs {
            if command.contains("sysctl") {
                modules.with_command.insert(module);
            } else if !["modprobe", "insmod"].iter().any(|loads| command.contains(loads)) {
                modules.replaced.insert(module);
            }
        }
        modules.blacklisted.extend(read.blacklisted);
    }
    if let Ok(line) = kernel.read(Root::Proc, "cmdline") {
        modules.at_boot.extend(parse_command_line(line));
    }
    // systemd-modules-load passes over both (src/shared/module-util.c of 252).
    let Modules { at_boot, replaced, blacklisted, .. } = &mut modules;
    at_boot.retain(|name| !replaced.contains(name) && !blacklisted.contains(name));
    modules.loaded = kernel.read(Root::Proc, "modules").map(parse_loaded).unwrap_or_default();
    modules.offered = offered::read(kernel);
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

/// What a file of modprobe.d(5) says of loading modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modprobe {
    /// `install`: modules and the commands that are run in place of loading them.
    pub installs: Vec<(String, String)>,
    /// `blacklist`
    pub blacklisted: Vec<String>,
}

/// Parses one.
pub fn parse_modprobe(bytes: &[u8]) -> Modprobe {
    let text = String::from_utf8_lossy(bytes).replace("\\\n", " ");
    let mut found = Modprobe::default();
    for line in text.lines().map(str::trim_start) {
        let mut parts = line.splitn(3, |character: char| character.is_whitespace());
        match (parts.next(), parts.next(), parts.next()) {
            (Some("install"), Some(module), Some(command)) => {
                found.installs.push((plain(module), command.trim().to_owned()));
            }
            (Some("blacklist"), Some(module), _) => found.blacklisted.push(plain(module)),
            _ => {}
        }
    }
    found
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
        let modprobe = b"options x sysctl=1\ninstall nf_conntrack /sbin/modprobe -i nf_conntrack; \\\n sysctl -p\n install y-z /bin/true\nblacklist a-b # no\ninstall w\n";
        let command = "/sbin/modprobe -i nf_conntrack;   sysctl -p";
        let installs = [("nf_conntrack", command), ("y_z", "/bin/true")];
        let installs = installs.map(|(module, command)| (module.to_owned(), command.to_owned())).to_vec();
        let expected = Modprobe { installs, blacklisted: vec!["a_b".to_owned()] };
        assert_eq!(parse_modprobe(modprobe), expected);
        assert_eq!(parse_command_line(b"quiet modules-load=br-netfilter,x ro\n"), ["br_netfilter", "x"]);
    }
}
