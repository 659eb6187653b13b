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

/// Parses RTM_NEWADDR messages.
///
/// # Errors
/// A message that is cut.
pub fn parse_addresses(bytes: &[u8]) -> std::result::Result<Counts, Malformed> {
    let mut counts = Counts::new();
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
    Ok(counts)
}

/// Parses RTM_NEWROUTE messages: unicast routes of every table, counted once
/// for each device they leave by.
///
/// # Errors
/// A message that is cut.
pub fn parse_routes(bytes: &[u8]) -> std::result::Result<Counts, Malformed> {
    let mut counts = Counts::new();
    for (index, message) in messages(bytes).enumerate() {
        let message = message?;
        // struct rtmsg { u8 family, dst_len, src_len, tos, table, protocol, scope, type; u32 flags; }
        let [family, _, _, _, _, _, _, kind, ..] = message.payload else {
            return Err(Malformed::new(index + 1, "struct rtmsg", "12 bytes", message.payload));
        };
        let Some(family) = Family::from_address_family(*family).filter(|_| *kind == RTN_UNICAST) else {
            continue;
        };
        for attribute in message.attributes(RTMSG) {
            match attribute.kind {
                RTA_OIF => {
                    if let Some(device) = u32_at(attribute.value, 0) {
                        *counts.entry((device, family)).or_default() += 1;
                    }
                }
                RTA_MULTIPATH => {
                    for device in next_hops(attribute.value) {
                        *counts.entry((device, family)).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(counts)
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
    kernel.ask(Request::Addresses, parse_addresses)
}

/// Unicast routes by device index and family.
pub fn read_routes(kernel: &mut Kernel) -> Result<Counts> {
    kernel.ask(Request::Routes, parse_routes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_end_where_the_bytes_do() {
        let hop =
            |device: u32| [8u16.to_ne_bytes().to_vec(), vec![0, 0], device.to_ne_bytes().to_vec()].concat();
        assert_eq!(next_hops(&[hop(3), hop(4)].concat()).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(next_hops(&hop(3)[..6]).count(), 0);
        assert_eq!(next_hops(&[0; 64]).count(), 0);
    }
}
