//! Network devices: counters by cause, settings, addresses and routes.

use std::fmt;

use super::writer::{Figure, Label, Metric, Writer, counter, gauge, info};
use crate::model::Snapshot;
use crate::read::links::{Field, Link};

const DEVICE: &[&str] = &["device"];

const COUNTERS: &[(Metric, Field)] = &[
    (
        counter("nettune_netdev_received_packets_total", DEVICE, "Packets received (rx_packets).").everywhere(),
        Field::ReceivedPackets,
    ),
    (
        counter("nettune_netdev_transmitted_packets_total", DEVICE, "Packets transmitted (tx_packets)."),
        Field::TransmittedPackets,
    ),
    (
        counter("nettune_netdev_received_bytes_total", DEVICE, "Bytes received (rx_bytes).").everywhere(),
        Field::ReceivedBytes,
    ),
    (
        counter("nettune_netdev_transmitted_bytes_total", DEVICE, "Bytes transmitted (tx_bytes).").everywhere(),
        Field::TransmittedBytes,
    ),
    (
        counter(
            "nettune_netdev_received_errors_total",
            DEVICE,
            "Bad packets received, of every kind (rx_errors).",
        ),
        Field::ReceivedErrors,
    ),
    (
        counter(
            "nettune_netdev_transmitted_errors_total",
            DEVICE,
            "Packets not transmitted, of every kind (tx_errors).",
        ),
        Field::TransmittedErrors,
    ),
    (
        counter(
            "nettune_netdev_received_dropped_total",
            DEVICE,
            "Packets dropped after reception: unknown protocols and VLANs, full backlogs, and whatever the driver adds; no proof of a short queue (rx_dropped).",
        ).everywhere(),
        Field::ReceivedDropped,
    ),
    (
        counter(
            "nettune_netdev_transmitted_dropped_total",
            DEVICE,
            "Packets the device or its driver dropped on their way out; not those of queueing disciplines (tx_dropped).",
        ).everywhere(),
        Field::TransmittedDropped,
    ),
    (
        counter(
            "nettune_netdev_received_missed_total",
            DEVICE,
            "Packets the device lost for want of a receive buffer: ring overruns (rx_missed_errors).",
        ).everywhere(),
        Field::ReceivedMissed,
    ),
    (
        counter(
            "nettune_netdev_received_fifo_total",
            DEVICE,
            "Overruns of the device's own memory (rx_fifo_errors).",
        ).everywhere(),
        Field::ReceivedFifo,
    ),
    (
        counter(
            "nettune_netdev_received_no_handler_total",
            DEVICE,
            "Packets on an inactive device, such as a spare of a bond (rx_nohandler).",
        ),
        Field::ReceivedNoHandler,
    ),
    (
        counter(
            "nettune_netdev_received_other_host_total",
            DEVICE,
            "Packets for another hardware address, seen in promiscuous mode (rx_otherhost_dropped).",
        ),
        Field::ReceivedOtherHost,
    ),
    (
        counter("nettune_netdev_received_multicast_total", DEVICE, "Multicast packets (multicast)."),
        Field::Multicast,
    ),
    (
        counter("nettune_netdev_collisions_total", DEVICE, "Collisions while transmitting (collisions)."),
        Field::Collisions,
    ),
];

const RECEIVE_CAUSES: Metric = counter(
    "nettune_netdev_received_errors_by_cause_total",
    &["device", "cause"],
    "Bad packets received, by cause (rx_length_errors, rx_over_errors, rx_crc_errors, rx_frame_errors).",
);
const TRANSMIT_CAUSES: Metric = counter(
    "nettune_netdev_transmitted_errors_by_cause_total",
    &["device", "cause"],
    "Packets not transmitted, by cause (tx_aborted_errors, tx_carrier_errors, tx_fifo_errors, tx_heartbeat_errors, tx_window_errors).",
);
const INFO: Metric = info(
    "nettune_netdev_info",
    &["device", "kind"],
    "What the device is: hardware, loopback, or the kind the kernel gives virtual ones (IFLA_INFO_KIND).",
);
const UP: Metric =
    gauge("nettune_netdev_up", DEVICE, "1 when the device is administratively up (IFF_UP).").everywhere();
