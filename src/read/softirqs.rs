//! `/proc/softirqs` (fs/proc/softirqs.c, 2.6.32-6.18): a header of CPUs, then a
//! line a kind.

use super::cpu;
use super::text::{columns, decimal, expect_decimal, expect_distinct, lines};
use crate::kernel::{Kernel, Malformed, Result, Root};

/// Runs of the two network softirqs on one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: u32,
    /// NET_RX
    pub net_rx: u64,
    /// NET_TX
    pub net_tx: u64,
}

/// Parses the file. Columns are the possible CPUs, offline ones included.
///
/// # Errors
/// No header of CPUs, no line NET_RX, another number of columns than of CPUs.
pub fn parse(bytes: &[u8]) -> std::result::Result<Vec<Cpu>, Malformed> {
    let mut rest = lines(bytes);
    let header = rest.next().map(|(_, line)| line).unwrap_or_default();
    let cpus = cpu_header(1, header)?.into_iter();
    let mut cpus: Vec<_> = cpus.map(|cpu| Cpu { cpu, ..Cpu::default() }).collect();
    let mut found = false;
    for (number, line) in rest {
        let mut parts = columns(line);
        let set: fn(&mut Cpu, u64) = match parts.next() {
            Some(b"NET_RX:") => |cpu, value| cpu.net_rx = value,
            Some(b"NET_TX:") => |cpu, value| cpu.net_tx = value,
            _ => continue,
        };
        found = true;
        for cpu in &mut cpus {
            let column = parts.next().unwrap_or_default();
            let value = expect_decimal(number, format_args!("CPU{}", cpu.cpu), column)?;
            set(cpu, value);
        }
        if let Some(extra) = parts.next() {
            return Err(Malformed::new(number, "columns", "as many columns as CPUs", extra));
        }
    }
    if !found {
        return Err(Malformed::new(1, "NET_RX", "a line `NET_RX: …`", header));
    }
    Ok(cpus)
}

/// The CPU numbers of a header `CPU0 CPU1 …`.
pub(super) fn cpu_header(number: usize, line: &[u8]) -> std::result::Result<Vec<u32>, Malformed> {
    let cpus = columns(line).map(|column| {
        let cpu = column.strip_prefix(b"CPU").and_then(decimal).and_then(|cpu| u32::try_from(cpu).ok());
        cpu.ok_or_else(|| Malformed::new(number, "header", "a column `CPUn`", column))
    });
    let cpus: Vec<u32> = cpus.collect::<std::result::Result<_, _>>()?;
    if cpus.is_empty() {
        return Err(Malformed::new(number, "header", "a line `CPU0 CPU1 …`", line));
    }
    expect_distinct(cpus.clone())?;
    Ok(cpus)
}

/// `/proc/softirqs`, without the CPUs that are possible and not there: some
/// hosts can have hundreds.
pub fn read(kernel: &mut Kernel) -> Result<Vec<Cpu>> {
    let online = cpu::read_online(kernel);
    let mut cpus = kernel.parse(Root::Proc, "softirqs", parse)?;
    if let Some(online) = online {
        cpus.retain(|cpu| online.contains(&cpu.cpu));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_belong_to_the_cpus_of_the_header() {
        let text = b"         CPU0    CPU2\n  HI: 1 2\nNET_TX: 3 4\nNET_RX: 5 6\n";
        let cpus = parse(text).unwrap();
        assert_eq!(cpus[1], Cpu { cpu: 2, net_rx: 6, net_tx: 4 });
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(parse(b"").unwrap_err().item, "header");
        assert_eq!(parse(b"CPU0\nHI: 1\n").unwrap_err().item, "NET_RX");
        assert_eq!(parse(b"CPU0 CPU1\nNET_RX: 1\n").unwrap_err().item, "CPU1");
        assert_eq!(parse(b"CPU0\nNET_RX: 1 2\n").unwrap_err().item, "columns");
    }
}
