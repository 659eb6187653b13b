//! Names of namespaces, and the command that enters each.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::model::units::unit_of;
use crate::read::namespaces::Ways;

/// Where `ip netns` keeps its names.
const BY_NAME: [&str; 2] = ["/run/netns", "/var/run/netns"];

/// The mount that a namespace is best known by: one that `ip netns` knows, else the
/// first by name.
pub(super) fn best_mount(ways: &Ways) -> Option<&OsString> {
    let known = |mount: &OsString| {
        Path::new(mount)
            .parent()
            .is_some_and(|parent| BY_NAME.iter().any(|folder| parent == Path::new(folder)))
    };
    ways.mounts.iter().min_by_key(|mount| (!known(mount), mount.as_bytes()))
}

/// The name of the file that it is mounted at.
pub(super) fn by_mount(ways: &Ways) -> Option<String> {
    best_mount(ways).and_then(|mount| Path::new(mount).file_name()).map(printable)
}

/// The container or unit that these cgroups are of.
pub(super) fn by_cgroups(cgroups: &[String]) -> Option<String> {
    cgroups.iter().find_map(|path| unit_of(path)).map(|unit| printable(OsStr::new(&unit)))
}

/// Control characters, and bytes that are no text, as escapes.
fn printable(name: &OsStr) -> String {
    let mut shown = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_control() {
                true => shown.extend(character.escape_default()),
                false => shown.push(character),
            }
        }
        shown.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    shown
}

/// What a command is preceded by to run in the namespace.
pub(super) fn enter(ways: &Ways) -> String {
    match (best_mount(ways), ways.process) {
        (Some(mount), process) => match (quoted(mount), process) {
            // What only some shells can spell is a number otherwise.
            (path, Some(process)) if path.starts_with('$') => by_process(process),
            (path, _) => format!("nsenter --net={path}"),
        },
        (None, Some(process)) => by_process(process),
        (None, None) => String::new(),
    }
}

fn by_process(process: u32) -> String {
    format!("nsenter -t {process} -n")
}

/// A path as a shell takes it.
fn quoted(path: &OsStr) -> String {
    let bytes = path.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(byte);
    match path.to_str() {
        Some(text) if bytes.iter().all(plain) => text.to_owned(),
        Some(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("$'{}'", bytes.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn ways(mounts: &[&[u8]], process: Option<u32>) -> Ways {
        Ways { mounts: mounts.iter().map(|mount| OsString::from_vec(mount.to_vec())).collect(), process }
    }

    #[test]
    fn the_name_that_ip_netns_knows_comes_first() {
        let several = ways(&[b"/a/other", b"/run/docker/netns/0a1b", b"/var/run/netns/web"], Some(7));
        assert_eq!(by_mount(&several).as_deref(), Some("web"));
        assert_eq!(enter(&several), "nsenter --net=/var/run/netns/web");
        assert_eq!(by_mount(&ways(&[b"/run/docker/netns/0a1b", b"/z"], None)).as_deref(), Some("0a1b"));
        assert_eq!(
            (by_mount(&ways(&[], Some(7))), enter(&ways(&[], Some(7)))),
            (None, "nsenter -t 7 -n".into())
        );
    }

    #[test]
    fn odd_names_are_printable_and_can_be_entered() {
        for (path, name, command) in [
            (&b"/run/netns/a b"[..], "a b", "nsenter --net='/run/netns/a b'"),
            (b"/run/netns/it's", "it's", r"nsenter --net='/run/netns/it'\''s'"),
            ("/run/netns/ä".as_bytes(), "ä", "nsenter --net='/run/netns/ä'"),
            (b"/run/netns/$x\"", "$x\"", "nsenter --net='/run/netns/$x\"'"),
            (b"/run/netns/a\nb", r"a\nb", r"nsenter --net=$'/run/netns/a\nb'"),
            (b"/run/netns/\xff'", r"\xff'", r"nsenter --net=$'/run/netns/\xff\''"),
        ] {
            let ways = ways(&[path], None);
            assert_eq!((by_mount(&ways).as_deref(), enter(&ways).as_str()), (Some(name), command));
        }
        assert_eq!(enter(&ways(&[b"/run/netns/\xff"], Some(9))), "nsenter -t 9 -n");
    }

    #[test]
    fn cgroups_tell_container_or_unit() {
        let id = "0123456789abcdef".repeat(4);
        let paths = |paths: &[&str]| paths.iter().map(|path| path.replace("ID", &id)).collect::<Vec<_>>();
        assert_eq!(by_cgroups(&paths(&["/", "/docker/ID"])).as_deref(), Some("docker/0123456789ab"));
        assert_eq!(by_cgroups(&paths(&["/web.slice/a.service"])).as_deref(), Some("a.service"));
        assert_eq!((by_cgroups(&paths(&["/", "/"])), by_cgroups(&[])), (None, None));
    }
}