const CARRIER: Metric = gauge(
    "nettune_netdev_carrier",
    DEVICE,
    "1 when there is a carrier; no sample for a device that is down, where it means nothing (IFLA_CARRIER).",
);
const CARRIER_CHANGES: Metric = counter(
    "nettune_netdev_carrier_changes_total",
    DEVICE,
    "Times the carrier came or went (IFLA_CARRIER_CHANGES).",
);
const MTU: Metric = gauge("nettune_netdev_mtu_bytes", DEVICE, "Largest packet (IFLA_MTU).");
const SPEED: Metric = gauge(
    "nettune_netdev_speed_bytes",
    DEVICE,
    "Speed of the link in bytes a second; no sample where the driver does not know it (sysfs, speed).",
);
const QUEUE_LENGTH: Metric = gauge(
    "nettune_netdev_transmit_queue_length",
    DEVICE,
    "Limit of simple queueing disciplines when they are attached, packets (IFLA_TXQLEN).",
);
const QUEUES: Metric = gauge(
    "nettune_netdev_queues",
    &["device", "direction"],
    "Queues the device was made with (IFLA_NUM_RX_QUEUES, IFLA_NUM_TX_QUEUES).",
);
const LEFT_OUT: Metric =
    gauge("nettune_netdev_left_out", &[], "Devices of this namespace that the device filter leaves out.");
const ADDRESSES: Metric =
    gauge("nettune_netdev_addresses", &["device", "family"], "Addresses of the device (RTM_NEWADDR).");
const ROUTES: Metric = gauge(
    "nettune_netdev_routes",
    &["device", "family"],
    "Unicast routes that leave by the device, of every table (RTM_NEWROUTE). Of other network namespaces only where the reverse-path filter dropped something.",
)
.everywhere();

pub(super) fn metrics() -> Vec<&'static Metric> {
    let rest = [
        &RECEIVE_CAUSES,
        &TRANSMIT_CAUSES,
        &INFO,
        &UP,
        &CARRIER,
        &CARRIER_CHANGES,
        &MTU,
        &SPEED,
        &QUEUE_LENGTH,
        &QUEUES,
        &LEFT_OUT,
        &ADDRESSES,
        &ROUTES,
    ];
    COUNTERS.iter().map(|(metric, _)| metric).chain(rest).collect()
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    if let Some(links) = &snapshot.links {
        write_links(out, links)?;
        out.single(&LEFT_OUT, Some(snapshot.links_left_out))?;
    }
    for (metric, counts) in [(&ADDRESSES, &snapshot.addresses), (&ROUTES, &snapshot.routes)] {
        let counts = counts.iter().flatten();
        out.family(
            metric,
            counts.map(|count| ([(&count.device).into(), count.family.name().into()], count.count)),
        )?;
    }
    Ok(())
}

fn write_links(out: &mut Writer<'_>, links: &[Link]) -> fmt::Result {
    let counter = |link: &Link, field| link.statistics.as_ref().and_then(|statistics| statistics.get(field));
    for (metric, field) in COUNTERS {
        let samples = links.iter().filter_map(|link| Some(([(&link.name).into()], counter(link, *field)?)));
        out.family(metric, samples)?;
    }
    let received = [
        ("length", Field::ReceivedLength),
        ("over", Field::ReceivedOver),
        ("crc", Field::ReceivedCrc),
        ("frame", Field::ReceivedFrame),
    ];
    let transmitted = [
        ("aborted", Field::TransmittedAborted),
        ("carrier", Field::TransmittedCarrier),
        ("fifo", Field::TransmittedFifo),
        ("heartbeat", Field::TransmittedHeartbeat),
        ("window", Field::TransmittedWindow),
    ];
    for (metric, causes) in [(&RECEIVE_CAUSES, &received[..]), (&TRANSMIT_CAUSES, &transmitted[..])] {
        let samples = links.iter().flat_map(|link| {
            causes.iter().filter_map(move |(cause, field)| {
                Some(([Label::from(&link.name), (*cause).into()], counter(link, *field)?))
            })
        });
        out.family(metric, samples)?;
    }
    out.family(&INFO, links.iter().map(|link| ([Label::from(&link.name), kind(link).into()], 1u64)))?;
    out.family(&UP, links.iter().map(|link| ([(&link.name).into()], link.up)))?;
    out.family(
        &CARRIER,
        links.iter().filter_map(|link| Some(([(&link.name).into()], link.carrier.filter(|_| link.up)?))),
    )?;
    let settings: [Figure<Link, Option<u32>>; 3] = [
        (&CARRIER_CHANGES, |link| link.carrier_changes),
        (&MTU, |link| link.mtu),
        (&QUEUE_LENGTH, |link| link.transmit_queue_length),
    ];
    for (metric, setting) in settings {
        out.family(metric, links.iter().filter_map(|link| Some(([(&link.name).into()], setting(link)?))))?;
    }
    out.family(&SPEED, links.iter().filter_map(|link| Some(([(&link.name).into()], link.speed? / 8))))?;
    let queues = links.iter().flat_map(|link| {
        let directions = [("receive", link.receive_queues), ("transmit", link.transmit_queues)];
        directions
            .into_iter()
            .filter_map(|(direction, count)| Some(([Label::from(&link.name), direction.into()], count?)))
    });
    out.family(&QUEUES, queues)
}

fn kind(link: &Link) -> &str {
    match (&link.kind, link.loopback) {
        (Some(kind), _) => kind,
        (None, true) => "loopback",
        (None, false) => "hardware",
    }
}
