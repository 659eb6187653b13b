//! `/proc/stat` (fs/proc/stat.c, 2.6.11-6.18): the time of each CPU.

use super::text::{columns, decimal, expect_decimal, expect_distinct, lines, list};
use crate::kernel::{Kernel, Malformed, Result, Root};

/// Time of one CPU that is online, in clock ticks (`USER_HZ`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: u32,
    /// Idle, not waiting for input or output.
    pub idle: u64,
    /// In hard interrupts.
    pub irq: u64,
    /// In soft interrupts.
    pub softirq: u64,
    /// Taken by the hypervisor for others.
    pub steal: u64,
}

/// Parses the lines `cpuN user nice system idle iowait irq softirq steal …`.
///
/// # Errors
/// No such line, or one with less than eight numbers.
pub fn parse(bytes: &[u8]) -> std::result::Result<Vec<Cpu>, Malformed> {
    let mut cpus = Vec::new();
    for (number, line) in lines(bytes) {
        let mut parts = columns(line);
        let name = parts.next().and_then(|column| column.strip_prefix(b"cpu"));
        // The first line, `cpu`, is the sum of the others.
        let Some(cpu) = name.and_then(decimal).and_then(|cpu| u32::try_from(cpu).ok()) else {
            continue;
        };
        let mut times = [0; 8];
        for (time, item) in
            times.iter_mut().zip(["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"])
        {
            *time = expect_decimal(number, item, parts.next().unwrap_or_default())?;
        }
        cpus.push(Cpu { cpu, idle: times[3], irq: times[5], softirq: times[6], steal: times[7] });
    }
    if cpus.is_empty() {
        return Err(Malformed::new(1, "cpu0", "a line `cpu0 …`", bytes));
    }
    expect_distinct(cpus.iter().map(|cpu| cpu.cpu).collect())?;
    Ok(cpus)
}

/// Numbers of the CPUs that are online; `None` where sysfs does not say.
pub fn read_online(kernel: &mut Kernel) -> Option<Vec<u32>> {
    let cpus = kernel.read(Root::Sys, "devices/system/cpu/online").ok().and_then(list);
    cpus.filter(|cpus| !cpus.is_empty())
}

/// How many CPUs this host can have, by the highest number of one, as masks of CPUs have
/// room for; `None` where sysfs does not say.
pub fn read_possible(kernel: &mut Kernel) -> Option<u32> {
    let cpus = kernel.read(Root::Sys, "devices/system/cpu/possible").ok().and_then(list);
    cpus?.into_iter().max()?.checked_add(1)
}

/// `/proc/stat`
pub fn read(kernel: &mut Kernel) -> Result<Vec<Cpu>> {
    kernel.parse(Root::Proc, "stat", parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_left_out() {
        let text =
            b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu3 1 2 3 40 5 6 70 80 0 0\nintr 5\n";
        let cpus = parse(text).unwrap();
        assert_eq!(cpus[0], Cpu { cpu: 0, idle: 4, irq: 6, softirq: 7, steal: 8 });
        assert_eq!(cpus[1].cpu, 3);
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(parse(b"").unwrap_err().item, "cpu0");
        let error = parse(b"cpu 1\ncpu0 1 2 3 4 5 6\n").unwrap_err();
        assert_eq!((error.line, error.item.as_str()), (2, "softirq"));
    }
}
