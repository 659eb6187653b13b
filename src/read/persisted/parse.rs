//! One file below sysctl.d, as each of the two programs that apply such files reads it:
//! src/sysctl/sysctl.c of systemd 252 and src/sysctl.c of procps-ng 4.0.2. Where their
//! manuals and what they do differ, this is what they do; a test runs both.

use std::borrow::Cow;

/// A program that applies the files at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loader {
    /// `systemd-sysctl`
    Systemd,
    /// `sysctl --system` of procps
    Procps,
}

impl Loader {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Systemd, Self::Procps];
}

/// One line that is neither empty nor a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub number: usize,
    /// What stands there.
    pub content: Content,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// `key = value`
    Assignment {
        /// Path below `/proc/sys`, or a pattern of such paths.
        path: String,
        /// The text that is written, without blanks around it.
        value: String,
        /// A leading `-`: that it fails is no error.
        may_fail: bool,
    },
    /// `-key`: patterns leave this key alone.
    Exclusion {
        /// Path below `/proc/sys`.
        path: String,
    },
    /// Not an assignment, or a line of a shell.
    Unreadable,
}

/// Bytes of a line that systemd does not read (src/basic/fileio.h:LONG_LINE_MAX).
const LONGEST_LINE: usize = 1 << 20;

/// The lines of a file. No bytes are refused: what is no assignment is
/// [`Content::Unreadable`].
pub fn parse(bytes: &[u8], loader: Loader) -> Vec<Line> {
    let read = |(index, line): (usize, &[u8])| {
        let text = String::from_utf8_lossy(line);
        Some(Line { number: index + 1, content: content(trim(&text, loader), loader)? })
    };
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    match loader {
        // A line of C: it ends at its first NUL.
        Loader::Procps => {
            let end = |line: &[u8]| line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
            lines.map(|(index, line)| (index, &line[..end(line)])).filter_map(read).collect()
        }
        // A carriage return and a NUL end a line as well, and one that is too long ends the
        // file (src/basic/fileio.c:read_line_full).
        Loader::Systemd => {
            let mut parts = lines.flat_map(|(index, line)| {
                line.split(|byte| matches!(byte, b'\r' | 0)).map(move |part| (index, part))
            });
            let mut found = Vec::new();
            let long = parts.find_map(|(index, part)| {
                if part.len() >= LONGEST_LINE {
                    return Some(Line { number: index + 1, content: Content::Unreadable });
                }
                found.extend(read((index, part)));
                None
            });
            found.extend(long);
            found
        }
    }
}

/// Without blanks around it: systemd knows four of them, C six.
fn trim(text: &str, loader: Loader) -> &str {
    text.trim_matches(|character| match loader {
        Loader::Systemd => matches!(character, ' ' | '\t' | '\n' | '\r'),
        Loader::Procps => matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c'),
    })
}

fn content(line: &str, loader: Loader) -> Option<Content> {
    // procps passes over lines of a single byte.
    if line.is_empty() || line.starts_with(['#', ';']) || (loader == Loader::Procps && line.len() < 2) {
        return None;
    }
    let (key, value) = match line.split_once('=') {
        Some((key, value)) => (key, Some(trim(value, loader))),
        None => (line, None),
    };
    let (key, dash) = match key.strip_prefix('-') {
        Some(key) => (key, true),
        None => (key, false),
    };
    // Only systemd looks for blanks behind the dash; only procps for another dash.
    let key = match loader {
        Loader::Systemd => trim(key, loader),
        Loader::Procps => key
            .strip_prefix('-')
            .unwrap_or(key)
            .trim_end_matches(|character: char| trim(character.encode_utf8(&mut [0; 4]), loader).is_empty()),
    };
    let path = path(key);
    Some(match value {
        _ if path.is_empty() || is_shell(key) => Content::Unreadable,
        Some(value) => {
            Content::Assignment { path: path.into_owned(), value: value.to_owned(), may_fail: dash }
        }
        None if dash => Content::Exclusion { path: path.into_owned() },
        None => Content::Unreadable,
    })
}

