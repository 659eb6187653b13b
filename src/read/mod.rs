//! One file a kernel source: a pure `parse(&[u8])` into plain structs, and a
//! thin reader that fetches the bytes. Unknown names are kept or passed over,
//! missing ones stay empty; what is there must be well-formed.

pub mod addresses;
pub mod conntrack;
pub mod counters;
pub mod cpu;
pub mod host;
pub mod interrupts;
pub mod links;
pub mod neighbours;
pub mod nic;
pub mod process;
pub mod qdiscs;
pub mod sockstat;
pub mod softirqs;
pub mod softnet;
pub mod statistics;
pub mod steering;
pub mod sysctl;
mod text;

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
