//! `/proc/interrupts` (kernel/irq/proc.c:show_interrupts, 2.6-6.18), for the
//! interrupts of network devices: which CPUs serve them.

use memchr::memmem;

use super::softirqs::cpu_header;
use super::text::{columns, decimal, expect_decimal, lines};
use crate::kernel::{Kernel, Malformed, Result, Root};

/// One numbered interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Times it was served, by CPU in the order of [`Interrupts::cpus`].
    pub counts: Vec<u64>,
    /// Names of the handlers, as the drivers gave them.
    pub actions: String,
}

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// CPUs that are online, in the order of the columns.
    pub cpus: Vec<u32>,
    /// Numbered interrupts that were wanted; the architecture's own (NMI, LOC,
    /// …) are left out.
    pub interrupts: Vec<Interrupt>,
}

/// How the interrupts of a network device are told from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// The network device.
    pub device: String,
    /// Name of its device on the bus: `0000:01:00.0`, `virtio2`.
    pub bus_name: Option<String>,
    /// Message-signalled interrupts of that bus device, as sysfs lists them.
    pub numbers: Vec<u32>,
}

impl Owner {
    /// Whether an interrupt serves this device. By number where sysfs lists it;
    /// a virtio device shares its bus device's list with nobody but is named
    /// after itself (`virtio2-input.0`); other drivers put the network
    /// device's or the bus device's name into the action (`eth0-TxRx-0`,
    /// `mlx5_comp0@pci:0000:01:00.0`).
    pub fn owns(&self, number: u32, actions: &[u8]) -> bool {
        self.numbers.contains(&number)
            || names(actions, &self.device)
            || self.bus_name.as_ref().is_some_and(|name| names(actions, name))
    }
}

/// Whether `name` stands in `actions` as a word: `eth1` is not in `eth10-rx`. A
/// name of digits alone would be found among the counts, and is not looked for.
fn names(actions: &[u8], name: &str) -> bool {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let part_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    memmem::find_iter(actions, name).any(|start| {
        let before = actions[..start].last();
        let after = actions.get(start + name.len());
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

/// Parses the lines of the interrupts that `keep` wants, by number and by the
/// whole line: a large host has thousands, of hundreds of columns each.
///
/// # Errors
/// No header of CPUs, or a kept line with less columns than CPUs.
pub fn parse(bytes: &[u8], keep: impl Fn(u32, &[u8]) -> bool) -> std::result::Result<Interrupts, Malformed> {
    let mut rest = lines(bytes);
    let header = rest.next().map(|(_, line)| line).unwrap_or_default();
    let cpus = cpu_header(1, header)?;
    let mut interrupts = Vec::new();
    for (line_number, line) in rest {
        let mut parts = columns(line);
        let number = parts.next().and_then(|column| column.strip_suffix(b":")).and_then(decimal);
        let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else { continue };
        if !keep(number, line) {
            continue;
        }
        let mut counts = Vec::with_capacity(cpus.len());
        for cpu in &cpus {
            let column = parts.next().unwrap_or_default();
            counts.push(expect_decimal(line_number, format_args!("CPU{cpu}"), column)?);
        }
        let words: Vec<_> = parts.map(String::from_utf8_lossy).collect();
        interrupts.push(Interrupt { number, counts, actions: words.join(" ") });
    }
    Ok(Interrupts { cpus, interrupts })
}

/// `/proc/interrupts`, the interrupts of these devices.
pub fn read(kernel: &mut Kernel, owners: &[Owner]) -> Result<Interrupts> {
    let keep = |number, line: &[u8]| owners.iter().any(|owner| owner.owns(number, line));
    kernel.parse(Root::Proc, "interrupts", |bytes| parse(bytes, keep))
}

/// What sysfs knows of the interrupts of a network device; `None` for a device
/// without hardware behind it.
pub fn read_owner(kernel: &Kernel, device: &str) -> Option<Owner> {
    let roots = kernel.roots();
    let base = format!("class/net/{device}/device");
    let bus_name = roots.link_name(Root::Sys, &base).ok()?;
    let listed = roots.list(Root::Sys, format_args!("{base}/msi_irqs")).unwrap_or_default();
    let numbers = listed.iter().filter_map(|number| number.parse().ok()).collect();
    Some(Owner { device: device.to_owned(), bus_name: Some(bus_name), numbers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architecture_lines_are_left_out() {
        let text = b"      CPU0 CPU1\n 24: 1 2 PCI-MSI 5-edge eth0-rx-0\nNMI: 0 0 Non-maskable\nERR: 0\n";
        let parsed = parse(text, |_, _| true).unwrap();
        assert_eq!(parsed.cpus, [0, 1]);
        assert_eq!(parsed.interrupts.len(), 1);
        assert_eq!(parsed.interrupts[0].counts, [1, 2]);
        assert_eq!(parsed.interrupts[0].actions, "PCI-MSI 5-edge eth0-rx-0");
    }

    #[test]
    fn owners_are_told_by_number_or_by_name() {
        let owner = Owner { device: "eth1".into(), bus_name: Some("virtio1".into()), numbers: vec![7] };
        assert!(owner.owns(7, b""));
        assert!(owner.owns(8, b"PCI-MSI eth1-TxRx-0"));
        assert!(owner.owns(8, b"PCI-MSIX virtio1-input.0"));
        assert!(!owner.owns(8, b"PCI-MSIX virtio10-input.0, eth10"));
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(parse(b"", |_, _| true).unwrap_err().item, "header");
        assert_eq!(parse(b"CPU0 CPU1\n1: 5\n", |_, _| true).unwrap_err().item, "CPU1");
    }
}
