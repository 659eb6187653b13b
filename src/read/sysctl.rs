//! Values below `/proc/sys`.

use super::text::{columns, signed};
use crate::kernel::{Error, Kernel, Malformed, Result, Root};

/// A running value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// One or more integers.
    Numbers(Vec<i64>),
    /// Anything else, without the newline.
    Text(String),
}

/// A running value, and whether the kernel lets root write it here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The value.
    pub value: Value,
    /// No write bit is set: the key is shown and cannot be changed in this
    /// namespace.
    pub read_only: bool,
}

/// Parses exactly `count` integers. The kernel prints them on one line with
/// blanks between (kernel/sysctl.c:proc_dointvec).
///
/// # Errors
/// Another number of columns, or a column that is not an integer.
pub fn parse_numbers(bytes: &[u8], count: usize) -> std::result::Result<Vec<i64>, Malformed> {
    let mut numbers = Vec::with_capacity(count);
    for (index, column) in columns(bytes).enumerate() {
        let number = signed(column)
            .ok_or_else(|| Malformed::new(1, format!("value {}", index + 1), "an integer", column))?;
        numbers.push(number);
    }
    if numbers.len() != count {
        return Err(Malformed::new(1, format!("{} values", numbers.len()), expected(count), bytes));
    }
    Ok(numbers)
}

fn expected(count: usize) -> &'static str {
    match count {
        1 => "one integer",
        2 => "two integers",
        3 => "three integers",
        _ => "the number of integers the catalogue states",
    }
}

/// Parses a text value: one line of printable characters.
///
/// # Errors
/// Bytes that no text value has.
pub fn parse_text(bytes: &[u8]) -> std::result::Result<String, Malformed> {
    let line = bytes.trim_ascii_end();
    match std::str::from_utf8(line) {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err(Malformed::new(1, "value", "one line of printable text", line)),
    }
}

/// Reads a value of `count` integers.
pub fn read_numbers(kernel: &mut Kernel, path: &str, count: usize) -> Result<Reading> {
    read(kernel, path, |bytes| parse_numbers(bytes, count).map(Value::Numbers))
}

/// Reads a text value.
pub fn read_text(kernel: &mut Kernel, path: &str) -> Result<Reading> {
    read(kernel, path, |bytes| parse_text(bytes).map(Value::Text))
}

fn read(
    kernel: &mut Kernel,
    path: &str,
    parse: impl FnOnce(&[u8]) -> std::result::Result<Value, Malformed>,
) -> Result<Reading> {
    kernel.parse_value(path, |bytes, read_only| parse(bytes).map(|value| Reading { value, read_only }))
}

/// Reads `N` integers that cannot be negative; `None` where the key does not
/// exist.
pub fn read_unsigned<const N: usize>(kernel: &mut Kernel, path: &str) -> Result<Option<[u64; N]>> {
    present(kernel.parse_value(path, unsigned))
}

/// The same of a key that only the initial network namespace has; `None` also where
/// this process is in another one and may not enter that.
pub fn read_global_unsigned<const N: usize>(kernel: &mut Kernel, path: &str) -> Result<Option<[u64; N]>> {
    present(kernel.parse_global_value(path, unsigned))
}

fn present<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(values) => Ok(Some(values)),
        Err(error) if Error::is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn unsigned<const N: usize>(bytes: &[u8], _: bool) -> std::result::Result<[u64; N], Malformed> {
    let numbers = parse_numbers(bytes, N)?;
    let mut values = [0; N];
    for (value, number) in values.iter_mut().zip(numbers) {
        *value = u64::try_from(number)
            .map_err(|_| Malformed::new(1, "value", "an integer that is not negative", bytes))?;
    }
    Ok(values)
}

/// Names of the interfaces that have values below `net/ipv4/conf`, without
/// `all` and `default`; none where the directory does not exist.
pub fn interfaces(kernel: &Kernel) -> Result<Vec<String>> {
    match kernel.roots().list(Root::Proc, "sys/net/ipv4/conf") {
        Ok(mut names) => {
            names.retain(|name| name != "all" && name != "default");
            Ok(names)
        }
        Err(error) if error.is_absent() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted() {
        assert_eq!(parse_numbers(b"4096\t131072\t6291456\n", 3).unwrap(), [4096, 131072, 6291456]);
        assert_eq!(parse_numbers(b"-262144\n", 1).unwrap(), [-262144]);
        assert_eq!(parse_numbers(b"4294967295\n", 1).unwrap(), [4294967295]);
        assert_eq!(parse_numbers(b"1 2\n", 1).unwrap_err().expected, "one integer");
        assert_eq!(parse_numbers(b"", 1).unwrap_err().item, "0 values");
        assert_eq!(parse_numbers(b"1 x 3", 3).unwrap_err().item, "value 2");
    }

    #[test]
    fn text_is_one_line() {
        assert_eq!(parse_text(b"cubic\n").unwrap(), "cubic");
        assert_eq!(parse_text(b"\n").unwrap(), "");
        assert!(parse_text(b"a\nb\n").is_err());
        assert!(parse_text(b"\xff\n").is_err());
    }
}
