//! Rings and channels over ethtool netlink (Documentation/networking/
//! ethtool-netlink.rst, 5.6 and later), and the drivers' own counters of
//! packets lost for want of room.

use ethtool::{EthtoolAttr, EthtoolChannelAttr, EthtoolHeader, EthtoolMessage, EthtoolRingAttr};
use netlink_packet_core::ParseableParametrized;
use netlink_packet_generic::GenlHeader;

use super::text::{decimal, lines};
use crate::kernel::netlink::{Message, messages};
use crate::kernel::{Kernel, Malformed, Request, Result};

/// A size or count that can be set, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// `rx`, `tx`, `rx_mini`, `rx_jumbo`, `other` or `combined`.
    pub kind: &'static str,
    /// Now.
    pub current: u32,
    /// The most the device takes.
    pub maximum: u32,
}

/// The rings or the channels of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The device's name.
    pub device: String,
    /// Kinds the device does not have are left out.
    pub settings: Vec<Setting>,
}

/// A counter of a driver that counts packets lost for want of room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverCounter {
    /// The driver's own name.
    pub name: &'static str,
    /// What ran out.
    pub cause: Cause,
    /// Events since the driver was loaded: packets lost, or for
    /// [`Cause::RingFull`] times that a queue was stopped.
    pub value: u64,
}

/// What ran out when a driver's counter moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// No receive buffer was posted when a packet came: the ring was empty.
    NoBuffer,
    /// The device's own memory was full before it reached the ring.
    Missed,
    /// The transmit ring was full.
    RingFull,
}

impl Cause {
    /// As in the `cause` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoBuffer => "no_buffer",
            Self::Missed => "missed",
            Self::RingFull => "ring_full",
        }
    }
}

/// The names that count, by driver. Only names that mean this and nothing else
/// in every driver that uses them: `rx_dropped`, `rx_drops` and `rx_discards`
/// mean different things in different drivers and are left out, and so are
/// counters by queue, whose events the device's own counters hold already.
/// Source: the drivers' string tables below drivers/net, 5.10-6.18.
pub const DRIVER_COUNTERS: &[(&str, Cause)] = &[
    // ethernet/intel/e1000, e1000e, igb
    ("rx_no_buffer_count", Cause::NoBuffer),
    ("rx_missed_errors", Cause::Missed),
    // ethernet/intel/ixgbe
    ("rx_no_dma_resources", Cause::NoBuffer),
    // ethernet/intel/i40e
    ("port.rx_discards", Cause::Missed),
    // ethernet/intel/ice
    ("rx_dropped.nic", Cause::Missed),
    // ethernet/mellanox/mlx5
    ("rx_out_of_buffer", Cause::NoBuffer),
    ("rx_discards_phy", Cause::Missed),
    ("tx_queue_stopped", Cause::RingFull),
    // ethernet/broadcom/bnxt
    ("rx_total_discard_pkts", Cause::NoBuffer),
    // ethernet/qlogic/qede
    ("no_buff_discards", Cause::NoBuffer),
    // vmxnet3, the same names once a queue
    ("pkts rx out of buf", Cause::NoBuffer),
    ("ring full", Cause::RingFull),
];

/// Parses ETHTOOL_MSG_RINGS_GET replies.
///
/// # Errors
/// A message that is cut or whose attributes do not fit.
pub fn parse_rings(bytes: &[u8]) -> std::result::Result<Vec<Settings>, Malformed> {
    use EthtoolRingAttr as Ring;
    parse(bytes, |settings, attribute| match attribute {
        EthtoolAttr::Ring(Ring::Header(header)) => settings.device = device(header),
        EthtoolAttr::Ring(Ring::RxMax(value)) => settings.maximum("rx", *value),
        EthtoolAttr::Ring(Ring::Rx(value)) => settings.current("rx", *value),
        EthtoolAttr::Ring(Ring::RxMiniMax(value)) => settings.maximum("rx_mini", *value),
        EthtoolAttr::Ring(Ring::RxMini(value)) => settings.current("rx_mini", *value),
        EthtoolAttr::Ring(Ring::RxJumboMax(value)) => settings.maximum("rx_jumbo", *value),
        EthtoolAttr::Ring(Ring::RxJumbo(value)) => settings.current("rx_jumbo", *value),
        EthtoolAttr::Ring(Ring::TxMax(value)) => settings.maximum("tx", *value),
        EthtoolAttr::Ring(Ring::Tx(value)) => settings.current("tx", *value),
        _ => {}
    })
}

