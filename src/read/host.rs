//! What the host is: kernel release, memory, CPUs. Defaults and limits of the
//! kernel are derived from these.

use procfs::FromRead;

use super::text::{columns, decimal, lines};
use crate::kernel::{Kernel, Malformed, Result, Root};

/// Facts about the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// `uname -r`
    pub release: String,
    /// `uname -n`
    pub name: String,
    /// Bytes of memory the kernel manages (`MemTotal`).
    pub memory_total: u64,
    /// Bytes that can be had without swapping (`MemAvailable`, 3.14).
    pub memory_available: Option<u64>,
    /// Buckets of the TCP established hash; shared tables show a negative
    /// number (`tcp_ehash_entries`, 6.1).
    pub established_hash: Option<u64>,
}

/// Parses `/proc/meminfo` into (MemTotal, MemAvailable), bytes.
///
/// # Errors
/// What the parser of the `procfs` crate objects to.
pub fn parse_memory(bytes: &[u8]) -> std::result::Result<(u64, Option<u64>), Malformed> {
    let bad = |line, found: &[u8]| Malformed::new(line, "meminfo", "lines `Name: number kB`", found);
    // The crate's parser panics on other characters and on larger numbers.
    for (number, line) in lines(bytes) {
        let short =
            columns(line).all(|column| column.len() <= 32 && decimal(column).is_none_or(|kb| kb < 1 << 53));
        if !line.is_ascii() || !short {
            return Err(bad(number, line));
        }
    }
    let memory = procfs::Meminfo::from_read(bytes).map_err(|error| bad(1, error.to_string().as_bytes()))?;
    Ok((memory.mem_total, memory.mem_available))
}

/// Parses `/proc/zoneinfo`: pages that the kernel does not count as usable for
/// buffers (mm/page_alloc.c:nr_free_buffer_pages): the `high` marks of the zones
/// DMA, DMA32 and Normal, and the zone Movable whole.
pub fn parse_unusable(bytes: &[u8]) -> u64 {
    let mut counts: &[u8] = b"";
    let mut sum = 0u64;
    for (_, line) in lines(bytes) {
        let mut parts = columns(line);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(b"Node"), Some(_), Some(b"zone"), Some(zone)) => {
                counts = match zone {
                    b"DMA" | b"DMA32" | b"Normal" => b"high",
                    b"Movable" => b"managed",
                    _ => b"",
                };
            }
            (Some(name), Some(pages), None, None) if name == counts => {
                sum = sum.saturating_add(decimal(pages).unwrap_or(0));
            }
            _ => {}
        }
    }
    sum
}

/// Pages that are not usable for buffers, 0 where the kernel does not say.
pub fn read_unusable(kernel: &mut Kernel) -> u64 {
    kernel.read(Root::Proc, "zoneinfo").map(parse_unusable).unwrap_or(0)
}

/// Reads what there is.
///
/// # Errors
/// `meminfo` or the kernel's release cannot be read or understood.
pub fn read(kernel: &mut Kernel) -> Result<Host> {
    let text = |kernel: &mut Kernel, path: &str| {
        kernel.parse_value(format_args!("kernel/{path}"), |bytes, _| super::sysctl::parse_text(bytes))
    };
    let release = text(kernel, "osrelease")?;
    let name = text(kernel, "hostname").unwrap_or_default();
    let (memory_total, memory_available) = kernel.parse(Root::Proc, "meminfo", parse_memory)?;
    let established_hash = kernel
        .parse_value("net/ipv4/tcp_ehash_entries", |bytes, _| super::sysctl::parse_numbers(bytes, 1))
        .ok()
        .and_then(|numbers| numbers.first().map(|number| number.unsigned_abs()));
    Ok(Host { release, name, memory_total, memory_available, established_hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_buffer_zones_and_the_movable_zone_are_summed() {
        let text = b"Node 0, zone      DMA\n  pages free 1\n        high     79\n        managed 3840\n\
                     Node 0, zone   Normal\n        high     8976\n              high:  5\n\
                     Node 0, zone  Movable\n        high     32\n        managed 1000\n";
        assert_eq!(parse_unusable(text), 79 + 8976 + 1000);
        assert_eq!(parse_unusable(b"\xff\nhigh\n"), 0);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(parse_memory(b"MemTotal: 4 kB\nnot a line\n").unwrap_err().item, "meminfo");
    }
}
