//! Network devices over rtnetlink: RTM_NEWLINK with `struct rtnl_link_stats64`
//! (include/uapi/linux/if_link.h, 5.10-6.18), plus what only sysfs has.

use super::text::{decimal, hexadecimal, signed};
use crate::kernel::netlink::{Attribute, messages, u32_at, u64_at};
use crate::kernel::{Kernel, Malformed, Request, Result, Root};

/// One network device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Index, unique in its namespace.
    pub index: u32,
    /// Name, as of this moment.
    pub name: String,
    /// Hardware address; empty where it has none.
    pub address: Vec<u8>,
    /// Hardware type: loopback or not.
    pub loopback: bool,
    /// Administratively up (`IFF_UP`).
    pub up: bool,
    /// `IFLA_OPERSTATE`, RFC 2863: 6 is up, 0 unknown.
    pub operational_state: Option<u8>,
    /// `IFLA_CARRIER`
    pub carrier: Option<bool>,
    /// Times the carrier came or went (`IFLA_CARRIER_CHANGES`, 3.15).
    pub carrier_changes: Option<u32>,
    /// Bytes.
    pub mtu: Option<u32>,
    /// Packets.
    pub transmit_queue_length: Option<u32>,
    /// Receive queues it was made with (`IFLA_NUM_RX_QUEUES`).
    pub receive_queues: Option<u32>,
    /// Transmit queues it was made with (`IFLA_NUM_TX_QUEUES`).
    pub transmit_queues: Option<u32>,
    /// `IFLA_INFO_KIND`: veth, bridge, bond, …; `None` for loopback and most
    /// hardware (CAN and InfiniBand interfaces have one).
    pub kind: Option<String>,
    /// Bits a second; `None` where the driver does not know.
    pub speed: Option<u64>,
    /// Counters.
    pub statistics: Option<Statistics>,
}

/// What tells a device from one of the same name in another namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Index.
    pub index: u32,
    /// Hardware address; empty where it has none.
    pub address: Vec<u8>,
}

impl Link {
    /// What tells it from one of the same name in another namespace.
    pub fn identity(&self) -> Identity {
        Identity { index: self.index, address: self.address.clone() }
    }
}

/// `struct rtnl_link_stats64`, in its order. Fields that an older kernel does
/// not send are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics(Vec<u64>);

/// A field of `struct rtnl_link_stats64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// rx_packets
    ReceivedPackets = 0,
    /// tx_packets
    TransmittedPackets,
    /// rx_bytes
    ReceivedBytes,
    /// tx_bytes
    TransmittedBytes,
    /// rx_errors
    ReceivedErrors,
    /// tx_errors
    TransmittedErrors,
    /// rx_dropped
    ReceivedDropped,
    /// tx_dropped
    TransmittedDropped,
    /// multicast
    Multicast,
    /// collisions
    Collisions,
    /// rx_length_errors
    ReceivedLength,
    /// rx_over_errors
    ReceivedOver,
    /// rx_crc_errors
    ReceivedCrc,
    /// rx_frame_errors
    ReceivedFrame,
    /// rx_fifo_errors
    ReceivedFifo,
    /// rx_missed_errors
    ReceivedMissed,
    /// tx_aborted_errors
    TransmittedAborted,
    /// tx_carrier_errors
    TransmittedCarrier,
    /// tx_fifo_errors
    TransmittedFifo,
    /// tx_heartbeat_errors
    TransmittedHeartbeat,
    /// tx_window_errors
    TransmittedWindow,
    /// rx_compressed
    ReceivedCompressed,
    /// tx_compressed
    TransmittedCompressed,
    /// rx_nohandler (4.6)
    ReceivedNoHandler,
    /// rx_otherhost_dropped (5.19)
    ReceivedOtherHost,
}

impl Statistics {
    /// The counter, if this kernel sends it.
    pub fn get(&self, field: Field) -> Option<u64> {
        self.0.get(field as usize).copied()
    }
}

const IFINFOMSG: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_STATS64: u16 = 23;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;
const ARPHRD_LOOPBACK: u16 = 772;
const IFF_UP: u32 = 1;

/// Parses RTM_NEWLINK messages.
///
/// # Errors
/// A message that is cut, or a device without a name.
pub fn parse(bytes: &[u8]) -> std::result::Result<Vec<Link>, Malformed> {
    let mut links = Vec::new();
    for (index, message) in messages(bytes).enumerate() {
        let message = message?;
        let payload = message.payload;
        let (Some(hardware), Some(number), Some(flags)) =
            (crate::kernel::netlink::u16_at(payload, 2), u32_at(payload, 4), u32_at(payload, 8))
        else {
            return Err(Malformed::new(index + 1, "struct ifinfomsg", "16 bytes", payload));
        };
        let mut link = Link {
            index: number,
            loopback: hardware == ARPHRD_LOOPBACK,
            up: flags & IFF_UP != 0,
            ..Link::default()
        };
        for attribute in message.attributes(IFINFOMSG) {
            set(&mut link, attribute);
        }
        if link.name.is_empty() {
            return Err(Malformed::new(index + 1, "IFLA_IFNAME", "the name of the device", b""));
        }
        links.push(link);
    }
    Ok(links)
}

