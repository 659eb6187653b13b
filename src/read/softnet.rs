//! `/proc/net/softnet_stat` (net/core/net-procfs.c:softnet_seq_show, 2.6-6.18):
//! one line of hexadecimal columns a CPU that is online.

use super::cpu;
use super::text::{columns, expect_distinct, expect_hexadecimal, lines};
use crate::kernel::{Kernel, Malformed, Result, Root};

/// The counters of one CPU. Columns that a kernel does not print are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: u32,
    /// Column 1: packets processed.
    pub processed: u64,
    /// Column 2: packets dropped because the input queue was full, or by the flow
    /// limit.
    pub dropped: u64,
    /// Column 3: runs that ended with work left.
    pub time_squeezed: u64,
    /// Column 9: transmit lock found taken; 0 since 4.8.
    pub collisions: u64,
    /// Column 10 (2.6.35): times another CPU woke this one for RPS.
    pub received_rps: Option<u64>,
    /// Column 11 (3.11): packets dropped by the flow limit.
    pub flow_limit: Option<u64>,
    /// Column 12 (5.10): packets in both queues now.
    pub backlog: Option<u64>,
    /// Column 14 (6.10 by Documentation, present in 6.12): packets in the input queue.
    pub input_queue: Option<u64>,
    /// Column 15: packets in the processing queue.
    pub process_queue: Option<u64>,
}

/// 15 are known; a later kernel may print some more.
const COLUMNS: std::ops::RangeInclusive<usize> = 9..=24;

/// Parses the file. `online` are the numbers of the CPUs that are online, in
/// order: before 5.10 a line carries no number, and offline CPUs have no line.
///
/// # Errors
/// A line of less than 9 columns or with a column that is not hexadecimal;
/// lines without a number that are not as many as the CPUs online.
pub fn parse(bytes: &[u8], online: Option<&[u32]>) -> std::result::Result<Vec<Cpu>, Malformed> {
    let mut cpus = Vec::new();
    let mut numbered = 0;
    for (number, line) in lines(bytes) {
        let mut values = [0; 15];
        let mut count = 0;
        for column in columns(line) {
            let value = expect_hexadecimal(number, format_args!("column {}", count + 1), column)?;
            if let Some(place) = values.get_mut(count) {
                *place = value;
            }
            count += 1;
        }
        if !COLUMNS.contains(&count) {
            return Err(Malformed::new(number, "columns", "9 columns, or up to 24", line));
        }
        let column = |place: usize| (count >= place).then(|| values[place - 1]);
        numbered += usize::from(count >= 13);
        let cpu = match column(13) {
            Some(cpu) => u32::try_from(cpu)
                .map_err(|_| Malformed::new(number, "column 13", "the number of a CPU", line))?,
            // Replaced below, once the number of lines is known.
            None => (number - 1) as u32,
        };
        cpus.push(Cpu {
            cpu,
            processed: values[0],
            dropped: values[1],
            time_squeezed: values[2],
            collisions: values[8],
            received_rps: column(10),
            flow_limit: column(11),
            backlog: column(12),
            input_queue: column(14),
            process_queue: column(15),
        });
    }
    if cpus.is_empty() {
        return Err(Malformed::new(1, "softnet_stat", "a line for every CPU", b"nothing"));
    }
    if numbered == 0
        && let Some(online) = online
    {
        if online.len() != cpus.len() {
            let found = format!("{} lines, {} CPUs", cpus.len(), online.len());
            return Err(Malformed::new(cpus.len(), "CPU", "a line for every CPU online", found.as_bytes()));
        }
        for (line, cpu) in cpus.iter_mut().zip(online) {
            line.cpu = *cpu;
        }
    } else if numbered != 0 && numbered != cpus.len() {
        return Err(Malformed::new(1, "column 13", "the CPU's number in every line or in none", b"both"));
    }
    expect_distinct(cpus.iter().map(|cpu| cpu.cpu).collect())?;
    Ok(cpus)
}

/// `/proc/net/softnet_stat`, with `/sys/devices/system/cpu/online` for kernels
/// that print no CPU number.
pub fn read(kernel: &mut Kernel) -> Result<Vec<Cpu>> {
    let online = cpu::read_online(kernel);
    kernel.parse(Root::Net, "softnet_stat", |bytes| parse(bytes, online.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NINE: &str = "0000ffff 00000002 00000001 00000000 00000000 00000000 00000000 00000000 00000003";

    #[test]
    fn nine_columns_of_old_kernels() {
        let cpus = parse(format!("{NINE}\n{NINE}\n").as_bytes(), Some(&[0, 3])).unwrap();
        assert_eq!(cpus[1].cpu, 3);
        assert_eq!((cpus[0].processed, cpus[0].dropped, cpus[0].collisions), (65535, 2, 3));
        assert_eq!(cpus[0].received_rps, None);
    }

    #[test]
    fn fifteen_columns_name_their_cpu() {
        let line = format!("{NINE} 00000004 00000005 00000009 00000007 00000006 00000003\n");
        let cpus = parse(line.as_bytes(), Some(&[0, 1])).unwrap();
        assert_eq!(cpus[0].cpu, 7);
        assert_eq!((cpus[0].received_rps, cpus[0].flow_limit), (Some(4), Some(5)));
        assert_eq!(
            (cpus[0].backlog, cpus[0].input_queue, cpus[0].process_queue),
            (Some(9), Some(6), Some(3))
        );
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(parse(b"", None).unwrap_err().item, "softnet_stat");
        assert_eq!(parse(b"00 01\n", None).unwrap_err().item, "columns");
        let bad = format!("{NINE}\n{}\n", NINE.replace("0000ffff", "0000fffg"));
        let error = parse(bad.as_bytes(), None).unwrap_err();
        assert_eq!((error.line, error.item.as_str()), (2, "column 1"));
        let error = parse(format!("{NINE}\n").as_bytes(), Some(&[0, 1])).unwrap_err();
        assert_eq!(error.found, "1 lines, 2 CPUs");
    }
}