/// The path below `/proc/sys` that a key names. The first separator decides: after a
/// dot, dots are slashes and slashes are dots; after a slash all stand for themselves.
pub fn path(key: &str) -> Cow<'_, str> {
    let swapped: Cow<'_, str> = match key.find(['.', '/']) {
        Some(first) if key[first..].starts_with('.') => {
            let swap = |character| match character {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            key.chars().map(swap).collect::<String>().into()
        }
        _ => key.into(),
    };
    if swapped.starts_with('/') || swapped.contains("//") {
        let parts: Vec<_> = swapped.split('/').filter(|part| !part.is_empty()).collect();
        return parts.join("/").into();
    }
    swapped
}

/// Whether a key holds what only a shell understands, as in `sysctl -w key=value`.
fn is_shell(key: &str) -> bool {
    key.contains(|character: char| character.is_whitespace() || "$\"'`(){}|&;<>\\".contains(character))
}

/// Whether this is a pattern rather than one path (glob(7)).
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Whether `path` matches `pattern`, part by part: a star does not reach over a slash.
pub fn matches(pattern: &str, path: &str) -> bool {
    let (mut patterns, mut parts) = (pattern.split('/'), path.split('/'));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if matches_part(pattern.as_bytes(), part.as_bytes()) => {}
            _ => return false,
        }
    }
}

