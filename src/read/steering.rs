//! RPS, RFS and XPS of each queue, from sysfs (net/core/net-sysfs.c, 2.6.35-6.18;
//! Documentation/networking/scaling.rst).

use super::text::decimal;
use crate::kernel::{Kernel, Malformed, Result, Root};

/// One queue of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// `rx-0`, `tx-3`
    pub name: String,
    /// How packets of this queue are spread.
    pub steering: Steering,
}

/// A set of CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpus {
    /// Four CPUs a digit, the lowest first.
    digits: Vec<u8>,
}

impl Cpus {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.digits.iter().map(|digit| digit.count_ones()).sum()
    }

    /// Takes in those of `other` as well.
    pub fn add(&mut self, other: &Self) {
        self.digits.resize(self.digits.len().max(other.digits.len()), 0);
        for (digit, more) in self.digits.iter_mut().zip(&other.digits) {
            *digit |= more;
        }
    }
}

/// How packets of a queue are spread over CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steering {
    /// A receive queue.
    Receive {
        /// CPUs that may process its packets (`rps_cpus`); 0 is off, `None` a
        /// kernel built without RPS.
        cpus: Option<Cpus>,
        /// Entries of its flow table (`rps_flow_cnt`); 0 is off, `None` a
        /// kernel built without RPS.
        flows: Option<u64>,
    },
    /// A transmit queue.
    Transmit {
        /// CPUs that prefer it (`xps_cpus`); `None` for a device with one
        /// queue, where the kernel has nothing to choose.
        cpus: Option<Cpus>,
    },
}

/// Parses the CPUs of a mask like `00000000,000000ff` (lib/bitmap.c, `%*pb`).
///
/// # Errors
/// A character that is neither hexadecimal nor a comma.
pub fn parse_mask(bytes: &[u8]) -> std::result::Result<Cpus, Malformed> {
    let text = bytes.trim_ascii();
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let digits = text.iter().rev().filter(|byte| **byte != b',').map(digit).collect::<Option<Vec<_>>>();
    match digits {
        Some(digits) if !digits.is_empty() => Ok(Cpus { digits }),
        _ => Err(Malformed::new(1, "mask", "hexadecimal digits and commas", text)),
    }
}

/// Parses one number.
///
/// # Errors
/// Anything else.
pub fn parse_count(bytes: &[u8]) -> std::result::Result<u64, Malformed> {
    let text = bytes.trim_ascii();
    decimal(text).ok_or_else(|| Malformed::new(1, "count", "an unsigned integer", text))
}

/// The queues of a device, in numeric order.
///
/// # Errors
/// Absent where sysfs does not show the device; failed where a file cannot be
/// understood.
pub fn read(kernel: &mut Kernel, device: &str) -> Result<Vec<Queue>> {
    let base = format!("class/net/{device}/queues");
    let mut names = kernel.roots().list(Root::Sys, &base)?;
    names.sort_by_cached_key(|name| {
        let (direction, number) = name.split_once('-').unwrap_or((name, ""));
        (direction.to_owned(), number.parse::<u32>().unwrap_or(u32::MAX))
    });
    let mut queues = Vec::with_capacity(names.len());
    for name in names {
        let steering = if name.starts_with("rx-") {
            let cpus = optional(kernel.parse(Root::Sys, format_args!("{base}/{name}/rps_cpus"), parse_mask))?;
            let flows =
                optional(kernel.parse(Root::Sys, format_args!("{base}/{name}/rps_flow_cnt"), parse_count))?;
            Steering::Receive { cpus, flows }
        } else if name.starts_with("tx-") {
            let cpus = optional(kernel.parse(Root::Sys, format_args!("{base}/{name}/xps_cpus"), parse_mask))?;
            Steering::Transmit { cpus }
        } else {
            continue;
        };
        queues.push(Queue { name, steering });
    }
    Ok(queues)
}

/// `None` for a file that is not there; xps_cpus also answers ENOENT when read
/// on a device with a single queue.
fn optional<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_count_their_cpus() {
        let count = |mask: &[u8]| parse_mask(mask).map(|cpus| cpus.count());
        assert_eq!(count(b"00000000,000000ff\n").unwrap(), 8);
        assert_eq!(count(b"0\n").unwrap(), 0);
        assert!(parse_mask(b"\n").is_err());
        assert!(parse_mask(b"0x1").is_err());
    }

    #[test]
    fn masks_add_up_cpu_by_cpu() {
        let mut all = Cpus::default();
        for (mask, count) in [("1", 1), ("00000000,00000001", 1), ("3", 2), ("00000001,00000000", 3)] {
            all.add(&parse_mask(mask.as_bytes()).unwrap());
            assert_eq!(all.count(), count, "{mask}");
        }
    }
}
