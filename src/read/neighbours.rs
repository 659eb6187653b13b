//! Neighbour tables: statistics from `/proc/net/stat/{arp,ndisc}_cache`, which
//! exist in the initial namespace only, limits from `/proc/sys`, and the entries
//! of this namespace by state over rtnetlink.

use super::Family;
use super::statistics::{self, Statistics};
use super::sysctl;
use crate::kernel::netlink::{messages, u16_at};
use crate::kernel::{Kernel, Malformed, Request, Result, Root};

/// One family's table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// `gc_thresh1`, `gc_thresh2`, `gc_thresh3`: entries.
    pub thresholds: [Option<u64>; 3],
    /// Counters of the whole host, under the kernel's names.
    pub statistics: Option<Statistics>,
    /// Entries of this namespace, by state.
    pub states: Option<States>,
}

/// Entries by state, in the order of [`STATES`].
pub type States = [u64; STATES.len()];

/// `NUD_*` bits (include/uapi/linux/neighbour.h) and their names as `ip
/// neighbour` prints them, in lower case.
pub const STATES: [(u16, &str); 8] = [
    (0x01, "incomplete"),
    (0x02, "reachable"),
    (0x04, "stale"),
    (0x08, "delay"),
    (0x10, "probe"),
    (0x20, "failed"),
    (0x40, "noarp"),
    (0x80, "permanent"),
];

/// Counts RTM_NEWNEIGH messages by state, IPv4 then IPv6. An
/// entry without a state (`NUD_NONE`) is in no count.
///
/// # Errors
/// A message that is cut.
pub fn count_states(counts: &mut [States; 2], bytes: &[u8]) -> std::result::Result<(), Malformed> {
    for (index, message) in messages(bytes).enumerate() {
        let message = message?;
        // struct ndmsg { u8 family, pad1; u16 pad2; s32 ifindex; u16 state; u8 flags, type; }
        let (Some(family), Some(state)) = (message.payload.first(), u16_at(message.payload, 8)) else {
            return Err(Malformed::new(index + 1, "struct ndmsg", "12 bytes", message.payload));
        };
        let table = match Family::from_address_family(*family) {
            Some(Family::V4) => &mut counts[0],
            Some(Family::V6) => &mut counts[1],
            None => continue,
        };
        if let Some(place) = STATES.iter().position(|(bit, _)| *bit == state) {
            table[place] += 1;
        }
    }
    Ok(())
}

/// Both tables, IPv4 then IPv6; what was read before a failure is returned
/// with it.
///
/// # Errors
/// The first part that exists and cannot be read or understood.
pub fn read(kernel: &mut Kernel) -> ([Table; 2], Result<()>) {
    let mut tables = [Table::default(), Table::default()];
    let mut result = Ok(());
    let mut absent = None;
    let mut note = |outcome: Result<()>| match outcome {
        Err(error) if error.is_absent() => absent = Some(error),
        outcome if result.is_ok() => result = outcome,
        _ => {}
    };
    for (table, (family, cache)) in tables.iter_mut().zip([("ipv4", "arp_cache"), ("ipv6", "ndisc_cache")]) {
        for (number, threshold) in (1..).zip(&mut table.thresholds) {
            let path = format!("net/{family}/neigh/default/gc_thresh{number}");
            note(sysctl::read_unsigned(kernel, &path).map(|value| *threshold = value.map(|[value]| value)));
        }
        let parsed = kernel.parse(Root::Net, format_args!("stat/{cache}"), statistics::parse);
        note(parsed.map(|statistics| table.statistics = Some(statistics)));
    }
    note(read_states(kernel).map(|counts| {
        for (table, states) in tables.iter_mut().zip(counts) {
            table.states = Some(states);
        }
    }));
    match absent {
        // Not one part of it is here.
        Some(error) if result.is_ok() && tables.iter().all(|table| *table == Table::default()) => {
            (tables, Err(error))
        }
        _ => (tables, result),
    }
}

/// Entries of this namespace by state, IPv4 then IPv6.
pub fn read_states(kernel: &mut Kernel) -> Result<[States; 2]> {
    kernel.ask(Request::Neighbours, count_states)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(family: u8, state: u16) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(28u32.to_ne_bytes());
        bytes.extend([0; 12]);
        bytes.extend([family, 0, 0, 0, 1, 0, 0, 0]);
        bytes.extend(state.to_ne_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn entries_are_counted_by_family_and_state() {
        let bytes = [entry(2, 0x02), entry(2, 0x20), entry(10, 0x04), entry(7, 0x80), entry(2, 0)].concat();
        let mut counts = [States::default(); 2];
        count_states(&mut counts, &bytes).unwrap();
        let [v4, v6] = counts;
        assert_eq!(v4, [0, 1, 0, 0, 0, 1, 0, 0]);
        assert_eq!(v6, [0, 0, 1, 0, 0, 0, 0, 0]);
        assert!(count_states(&mut counts, &bytes[..20]).is_err());
    }
}
