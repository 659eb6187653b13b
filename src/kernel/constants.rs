use std::path::Path;

use rustix::system::uname;
use rustix::time::{ClockId, clock_getres};

use super::{Malformed, Result, roots};

/// Constants of a kernel build that other values are expressed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constants {
    /// Bytes a page.
    pub page_size: u64,
    /// Units a second of the times in `/proc/stat` (`USER_HZ`, 100 in practice).
    pub clock_ticks: u64,
    /// Timer interrupts a second (`CONFIG_HZ`).
    pub hz: u64,
    /// `uname -m`
    pub machine: String,
}

impl Constants {
    /// Of the running kernel. `CONFIG_HZ` is the resolution of a coarse clock:
    /// one tick (kernel/time/posix-timers.c:posix_get_coarse_res, 5.10-6.18).
    pub fn live() -> Self {
        let tick = clock_getres(ClockId::MonotonicCoarse);
        // A tick is between 1 and 10 ms on every configuration.
        let nanoseconds = (tick.tv_nsec as u64).max(1);
        Self {
            page_size: procfs::page_size(),
            clock_ticks: procfs::ticks_per_second(),
            hz: (1_000_000_000 + nanoseconds / 2) / nanoseconds,
            machine: uname().machine().to_string_lossy().into_owned(),
        }
    }

    /// From a file of lines `name value`.
    pub fn recorded(path: &Path) -> Result<Self> {
        let mut bytes = Vec::new();
        roots::read_file(path, &mut bytes)?;
        parse(&bytes).map_err(|malformed| malformed.at(path))
    }
}

fn parse(bytes: &[u8]) -> std::result::Result<Constants, Malformed> {
    let text = String::from_utf8_lossy(bytes);
    let value = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim())
            .ok_or_else(|| Malformed::new(1, name, "a line `name value`", bytes))
    };
    let number = |name: &str| {
        let text = value(name)?;
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| Malformed::new(1, name, "a positive integer", text.as_bytes()))
    };
    Ok(Constants {
        page_size: number("page_size")?,
        clock_ticks: number("clock_ticks")?,
        hz: number("hz")?,
        machine: value("machine")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_values_are_plausible() {
        let live = Constants::live();
        assert!(live.page_size.is_power_of_two() && live.page_size >= 4096, "{live:?}");
        assert!([100, 250, 300, 1000].contains(&live.hz), "{live:?}");
    }

    #[test]
    fn recorded_values_are_checked() {
        let parsed = parse(b"page_size 65536\nclock_ticks 100\nhz 250\nmachine aarch64\n").unwrap();
        let expected = Constants { page_size: 65536, clock_ticks: 100, hz: 250, machine: "aarch64".into() };
        assert_eq!(parsed, expected);
        let zero = parse(b"page_size 0\nclock_ticks 100\nhz 250\nmachine x\n").unwrap_err();
        assert_eq!((zero.item.as_str(), zero.found.as_str()), ("page_size", "0"));
        assert_eq!(parse(b"page_size 1\nclock_ticks 100\nhz 250\n").unwrap_err().item, "machine");
    }
}
