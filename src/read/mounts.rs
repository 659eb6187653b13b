//! `/proc/self/mountinfo` (fs/proc_namespace.c:show_mountinfo, 5.10-6.18).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::text::{columns, lines};
use crate::kernel::Malformed;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount<'a> {
    /// What of the file system is mounted.
    pub root: &'a [u8],
    /// Kind of the file system.
    pub kind: &'a [u8],
    point: &'a [u8],
}

impl Mount<'_> {
    /// Where it is mounted. Blanks and backslashes stand there as octal numbers
    /// (`\040`).
    pub fn point(&self) -> OsString {
        let mut bytes = Vec::with_capacity(self.point.len());
        let mut rest = self.point;
        while let Some((first, after)) = rest.split_first() {
            let octal = rest.get(1..4).and_then(|digits| std::str::from_utf8(digits).ok());
            match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                Some(byte) if *first == b'\\' => {
                    bytes.push(byte);
                    rest = &rest[4..];
                }
                _ => {
                    bytes.push(*first);
                    rest = after;
                }
            }
        }
        OsString::from_vec(bytes)
    }
}

/// Parses the file; a line without root, mount point and kind is an error.
pub fn parse(bytes: &[u8]) -> impl Iterator<Item = std::result::Result<Mount<'_>, Malformed>> {
    lines(bytes).map(|(number, line)| {
        // 36 35 98:0 /root /mount/point options [tags] - kind source options
        let parse = || {
            let mut before = columns(line);
            let (root, point) = (before.nth(3)?, before.next()?);
            let kind = before.skip_while(|column| *column != b"-").nth(1)?;
            Some(Mount { root, kind, point })
        };
        let expected = "a mount: number, parent, device, root, point, …, a dash, kind";
        parse().ok_or_else(|| Malformed::new(number, "mount", expected, line))
    })
}