fn set(link: &mut Link, attribute: Attribute<'_>) {
    let integer = || u32_at(attribute.value, 0);
    let byte = || attribute.value.first().copied();
    match attribute.kind {
        IFLA_ADDRESS => link.address = attribute.value.to_vec(),
        IFLA_IFNAME => link.name = attribute.string(),
        IFLA_MTU => link.mtu = integer(),
        IFLA_TXQLEN => link.transmit_queue_length = integer(),
        IFLA_OPERSTATE => link.operational_state = byte(),
        IFLA_CARRIER => link.carrier = byte().map(|value| value != 0),
        IFLA_CARRIER_CHANGES => link.carrier_changes = integer(),
        IFLA_NUM_TX_QUEUES => link.transmit_queues = integer(),
        IFLA_NUM_RX_QUEUES => link.receive_queues = integer(),
        IFLA_LINKINFO => {
            let kind = attribute.nested().find(|nested| nested.kind == IFLA_INFO_KIND);
            link.kind = kind.map(|kind| kind.string());
        }
        IFLA_STATS64 => {
            let fields =
                (0..attribute.value.len() / 8).filter_map(|field| u64_at(attribute.value, 8 * field));
            link.statistics = Some(Statistics(fields.collect()));
        }
        _ => {}
    }
}

/// Every device that sysfs shows: a second way, for sources that know devices
/// by index only.
pub fn read_identities(kernel: &mut Kernel) -> Result<Vec<(String, Identity)>> {
    let names = kernel.roots().list(Root::Sys, "class/net")?;
    // bonding_masters is listed and is no device.
    let known = names.into_iter().filter_map(|name| Some((read_identity(kernel, &name)?, name)));
    Ok(known.map(|(identity, name)| (name, identity)).collect())
}

/// Whether sysfs shows this very device under its name, not one of another
/// network namespace.
pub fn is_in_sysfs(kernel: &mut Kernel, name: &str, known: &Identity) -> bool {
    read_identity(kernel, name).is_some_and(|shown| shown == *known)
}

fn read_identity(kernel: &mut Kernel, name: &str) -> Option<Identity> {
    let index = kernel.read(Root::Sys, format_args!("class/net/{name}/ifindex")).ok()?;
    let index = u32::try_from(decimal(index.trim_ascii())?).ok()?;
    let address = kernel.read(Root::Sys, format_args!("class/net/{name}/address")).ok()?;
    Some(Identity { index, address: parse_address(address) })
}

/// Bytes of `00:00:5e:00:53:01`; none of what is no such address.
pub fn parse_address(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.trim_ascii();
    let parts = text
        .split(|byte| *byte == b':')
        .map(|part| hexadecimal(part).and_then(|byte| u8::try_from(byte).ok()));
    parts.collect::<Option<_>>().unwrap_or_default()
}

/// All devices of the namespace, without speeds, sorted by name; a device that
/// a changing dump names twice is kept once.
pub fn read(kernel: &mut Kernel) -> Result<Vec<Link>> {
    let mut links: Vec<Link> = kernel.ask(Request::Links, |all: &mut Vec<Link>, bytes| {
        all.extend(parse(bytes)?);
        Ok(())
    })?;
    if links.is_empty() {
        let bad = Malformed::new(1, "devices", "the loopback device at least", b"nothing");
        return Err(bad.at("netlink links"));
    }
    links.sort_by(|a, b| a.name.cmp(&b.name));
    links.dedup_by(|a, b| a.name == b.name);
    Ok(links)
}

/// The speed of a device in bits a second. Drivers that do not know it, and
/// links that are down, answer -1, 0xffffffff (before 4.11) or EINVAL
/// (net/core/net-sysfs.c:speed_show); all of these are "unknown".
pub fn read_speed(kernel: &mut Kernel, device: &str) -> Option<u64> {
    let bytes = kernel.read(Root::Sys, format_args!("class/net/{device}/speed")).ok()?;
    parse_speed(bytes)
}

/// From Mbit/s to bits a second; `None` for "unknown".
pub fn parse_speed(bytes: &[u8]) -> Option<u64> {
    let megabits = signed(bytes.trim_ascii())?;
    (megabits > 0 && megabits < i64::from(i32::MAX)).then(|| megabits as u64 * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_speed_is_not_zero() {
        assert_eq!(parse_speed(b"10000\n"), Some(10_000_000_000));
        for unknown in [&b"-1\n"[..], b"0\n", b"4294967295\n", b"\n", b"x"] {
            assert_eq!(parse_speed(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn addresses_are_bytes() {
        assert_eq!(parse_address(b"00:00:5e:00:53:01\n"), [0, 0, 0x5e, 0, 0x53, 1]);
        assert_eq!(parse_address(b"\n"), [0; 0]);
    }

    #[test]
    fn a_short_message_is_an_error() {
        let header = [20u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4], [0; 4]].concat();
        assert_eq!(parse(&header).unwrap_err().item, "struct ifinfomsg");
        assert_eq!(parse(&header[..7]).unwrap_err().item, "netlink header");
    }
}