/// Parses ETHTOOL_MSG_CHANNELS_GET replies.
///
/// # Errors
/// A message that is cut or whose attributes do not fit.
pub fn parse_channels(bytes: &[u8]) -> std::result::Result<Vec<Settings>, Malformed> {
    use EthtoolChannelAttr as Channel;
    parse(bytes, |settings, attribute| match attribute {
        EthtoolAttr::Channel(Channel::Header(header)) => settings.device = device(header),
        EthtoolAttr::Channel(Channel::RxMax(value)) => settings.maximum("rx", *value),
        EthtoolAttr::Channel(Channel::RxCount(value)) => settings.current("rx", *value),
        EthtoolAttr::Channel(Channel::TxMax(value)) => settings.maximum("tx", *value),
        EthtoolAttr::Channel(Channel::TxCount(value)) => settings.current("tx", *value),
        EthtoolAttr::Channel(Channel::OtherMax(value)) => settings.maximum("other", *value),
        EthtoolAttr::Channel(Channel::OtherCount(value)) => settings.current("other", *value),
        EthtoolAttr::Channel(Channel::CombinedMax(value)) => settings.maximum("combined", *value),
        EthtoolAttr::Channel(Channel::CombinedCount(value)) => settings.current("combined", *value),
        _ => {}
    })
}

fn parse(
    bytes: &[u8],
    set: impl Fn(&mut Settings, &EthtoolAttr),
) -> std::result::Result<Vec<Settings>, Malformed> {
    let mut all = Vec::new();
    for (index, message) in messages(bytes).enumerate() {
        let message = message?;
        // The crate refuses a message for a name that is no UTF-8. Such a device
        // has no rings worth losing those of all others for.
        if !named_in_utf8(message) {
            continue;
        }
        let bad = |found: &[u8]| Malformed::new(index + 1, "ethtool attributes", "rings or channels", found);
        let reply = decode(message).ok_or_else(|| bad(message.payload))?;
        let mut settings = Settings::default();
        reply.nlas.iter().for_each(|attribute| set(&mut settings, attribute));
        settings.settings.retain(|setting| setting.maximum > 0);
        if settings.device.is_empty() {
            return Err(Malformed::new(
                index + 1,
                "ETHTOOL_A_HEADER_DEV_NAME",
                "the name of the device",
                b"",
            ));
        }
        all.push(settings);
    }
    Ok(all)
}

fn named_in_utf8(message: Message<'_>) -> bool {
    // ETHTOOL_A_*_HEADER and ETHTOOL_A_HEADER_DEV_NAME; struct genlmsghdr is 4 bytes.
    let header = message.attributes(4).find(|attribute| attribute.kind == 1);
    let name = header.and_then(|header| header.nested().find(|attribute| attribute.kind == 2));
    name.is_none_or(|name| std::str::from_utf8(name.value).is_ok())
}

fn decode(message: Message<'_>) -> Option<EthtoolMessage> {
    // struct genlmsghdr { u8 cmd, version; u16 reserved; }
    let [cmd, version, _, _, attributes @ ..] = message.payload else {
        return None;
    };
    let header = GenlHeader { cmd: *cmd, version: *version };
    EthtoolMessage::parse_with_param(attributes, header).ok()
}

fn device(header: &[EthtoolHeader]) -> String {
    let name = header.iter().find_map(|attribute| match attribute {
        EthtoolHeader::DevName(name) => Some(name.clone()),
        _ => None,
    });
    name.unwrap_or_default()
}

