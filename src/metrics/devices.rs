//! Network devices: counters by cause, settings, queueing disciplines, rings,
//! channels and steering.

use std::fmt;

use super::writer::{Label, Metric, Writer, counter, gauge, info};
use crate::model::Snapshot;
use crate::model::devices::QdiscGroup;
use crate::read::links::{Field, Link};
use crate::read::nic;
use crate::read::qdiscs::{Place, Qdisc};
use crate::read::steering::Steering;

const DEVICE: &[&str] = &["device"];

const COUNTERS: &[(Metric, Field)] = &[
    (
        counter(
            "nettune_netdev_received_packets_total",
            DEVICE,
            "Packets received (rx_packets).",
        ),
        Field::ReceivedPackets,
    ),
    (
        counter(
            "nettune_netdev_transmitted_packets_total",
            DEVICE,
            "Packets transmitted (tx_packets).",
        ),
        Field::TransmittedPackets,
    ),
    (
        counter(
            "nettune_netdev_received_bytes_total",
            DEVICE,
            "Bytes received (rx_bytes).",
        ),
        Field::ReceivedBytes,
    ),
    (
        counter(
            "nettune_netdev_transmitted_bytes_total",
            DEVICE,
            "Bytes transmitted (tx_bytes).",
        ),
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
            "Packets the host dropped in software: unknown protocols and VLANs, full backlogs, drivers' own (rx_dropped); no ring overruns, and no proof of a short queue.",
        ),
        Field::ReceivedDropped,
    ),
    (
        counter(
            "nettune_netdev_transmitted_dropped_total",
            DEVICE,
            "Packets dropped on their way out (tx_dropped).",
        ),
        Field::TransmittedDropped,
    ),
    (
        counter(
            "nettune_netdev_received_missed_total",
            DEVICE,
            "Packets the device lost for want of a receive buffer: ring overruns (rx_missed_errors).",
        ),
        Field::ReceivedMissed,
    ),
    (
        counter(
            "nettune_netdev_received_fifo_total",
            DEVICE,
            "Overruns of the device's own memory (rx_fifo_errors).",
        ),
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
        counter(
            "nettune_netdev_received_multicast_total",
            DEVICE,
            "Multicast packets (multicast).",
        ),
        Field::Multicast,
    ),
    (
        counter(
            "nettune_netdev_collisions_total",
            DEVICE,
            "Collisions while transmitting (collisions).",
        ),
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
const UP: Metric = gauge(
    "nettune_netdev_up",
    DEVICE,
    "1 when the device is administratively up (IFF_UP).",
);
const CARRIER: Metric = gauge(
    "nettune_netdev_carrier",
    DEVICE,
    "1 when there is a carrier (IFLA_CARRIER).",
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
const LEFT_OUT: Metric = gauge(
    "nettune_netdev_left_out",
    &[],
    "Devices of this namespace that the device filter leaves out.",
);
const ADDRESSES: Metric = gauge(
    "nettune_netdev_addresses",
    &["device", "family"],
    "Addresses of the device (RTM_NEWADDR).",
);
const ROUTES: Metric = gauge(
    "nettune_netdev_routes",
    &["device", "family"],
    "Unicast routes that leave by the device, of every table (RTM_NEWROUTE).",
);

const QDISC: &[&str] = &["device", "kind", "place"];
const QDISC_INSTANCES: Metric = gauge(
    "nettune_qdisc_instances",
    QDISC,
    "Queueing disciplines of this kind at this place of the device: root, leaf (one a queue below mq) or ingress.",
);
const QDISC_SUMS: &[(Metric, fn(&Qdisc) -> u64)] = &[
    (
        counter(
            "nettune_qdisc_sent_bytes_total",
            QDISC,
            "Bytes sent; a root shows the sum of its leaves (tc -s).",
        ),
        |sum| sum.bytes,
    ),
    (
        counter(
            "nettune_qdisc_sent_packets_total",
            QDISC,
            "Packets sent; a root shows the sum of its leaves (tc -s).",
        ),
        |sum| sum.packets,
    ),
    (
        counter(
            "nettune_qdisc_drops_total",
            QDISC,
            "Packets dropped by this host on their way out (tc -s, dropped).",
        ),
        |sum| sum.drops,
    ),
    (
        counter(
            "nettune_qdisc_overlimits_total",
            QDISC,
            "Times a rate or length limit was met (tc -s, overlimits).",
        ),
        |sum| sum.overlimits,
    ),
    (
        counter(
            "nettune_qdisc_requeues_total",
            QDISC,
            "Packets the driver gave back (tc -s, requeues).",
        ),
        |sum| sum.requeues,
    ),
];
const QDISC_BACKLOG_BYTES: Metric = gauge(
    "nettune_qdisc_backlog_bytes",
    QDISC,
    "Bytes queued now (tc -s, backlog).",
);
const QDISC_BACKLOG_PACKETS: Metric = gauge(
    "nettune_qdisc_backlog_packets",
    QDISC,
    "Packets queued now (tc -s, backlog).",
);

const RING: Metric = gauge(
    "nettune_nic_ring_descriptors",
    &["device", "kind"],
    "Descriptors of the ring now (ethtool -g, current).",
);
const RING_LIMIT: Metric = gauge(
    "nettune_nic_ring_descriptors_limit",
    &["device", "kind"],
    "Most descriptors the ring can have (ethtool -g, maximum).",
);
const CHANNELS: Metric = gauge(
    "nettune_nic_channels_current",
    &["device", "kind"],
    "Channels in use (ethtool -l, current).",
);
const CHANNELS_LIMIT: Metric = gauge(
    "nettune_nic_channels_limit",
    &["device", "kind"],
    "Most channels the device can have (ethtool -l, maximum).",
);
const DRIVER_LOSSES: Metric = counter(
    "nettune_nic_driver_losses_total",
    &["device", "cause", "counter"],
    "What the driver itself counts of packets lost for want of room (ethtool -S, under the name in counter).",
);
const RPS_CPUS: Metric = gauge(
    "nettune_nic_rps_cpus",
    &["device", "queue"],
    "CPUs that may process packets of the receive queue, 0 is off (sysfs, rps_cpus).",
);
const RPS_FLOWS: Metric = gauge(
    "nettune_nic_rps_flow_entries",
    &["device", "queue"],
    "Entries of the receive queue's flow table, 0 is off (sysfs, rps_flow_cnt).",
);
const XPS_CPUS: Metric = gauge(
    "nettune_nic_xps_cpus",
    &["device", "queue"],
    "CPUs that prefer the transmit queue, 0 is none (sysfs, xps_cpus).",
);

pub(super) const METRICS: &[&Metric] = &[
    &COUNTERS[0].0,
    &COUNTERS[1].0,
    &COUNTERS[2].0,
    &COUNTERS[3].0,
    &COUNTERS[4].0,
    &COUNTERS[5].0,
    &COUNTERS[6].0,
    &COUNTERS[7].0,
    &COUNTERS[8].0,
    &COUNTERS[9].0,
    &COUNTERS[10].0,
    &COUNTERS[11].0,
    &COUNTERS[12].0,
    &COUNTERS[13].0,
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
    &QDISC_INSTANCES,
    &QDISC_SUMS[0].0,
    &QDISC_SUMS[1].0,
    &QDISC_SUMS[2].0,
    &QDISC_SUMS[3].0,
    &QDISC_SUMS[4].0,
    &QDISC_BACKLOG_BYTES,
    &QDISC_BACKLOG_PACKETS,
    &RING,
    &RING_LIMIT,
    &CHANNELS,
    &CHANNELS_LIMIT,
    &DRIVER_LOSSES,
    &RPS_CPUS,
    &RPS_FLOWS,
    &XPS_CPUS,
];

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
    write_qdiscs(out, snapshot.qdiscs.as_deref().unwrap_or_default())?;
    write_nic(out, snapshot)
}

fn write_links(out: &mut Writer<'_>, links: &[Link]) -> fmt::Result {
    let counter = |link: &Link, field| {
        link.statistics
            .as_ref()
            .and_then(|statistics| statistics.get(field))
    };
    for (metric, field) in COUNTERS {
        let samples = links
            .iter()
            .filter_map(|link| Some(([(&link.name).into()], counter(link, *field)?)));
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
    for (metric, causes) in [
        (&RECEIVE_CAUSES, &received[..]),
        (&TRANSMIT_CAUSES, &transmitted[..]),
    ] {
        let samples = links.iter().flat_map(|link| {
            causes.iter().filter_map(move |(cause, field)| {
                Some(([Label::from(&link.name), (*cause).into()], counter(link, *field)?))
            })
        });
        out.family(metric, samples)?;
    }
    out.family(
        &INFO,
        links
            .iter()
            .map(|link| ([Label::from(&link.name), kind(link).into()], 1u64)),
    )?;
    out.family(&UP, links.iter().map(|link| ([(&link.name).into()], link.up)))?;
    out.family(
        &CARRIER,
        links
            .iter()
            .filter_map(|link| Some(([(&link.name).into()], link.carrier?))),
    )?;
    let settings: [(&Metric, fn(&Link) -> Option<u32>); 3] = [
        (&CARRIER_CHANGES, |link| link.carrier_changes),
        (&MTU, |link| link.mtu),
        (&QUEUE_LENGTH, |link| link.transmit_queue_length),
    ];
    for (metric, setting) in settings {
        out.family(
            metric,
            links
                .iter()
                .filter_map(|link| Some(([(&link.name).into()], setting(link)?))),
        )?;
    }
    out.family(
        &SPEED,
        links
            .iter()
            .filter_map(|link| Some(([(&link.name).into()], link.speed? / 8))),
    )?;
    let queues = links.iter().flat_map(|link| {
        let directions = [
            ("receive", link.receive_queues),
            ("transmit", link.transmit_queues),
        ];
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

fn write_qdiscs(out: &mut Writer<'_>, groups: &[QdiscGroup]) -> fmt::Result {
    fn labels(group: &QdiscGroup) -> [Label<'_>; 3] {
        let place = match group.place {
            Place::Root => "root",
            Place::Leaf => "leaf",
            Place::Ingress => "ingress",
        };
        [(&group.device).into(), (&group.kind).into(), place.into()]
    }
    out.family(
        &QDISC_INSTANCES,
        groups.iter().map(|group| (labels(group), group.count)),
    )?;
    for (metric, sum) in QDISC_SUMS {
        out.family(
            metric,
            groups.iter().map(|group| (labels(group), sum(&group.sum))),
        )?;
    }
    out.family(
        &QDISC_BACKLOG_BYTES,
        groups
            .iter()
            .map(|group| (labels(group), group.sum.backlog_bytes)),
    )?;
    out.family(
        &QDISC_BACKLOG_PACKETS,
        groups
            .iter()
            .map(|group| (labels(group), group.sum.backlog_packets)),
    )
}

fn write_nic(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    if let Some(nic) = &snapshot.nic {
        write_settings(out, &nic.rings, &RING, &RING_LIMIT)?;
        write_settings(out, &nic.channels, &CHANNELS, &CHANNELS_LIMIT)?;
        let losses = nic.driver_counters.iter().flat_map(|(device, counters)| {
            counters.iter().map(move |counter| {
                let labels = [
                    Label::from(device),
                    counter.cause.name().into(),
                    counter.name.into(),
                ];
                (labels, counter.value)
            })
        });
        out.family(&DRIVER_LOSSES, losses)?;
    }
    let steering: [(&Metric, fn(Steering) -> Option<u64>); 3] = [
        (&RPS_CPUS, |steering| match steering {
            Steering::Receive { cpus, .. } => Some(cpus.into()),
            Steering::Transmit { .. } => None,
        }),
        (&RPS_FLOWS, |steering| match steering {
            Steering::Receive { flows, .. } => Some(flows),
            Steering::Transmit { .. } => None,
        }),
        (&XPS_CPUS, |steering| match steering {
            Steering::Receive { .. } => None,
            Steering::Transmit { cpus } => cpus.map(u64::from),
        }),
    ];
    let devices = snapshot.steering.as_deref().unwrap_or_default();
    for (metric, value) in steering {
        let samples = devices.iter().flat_map(|(device, queues)| {
            queues.iter().filter_map(move |queue| {
                Some((
                    [Label::from(device), (&queue.name).into()],
                    value(queue.steering)?,
                ))
            })
        });
        out.family(metric, samples)?;
    }
    Ok(())
}

fn write_settings(out: &mut Writer<'_>, all: &[nic::Settings], now: &Metric, limit: &Metric) -> fmt::Result {
    let figures: [(&Metric, fn(&nic::Setting) -> u32); 2] = [
        (now, |setting| setting.current),
        (limit, |setting| setting.maximum),
    ];
    for (metric, figure) in figures {
        let samples = all.iter().flat_map(|device| {
            device.settings.iter().map(move |setting| {
                (
                    [Label::from(&device.device), setting.kind.into()],
                    figure(setting),
                )
            })
        });
        out.family(metric, samples)?;
    }
    Ok(())
}
