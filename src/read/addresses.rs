//! Addresses and routes over rtnetlink (include/uapi/linux/if_addr.h,
//! rtnetlink.h, 5.10-6.18): how many each device has, which tells a host with
//! one uplink from one with several.

use std::collections::BTreeMap;

use super::Family;
use crate::kernel::netlink::{messages, u32_at};
use crate::kernel::{Kernel, Malformed, Request, Result};

/// Counts by device index and family.
pub type Counts = BTreeMap<(u32, Family), u64>;

const RTMSG: usize = 12;
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTN_UNICAST: u8 = 1;
const RTM_F_CLONED: u32 = 0x200;

/// Counts RTM_NEWADDR messages.
///
/// # Errors
/// A message that is cut.
pub fn count_addresses(counts: &mut Counts, bytes: &[u8]) -> std::result::Result<(), Malformed> {
    for (index, message) in messages(bytes).enumerate() {
        let message = message?;
        // struct ifaddrmsg { u8 family, prefixlen, flags, scope; u32 index; }
        let (Some(family), Some(device)) = (message.payload.first(), u32_at(message.payload, 4)) else {
            return Err(Malformed::new(index + 1, "struct ifaddrmsg", "8 bytes", message.payload));
        };
        if let Some(family) = Family::from_address_family(*family) {
            *counts.entry((device, family)).or_default() += 1;
        }
    }
    Ok(())
}

/// Counts RTM_NEWROUTE messages: unicast routes of every table, once for each
/// device they leave by. Exceptions that the kernel made itself, such as a path
/// MTU it learned, are no routes; a dump holds them since 5.3 (`RTM_F_CLONED`).
///
/// # Errors
/// A message that is cut.
pub fn count_routes(counts: &mut Counts, bytes: &[u8]) -> std::result::Result<(), Malformed> {
    for (index, message) in messages(bytes).enumerate() {
        let message = message?;
        // struct rtmsg { u8 family, dst_len, src_len, tos, table, protocol, scope, type; u32 flags; }
        let ([family, _, _, _, _, _, _, kind, ..], Some(flags)) =
            (message.payload, u32_at(message.payload, 8))
        else {
            return Err(Malformed::new(index + 1, "struct rtmsg", "12 bytes", message.payload));
        };
        let Some(family) = Family::from_address_family(*family) else { continue };
        if *kind != RTN_UNICAST || flags & RTM_F_CLONED != 0 {
            continue;
        }
        let mut devices: Vec<u32> = Vec::new();
        for attribute in message.attributes(RTMSG) {
            match attribute.kind {
                RTA_OIF => devices.extend(u32_at(attribute.value, 0)),
                RTA_MULTIPATH => devices.extend(next_hops(attribute.value)),
                _ => {}
            }
        }
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            *counts.entry((device, family)).or_default() += 1;
        }
    }
    Ok(())
}

/// Devices of `struct rtnexthop { u16 len; u8 flags, hops; s32 ifindex; }`,
/// each followed by attributes up to its length.
fn next_hops(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let length = usize::from(crate::kernel::netlink::u16_at(bytes, 0)?);
        let device = u32_at(bytes, 4)?;
        if length < 8 {
            return None;
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(device)
    })
}

/// Addresses by device index and family.
pub fn read_addresses(kernel: &mut Kernel) -> Result<Counts> {
    kernel.ask(Request::Addresses, count_addresses)
}

/// Unicast routes by device index and family.
pub fn read_routes(kernel: &mut Kernel) -> Result<Counts> {
    kernel.ask(Request::Routes, count_routes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_that_the_kernel_learned_are_no_routes() {
        let route = |flags: u32| {
            let mut bytes = Vec::new();
            bytes.extend(36u32.to_ne_bytes());
            bytes.extend([0; 12]);
            // AF_INET, /32, table main, type unicast
            bytes.extend([2, 32, 0, 0, 254, 0, 0, 1]);
            bytes.extend(flags.to_ne_bytes());
            bytes.extend([8u16.to_ne_bytes(), RTA_OIF.to_ne_bytes()].concat());
            bytes.extend(7u32.to_ne_bytes());
            bytes
        };
        let mut counts = Counts::new();
        count_routes(&mut counts, &[route(0), route(RTM_F_CLONED), route(0)].concat()).unwrap();
        assert_eq!(counts, Counts::from([((7, Family::V4), 2)]));
    }

    #[test]
    fn next_hops_end_where_the_bytes_do() {
        let hop =
            |device: u32| [8u16.to_ne_bytes().to_vec(), vec![0, 0], device.to_ne_bytes().to_vec()].concat();
        assert_eq!(next_hops(&[hop(3), hop(4)].concat()).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(next_hops(&hop(3)[..6]).count(), 0);
        assert_eq!(next_hops(&[0; 64]).count(), 0);
    }
}
