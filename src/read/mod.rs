//! One file a kernel source: a pure `parse(&[u8])` into plain structs, and a
//! thin reader that fetches the bytes. Unknown names are kept or passed over,
//! missing ones stay empty; what is there must be well-formed.

pub mod addresses;
pub mod cgroups;
pub mod closes;
pub mod connections;
pub mod conntrack;
pub mod counters;
pub mod cpu;
pub mod host;
pub mod interrupts;
pub mod links;
pub mod listeners;
pub mod modules;
pub mod mounts;
pub mod namespaces;
pub mod neighbours;
pub mod nic;
pub mod owners;
pub mod persisted;
pub mod place;
pub mod ports;
pub mod process;
pub mod processes;
pub mod qdiscs;
pub mod sockstat;
pub mod softirqs;
pub mod softnet;
pub mod statistics;
pub mod steering;
pub mod sysctl;
pub mod tcp_limits;
mod text;
pub mod tracked;
pub mod udp;

/// Address family of a counter or an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// As in the `family` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    /// From `AF_INET` and `AF_INET6` as they stand in netlink messages.
    fn from_address_family(value: u8) -> Option<Self> {
        match i32::from(value) {
            libc::AF_INET => Some(Self::V4),
            libc::AF_INET6 => Some(Self::V6),
            _ => None,
        }
    }
}

/// Adds to a sum of counters of 32 bits, in 32 bits. Where one of them starts
/// anew the sum then goes on; where the sum does, that is what any counter does.
/// In more bits a sum would fall by 2^32 whenever one part starts anew, and a
/// rate would take the whole rest for new events.
pub fn add_32(sum: u64, value: u64) -> u64 {
    sum.wrapping_add(value) & u64::from(u32::MAX)
}
