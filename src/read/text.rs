//! Lines, columns and numbers of the kernel's text files.

use std::fmt::Display;

use memchr::memchr;

use crate::kernel::Malformed;

/// Lines with their number, counted from 1; an empty last line is none.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut rest = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut ended = rest.is_empty();
    let lines = std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let end = memchr(b'\n', rest);
        ended = end.is_none();
        let line = &rest[..end.unwrap_or(rest.len())];
        // The newline itself is passed over; there is none after the last line.
        rest = rest.get(line.len() + 1..).unwrap_or_default();
        Some(line)
    });
    (1..).zip(lines)
}

/// Columns, separated by any number of blanks. The kernel pads columns of
/// numbers, so runs of blanks are passed over as a whole.
pub(super) fn columns(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (column, after) = rest.split_at(end);
        rest = after;
        Some(column)
    })
}

/// An unsigned decimal, all digits.
pub(super) fn decimal(column: &[u8]) -> Option<u64> {
    number(column, 10)
}

/// An unsigned hexadecimal without prefix.
pub(super) fn hexadecimal(column: &[u8]) -> Option<u64> {
    number(column, 16)
}

fn number(column: &[u8], radix: u32) -> Option<u64> {
    if column.is_empty() || column.len() > 20 {
        return None;
    }
    column.iter().try_fold(0u64, |value, byte| {
        let digit = char::from(*byte).to_digit(radix)?;
        value.checked_mul(radix.into())?.checked_add(digit.into())
    })
}

/// A signed decimal.
pub(super) fn signed(column: &[u8]) -> Option<i64> {
    std::str::from_utf8(column).ok()?.parse().ok()
}

/// A name of the kernel's: printable ASCII.
pub(super) fn name(column: &[u8]) -> Option<&str> {
    let printable = !column.is_empty() && column.iter().all(u8::is_ascii_graphic);
    if printable { std::str::from_utf8(column).ok() } else { None }
}

/// As [`decimal`], or an error that names the line and the item. The item is
/// made a string only then: these run once a cell of large tables.
pub(super) fn expect_decimal(line: usize, item: impl Display, column: &[u8]) -> Result<u64, Malformed> {
    decimal(column).ok_or_else(|| Malformed::new(line, item.to_string(), "an unsigned integer", column))
}

/// As [`hexadecimal`], or an error that names the line and the item.
pub(super) fn expect_hexadecimal(line: usize, item: impl Display, column: &[u8]) -> Result<u64, Malformed> {
    hexadecimal(column).ok_or_else(|| Malformed::new(line, item.to_string(), "a hexadecimal number", column))
}

/// As [`name`], or an error that names the line and the item.
pub(super) fn expect_name<'a>(line: usize, item: &str, column: &'a [u8]) -> Result<&'a str, Malformed> {
    name(column).ok_or_else(|| Malformed::new(line, item, "a name in printable ASCII", column))
}

/// An error when a number comes twice: each CPU has one line or column.
pub(super) fn expect_distinct(mut cpus: Vec<u32>) -> Result<(), Malformed> {
    cpus.sort_unstable();
    match cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Malformed::new(1, "CPU", "every CPU once", format!("CPU {} twice", pair[0]).as_bytes()))
        }
        None => Ok(()),
    }
}

/// A list like `0-3,8` (lib/bitmap.c, format `%*pbl`), as its members. The
/// kernel's own lists here are of CPUs, at most some thousands.
pub(super) fn list(bytes: &[u8]) -> Option<Vec<u32>> {
    const MEMBERS: usize = 1 << 16;
    let text = bytes.trim_ascii();
    let mut members = Vec::new();
    if text.is_empty() {
        return Some(members);
    }
    for range in text.split(|byte| *byte == b',') {
        let mut ends = range.splitn(2, |byte| *byte == b'-');
        let first = u32::try_from(decimal(ends.next()?)?).ok()?;
        let last = match ends.next() {
            Some(last) => u32::try_from(decimal(last)?).ok()?,
            None => first,
        };
        if last < first || members.len() + (last - first) as usize >= MEMBERS {
            return None;
        }
        members.extend(first..=last);
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one_and_a_last_newline_is_no_line() {
        let numbered: Vec<_> = lines(b"a\n\nb\n").collect();
        assert_eq!(numbered, [(1, &b"a"[..]), (2, &b""[..]), (3, &b"b"[..])]);
        assert_eq!(lines(b"").count(), 0);
        assert_eq!(lines(b"\n").count(), 0);
    }

    #[test]
    fn columns_are_what_stands_between_blanks() {
        assert_eq!(columns(b"  a\t bc  d ").collect::<Vec<_>>(), [&b"a"[..], b"bc", b"d"]);
        assert_eq!(columns(b" \t ").count(), 0);
    }

    #[test]
    fn numbers_are_whole_and_do_not_wrap() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        for bad in [&b""[..], b"-1", b"+1", b"1x", b"0x1"] {
            assert_eq!(decimal(bad), None, "{bad:?}");
        }
        assert_eq!(hexadecimal(b"0000ffff"), Some(65535));
    }

    #[test]
    fn lists_are_ranges() {
        assert_eq!(list(b"0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list(b"\n"), Some(vec![]));
        assert_eq!(list(b"3-1"), None);
        assert_eq!(list(b"0-4294967295"), None);
    }
}
