//! Our own process, for the `process_*` metrics every exporter has.

use procfs::FromRead;
use procfs::process::Stat;

use crate::kernel::{Kernel, Malformed, Result, Root};

/// Our own use of the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// User and system time, clock ticks.
    pub cpu_ticks: u64,
    /// Resident memory, pages.
    pub resident_pages: u64,
    /// Virtual memory, bytes.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Start, clock ticks after boot.
    pub start_ticks: u64,
    /// Seconds since the epoch at boot (`btime`).
    pub boot_time: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
}

/// Parses `/proc/self/stat`.
///
/// # Errors
/// What the parser of the `procfs` crate objects to.
pub fn parse(bytes: &[u8]) -> std::result::Result<Process, Malformed> {
    let bad = |found: &[u8]| Malformed::new(1, "stat", "the columns of proc_pid_stat(5)", found);
    if !has_name(bytes) {
        return Err(bad(bytes));
    }
    let stat = Stat::from_read(bytes).map_err(|error| bad(error.to_string().as_bytes()))?;
    Ok(Process {
        cpu_ticks: stat.utime.saturating_add(stat.stime),
        resident_pages: stat.rss,
        virtual_bytes: stat.vsize,
        threads: u64::try_from(stat.num_threads).unwrap_or(0),
        start_ticks: stat.starttime,
        boot_time: None,
        open_files: None,
    })
}

/// Whether the text starts `number (name) `. The crate's parser panics without.
fn has_name(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii();
    let open = text.iter().position(|byte| *byte == b'(');
    let close = text.iter().rposition(|byte| *byte == b')');
    match (open, close) {
        (Some(open), Some(close)) => {
            let number =
                text[..open].strip_suffix(b" ").is_some_and(|number| number.iter().all(u8::is_ascii_digit));
            number && open < close && text.get(close + 1) == Some(&b' ')
        }
        _ => false,
    }
}

/// Parses the line `btime` of `/proc/stat`.
pub fn parse_boot_time(bytes: &[u8]) -> Option<u64> {
    let line = bytes.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"btime "))?;
    super::text::decimal(line)
}

/// `/proc/self`
pub fn read(kernel: &mut Kernel) -> Result<Process> {
    let mut process = kernel.parse(Root::Proc, "self/stat", parse)?;
    process.boot_time = kernel.read(Root::Proc, "stat").ok().and_then(parse_boot_time);
    process.open_files = kernel.roots().list(Root::Proc, "self/fd").ok().map(|names| names.len() as u64);
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_is_a_line_of_its_own() {
        assert_eq!(parse_boot_time(b"cpu 1 2\nbtime 1764500000\nprocesses 5\n"), Some(1764500000));
        assert_eq!(parse_boot_time(b"xbtime 5\n"), None);
    }
}