impl Settings {
    fn maximum(&mut self, kind: &'static str, value: u32) {
        self.entry(kind).maximum = value;
    }

    fn current(&mut self, kind: &'static str, value: u32) {
        self.entry(kind).current = value;
    }

    fn entry(&mut self, kind: &'static str) -> &mut Setting {
        let position = match self.settings.iter().position(|setting| setting.kind == kind) {
            Some(position) => position,
            None => {
                self.settings.push(Setting { kind, current: 0, maximum: 0 });
                self.settings.len() - 1
            }
        };
        &mut self.settings[position]
    }
}

/// Parses what `ethtool -S` prints, and keeps the counters of
/// [`DRIVER_COUNTERS`]; a name that comes once a queue is summed. Title lines
/// and texts that are no numbers are passed over.
pub fn parse_driver_counters(bytes: &[u8]) -> Vec<DriverCounter> {
    let mut counters: Vec<DriverCounter> = Vec::new();
    for (_, line) in lines(bytes) {
        let line = String::from_utf8_lossy(line);
        let Some((name, value)) = line.rsplit_once(':') else {
            continue;
        };
        let known = DRIVER_COUNTERS.iter().find(|(known, _)| *known == name.trim());
        let (Some((name, cause)), Some(value)) = (known, decimal(value.trim().as_bytes())) else {
            continue;
        };
        match counters.iter_mut().find(|counter| counter.name == *name) {
            Some(counter) => counter.value = counter.value.wrapping_add(value),
            None => counters.push(DriverCounter { name, cause: *cause, value }),
        }
    }
    counters
}

/// Rings of every device that has them.
pub fn read_rings(kernel: &mut Kernel) -> Result<Vec<Settings>> {
    read_settings(kernel, Request::Rings, parse_rings)
}

/// Channels of every device that has them.
pub fn read_channels(kernel: &mut Kernel) -> Result<Vec<Settings>> {
    read_settings(kernel, Request::Channels, parse_channels)
}

/// Sorted by device; one that a changing dump names twice is kept once.
fn read_settings(
    kernel: &mut Kernel,
    request: Request,
    parse: fn(&[u8]) -> std::result::Result<Vec<Settings>, Malformed>,
) -> Result<Vec<Settings>> {
    let mut all: Vec<Settings> = kernel.ask(request, |all: &mut Vec<Settings>, bytes| {
        all.extend(parse(bytes)?);
        Ok(())
    })?;
    all.sort_by(|a, b| a.device.cmp(&b.device));
    all.dedup_by(|a, b| a.device == b.device);
    Ok(all)
}

/// The driver's counters of lost packets; none where it has no such counter.
pub fn read_driver_counters(kernel: &mut Kernel, device: &str) -> Result<Vec<DriverCounter>> {
    match kernel.driver_statistics(device) {
        Ok(bytes) => Ok(parse_driver_counters(bytes)),
        Err(error) if error.is_absent() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_counters_are_kept() {
        let text =
            b"NIC statistics:\n     rx_packets: 5\n     rx_missed_errors: 7\n     rx_queue_0_drops: 1\n";
        let counters = parse_driver_counters(text);
        let expected = DriverCounter { name: "rx_missed_errors", cause: Cause::Missed, value: 7 };
        assert_eq!(counters, [expected]);
        assert_eq!(parse_driver_counters(b"rx_out_of_buffer: many\n\xff\xff: 1\n"), []);
        let queues = parse_driver_counters(b"Tx Queue#: 0\n  ring full: 3\nTx Queue#: 1\n  ring full: 4\n");
        assert_eq!(queues, [DriverCounter { name: "ring full", cause: Cause::RingFull, value: 7 }]);
    }

    #[test]
    fn the_list_names_each_counter_once() {
        for (index, (name, _)) in DRIVER_COUNTERS.iter().enumerate() {
            assert!(DRIVER_COUNTERS[..index].iter().all(|(other, _)| other != name), "{name}");
        }
    }
}
