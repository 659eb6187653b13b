//! Processes that hold sockets.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::{Kernel, Result, Root};

/// Most open files that are looked at, which takes about 0.1 s.
const FILES: usize = 20_000;

/// Parses `/proc/PID/comm`: the name a process gave itself, at most 15 bytes, which
/// may be anything; `None` for no name.
pub fn parse_name(bytes: &[u8]) -> Option<String> {
    let name = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(bytes));
    let name = name.replace(char::is_control, "?");
    Some(name).filter(|name| !name.is_empty())
}

/// Names of the processes that hold these sockets, by inode number of the socket;
/// of several the one with the lowest number. Those of other users are found only
/// with the privilege.
pub fn read_holders(kernel: &mut Kernel, inodes: &BTreeSet<u32>) -> Result<BTreeMap<u32, String>> {
    let holders = kernel.socket_holders(inodes, FILES)?;
    let name_of = |(inode, process): (u32, u32)| {
        // It may have ended meanwhile.
        let name = kernel.read(Root::Proc, format_args!("{process}/comm")).ok().and_then(parse_name)?;
        Some((inode, name))
    };
    Ok(holders.into_iter().filter_map(name_of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_anything() {
        assert_eq!(parse_name(b"nginx\n").as_deref(), Some("nginx"));
        assert_eq!(parse_name(b"a b\n\x1b\n").as_deref(), Some("a b??"));
        assert_eq!(parse_name(b"\n"), None);
    }
}