/// Walks both at once; after a mismatch the last star takes one byte more. A dot at the
/// start stands for itself alone.
fn matches_part(pattern: &[u8], part: &[u8]) -> bool {
    if part.starts_with(b".") && !pattern.starts_with(b".") {
        return false;
    }
    let (mut at, mut next) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while next < part.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, next));
                at += 1;
                continue;
            }
            Some(b'?') => Some(at + 1),
            Some(b'[') => class(&pattern[at..], part[next]).map(|length| at + length),
            Some(byte) if *byte == part[next] => Some(at + 1),
            _ => None,
        };
        match (step, star) {
            (Some(after), _) => {
                at = after;
                next += 1;
            }
            (None, Some((place, taken))) => {
                star = Some((place, taken + 1));
                at = place + 1;
                next = taken + 1;
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The length of the class that `pattern` starts with if `byte` is in it.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = if negated { 2 } else { 1 };
    let mut found = false;
    let mut at = first;
    loop {
        let rest = pattern.get(at..)?;
        at += match rest {
            // A bracket that comes first is a member.
            [b']', ..] if at > first => return (found != negated).then_some(at + 1),
            [b'[', b':', ..] if let Some((name, length)) = named(rest) => {
                found |= is_of(name, byte);
                length
            }
            [low, b'-', high, ..] if *high != b']' => {
                found |= (*low..=*high).contains(&byte);
                3
            }
            [member, ..] => {
                found |= *member == byte;
                1
            }
            [] => return None,
        };
    }
}

/// The name in `[:name:]`, and the length of all that.
fn named(pattern: &[u8]) -> Option<(&[u8], usize)> {
    let end = pattern.windows(2).skip(2).position(|pair| pair == b":]")? + 2;
    Some((&pattern[2..end], end + 2))
}

/// Whether a byte is of this kind (ctype(3)).
fn is_of(name: &[u8], byte: u8) -> bool {
    match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"digit" => byte.is_ascii_digit(),
        b"lower" => byte.is_ascii_lowercase(),
        b"punct" => byte.is_ascii_punctuation(),
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        b"graph" | b"print" => byte.is_ascii_graphic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(path: &str, value: &str) -> Content {
        Content::Assignment { path: path.into(), value: value.into(), may_fail: false }
    }

    fn one(line: &str, loader: Loader) -> Option<Content> {
        parse(line.as_bytes(), loader).pop().map(|line| line.content)
    }

    #[test]
    fn the_first_separator_decides() {
        for (key, expected) in [
            ("net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem"),
            ("net/ipv4/tcp_rmem", "net/ipv4/tcp_rmem"),
            ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
            ("net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
            ("/net//ipv4/x/", "net/ipv4/x"),
            ("word", "word"),
        ] {
            assert_eq!(path(key), expected);
        }
    }

    #[test]
    fn both_read_what_is_common_alike() {
        for loader in Loader::BOTH {
            let read = |line| one(line, loader);
            assert_eq!(
                read("  net.core.somaxconn =\t1024 # why \r"),
                Some(set("net/core/somaxconn", "1024 # why"))
            );
            assert_eq!(read("a.b=c=d"), Some(set("a/b", "c=d")));
            assert_eq!(read("a.b="), Some(set("a/b", "")));
            for empty in ["# a.b = 1", " ; a.b = 1", "", "   "] {
                assert_eq!(read(empty), None);
            }
            for bad in ["a.b 1", "sysctl -w a.b=1", "=5", "export A=1", "echo 1 > x=2"] {
                assert_eq!(read(bad), Some(Content::Unreadable), "{bad}");
            }
            assert_eq!(read("-a.*"), Some(Content::Exclusion { path: "a/*".into() }));
            let optional = Content::Assignment { path: "a/b".into(), value: "1".into(), may_fail: true };
            assert_eq!(read("-a.b = 1"), Some(optional));
        }
    }

    #[test]
    fn where_they_differ() {
        let lines = |bytes: &[u8], loader| parse(bytes, loader).len();
        assert_eq!((lines(b"a=1\rb=2", Loader::Systemd), lines(b"a=1\rb=2", Loader::Procps)), (2, 1));
        assert_eq!((lines(b"a=1\0b=2", Loader::Systemd), lines(b"a=1\0b=2", Loader::Procps)), (2, 1));
        assert!(matches!(one("- a.b = 1", Loader::Systemd), Some(Content::Assignment { .. })));
        assert_eq!(one("- a.b = 1", Loader::Procps), Some(Content::Unreadable));
        assert_eq!((one("x", Loader::Systemd), one("x", Loader::Procps)), (Some(Content::Unreadable), None));
    }

    #[test]
    fn a_line_that_is_too_long_ends_what_systemd_reads() {
        let text = |length: usize| format!("a=1\nb=2{}\nc=3\n", " ".repeat(length - 3));
        let numbers = |length, loader| {
            let lines = parse(text(length).as_bytes(), loader);
            let bad = lines.iter().filter(|line| line.content == Content::Unreadable).count();
            (lines.iter().map(|line| line.number).collect::<Vec<_>>(), bad)
        };
        assert_eq!(numbers(LONGEST_LINE - 1, Loader::Systemd), (vec![1, 2, 3], 0));
        assert_eq!(numbers(LONGEST_LINE, Loader::Systemd), (vec![1, 2], 1));
        assert_eq!(numbers(LONGEST_LINE, Loader::Procps), (vec![1, 2, 3], 0));
    }

    #[test]
    fn lines_keep_their_numbers() {
        let numbers: Vec<_> =
            parse(b"# a\n\na=1\n!\n", Loader::Systemd).iter().map(|line| line.number).collect();
        assert_eq!(numbers, [3, 4]);
    }

    #[test]
    fn patterns_match_part_by_part() {
        for (pattern, path, expected) in [
            ("net/ipv4/conf/*/rp_filter", "net/ipv4/conf/eth0/rp_filter", true),
            ("net/ipv4/conf/*/rp_filter", "net/ipv4/conf/a/b/rp_filter", false),
            ("net/*", "net/ipv4/x", false),
            ("a/eth[0-2]", "a/eth1", true),
            ("a/eth[!0-2]", "a/eth1", false),
            ("a/eth[]x]", "a/eth]", true),
            ("a/eth[x-]", "a/eth-", true),
            ("a/eth[[:digit:]_]", "a/eth7", true),
            ("a/eth[[:digit:]_]", "a/eth_", true),
            ("a/eth[![:digit:]]", "a/eth7", false),
            ("a/eth[[:digit]", "a/eth:", true),
            ("a/*", "a/.x", false),
            ("a/.*", "a/.x", true),
            ("a/et?*", "a/eth", true),
            ("a/*th*0", "a/eth00", true),
            ("a/[", "a/[", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
