//! The tables of `/proc/net/stat`: a header of names, then a line of
//! hexadecimal columns a CPU (net/netfilter/nf_conntrack_standalone.c,
//! net/core/neighbour.c, 2.6-6.18).

use super::add_32;
use super::text::{columns, expect_hexadecimal, expect_name, lines};
use crate::kernel::Malformed;

/// Columns by name, summed over the CPUs in 32 bits, which each has
/// (`unsigned int` in struct ip_conntrack_stat; those of struct neigh_statistics
/// are printed alike). `entries` is not summed: it is the
/// same total, repeated in every line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics(Vec<(String, u64)>);

impl Statistics {
    /// The column, if this kernel prints it.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

impl Statistics {
    /// Adds to a column, which is there from then on.
    pub(super) fn add(&mut self, name: &str, value: u32) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum = add_32(*sum, value.into()),
            None => self.0.push((name.to_owned(), value.into())),
        }
    }
}

/// Parses such a table.
///
/// # Errors
/// No header, no line below it, another number of columns than of names, a
/// column that is not hexadecimal.
pub fn parse(bytes: &[u8]) -> std::result::Result<Statistics, Malformed> {
    let mut rest = lines(bytes);
    let header = rest.next().map(|(_, line)| line).unwrap_or_default();
    let mut sums = Vec::new();
    for name in columns(header) {
        sums.push((expect_name(1, "header", name)?.to_owned(), 0u64));
    }
    let mut rows = 0;
    for (number, line) in rest {
        let mut values = columns(line);
        for (name, sum) in &mut sums {
            let value = expect_hexadecimal(number, &*name, values.next().unwrap_or_default())?;
            *sum = if name == "entries" { value } else { add_32(*sum, value) };
        }
        if let Some(extra) = values.next() {
            return Err(Malformed::new(number, "columns", "as many columns as names", extra));
        }
        rows += 1;
    }
    if sums.is_empty() || rows == 0 {
        return Err(Malformed::new(1, "statistics", "a line of names and a line for every CPU", header));
    }
    Ok(Statistics(sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_repeated_and_never_summed() {
        let text = b"entries  found drop\n0000003c  00000001 000001e0\n0000003c  00000002 000001e0\n";
        let statistics = parse(text).unwrap();
        assert_eq!(statistics.get("entries"), Some(60));
        assert_eq!(statistics.get("found"), Some(3));
        assert_eq!(statistics.get("drop"), Some(960));
        assert_eq!(statistics.get("no"), None);
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(parse(b"").unwrap_err().item, "statistics");
        assert_eq!(parse(b"entries drop\n").unwrap_err().item, "statistics");
        assert_eq!(parse(b"entries drop\n01\n").unwrap_err().item, "drop");
        assert_eq!(parse(b"entries drop\n01 02 03\n").unwrap_err().item, "columns");
        assert_eq!(parse(b"entries drop\n01 0x\n").unwrap_err().line, 2);
    }
}
