//! Curated counters of `/proc/net/{snmp,snmp6,netstat}` under readable names.

use std::collections::BTreeMap;
use std::fmt;

use super::writer::{Label, Metric, Writer, counter, gauge};
use crate::model::Snapshot;
use crate::read::counters::Counters;

/// A family, and where each of its samples comes from: the value of its
/// `family` label (unused without one), the kernel's group and name.
struct Curated {
    metric: Metric,
    from: &'static [(&'static str, &'static str, &'static str)],
}

const RETRANSMIT_RATIO: Metric = gauge(
    "nettune_tcp_retransmit_ratio",
    &[],
    "Segments retransmitted for each segment sent over the last sampling interval (TcpRetransSegs / TcpOutSegs); no sample when nothing was sent.",
);
const MEMORY_PRESSURE_TIME: Metric = counter(
    "nettune_tcp_memory_pressure_seconds_total",
    &[],
    "Time under TCP memory pressure, counted when it ends (TcpExtTCPMemoryPressuresChrono, milliseconds made seconds).",
);
const ESTABLISHED: Metric =
    gauge("nettune_tcp_established", &[], "Connections in ESTABLISHED or CLOSE_WAIT (TcpCurrEstab).");
const NETSTAT: Metric = counter(
    "nettune_netstat_total",
    &["group", "name"],
    "Every other counter of snmp, snmp6 and netstat, under the kernel's name (--collector.netstat.all).",
);

/// Values among the counters that are settings or gauges, or that go by another
/// unit.
const NOT_COUNTERS: &[(&str, &str)] = &[
    ("Tcp", "RtoAlgorithm"),
    ("Tcp", "RtoMin"),
    ("Tcp", "RtoMax"),
    ("Tcp", "MaxConn"),
    ("Tcp", "CurrEstab"),
    ("Ip", "Forwarding"),
    ("Ip", "DefaultTTL"),
    ("MPTcpExt", "MPCurrEstab"),
    // Exported, in seconds.
    ("TcpExt", "TCPMemoryPressuresChrono"),
];

/// One counter of both families; `everywhere` as in [`Metric::everywhere`].
macro_rules! both {
    ($name:literal, $help:literal, $v4:literal $v6:literal $kernel:literal $(, $everywhere:ident)?) => {
        Curated {
            metric: counter($name, &["family"], $help)$(.$everywhere())?,
            from: &[("ipv4", $v4, $kernel), ("ipv6", $v6, $kernel)],
        }
    };
}

/// One counter without labels; `everywhere` likewise.
macro_rules! one {
    ($name:literal, $help:literal, $group:literal $kernel:literal $(, $everywhere:ident)?) => {
        Curated { metric: counter($name, &[], $help)$(.$everywhere())?, from: &[("", $group, $kernel)] }
    };
}

#[rustfmt::skip]
const CURATED: &[Curated] = &[
    // TCP of both families: the kernel counts them together.
    one!("nettune_tcp_segments_sent_total", "Segments sent, retransmitted data not counted (TcpOutSegs).", "Tcp" "OutSegs", everywhere),
    one!("nettune_tcp_segments_received_total", "Segments received, bad ones included (TcpInSegs).", "Tcp" "InSegs"),
    one!("nettune_tcp_segments_retransmitted_total", "Segments retransmitted, SYNs included (TcpRetransSegs).", "Tcp" "RetransSegs", everywhere),
    one!("nettune_tcp_original_data_sent_total", "Data segments sent for the first time (TcpExtTCPOrigDataSent).", "TcpExt" "TCPOrigDataSent", everywhere),
    one!("nettune_tcp_syn_retransmitted_total", "SYNs and SYN-ACKs retransmitted, part of the segments retransmitted (TcpExtTCPSynRetrans).", "TcpExt" "TCPSynRetrans", everywhere),
    one!("nettune_tcp_receive_errors_total", "Bad segments received (TcpInErrs).", "Tcp" "InErrs"),
    one!("nettune_tcp_checksum_errors_total", "Segments with a wrong checksum (TcpInCsumErrors).", "Tcp" "InCsumErrors"),
    one!("nettune_tcp_resets_sent_total", "Resets sent (TcpOutRsts).", "Tcp" "OutRsts"),
    one!("nettune_tcp_active_opens_total", "Connections this host began (TcpActiveOpens).", "Tcp" "ActiveOpens"),
    one!("nettune_tcp_passive_opens_total", "Connections that peers began (TcpPassiveOpens).", "Tcp" "PassiveOpens", everywhere),
    one!("nettune_tcp_failed_opens_total", "Connections that were reset or refused before they were established (TcpAttemptFails).", "Tcp" "AttemptFails"),
    one!("nettune_tcp_established_resets_total", "Connections that went from ESTABLISHED or CLOSE_WAIT to CLOSED at once, by reset or by timeout (TcpEstabResets).", "Tcp" "EstabResets", everywhere),
    // Accepting connections.
    one!("nettune_tcp_listen_overflows_total", "Attempts refused because an accept queue was full, retries counted again (TcpExtListenOverflows).", "TcpExt" "ListenOverflows", everywhere),
    one!("nettune_tcp_listen_drops_total", "Attempts refused by a listener for any reason (TcpExtListenDrops).", "TcpExt" "ListenDrops", everywhere),
    one!("nettune_tcp_syncookies_sent_total", "SYN cookies sent (TcpExtSyncookiesSent).", "TcpExt" "SyncookiesSent", everywhere),
    one!("nettune_tcp_syncookies_received_total", "Valid SYN cookies that came back (TcpExtSyncookiesRecv).", "TcpExt" "SyncookiesRecv", everywhere),
    one!("nettune_tcp_syncookies_failed_total", "Invalid SYN cookies (TcpExtSyncookiesFailed).", "TcpExt" "SyncookiesFailed", everywhere),
    one!("nettune_tcp_request_queue_full_cookies_total", "SYNs answered by a cookie: the SYN queue was full, or tcp_syncookies is 2 (TcpExtTCPReqQFullDoCookies).", "TcpExt" "TCPReqQFullDoCookies", everywhere),
    one!("nettune_tcp_request_queue_full_drops_total", "SYNs that met a full SYN queue and were dropped, cookies being off (TcpExtTCPReqQFullDrop).", "TcpExt" "TCPReqQFullDrop", everywhere),
    one!("nettune_tcp_embryonic_resets_total", "Half-open connections that were reset (TcpExtEmbryonicRsts).", "TcpExt" "EmbryonicRsts"),
    one!("nettune_tcp_deferred_accept_drops_total", "Handshakes put off until data comes (TcpExtTCPDeferAcceptDrop).", "TcpExt" "TCPDeferAcceptDrop"),
    one!("nettune_tcp_migrated_requests_total", "Requests moved to another listener of the group (TcpExtTCPMigrateReqSuccess).", "TcpExt" "TCPMigrateReqSuccess"),
    one!("nettune_tcp_migrated_requests_failed_total", "Requests that could not be moved to another listener (TcpExtTCPMigrateReqFailure).", "TcpExt" "TCPMigrateReqFailure"),
    one!("nettune_tcp_fastopen_cookies_requested_total", "Clients that asked for a fast open cookie (TcpExtTCPFastOpenCookieReqd).", "TcpExt" "TCPFastOpenCookieReqd", everywhere),
    one!("nettune_tcp_fastopen_passive_total", "Fast opens served (TcpExtTCPFastOpenPassive).", "TcpExt" "TCPFastOpenPassive", everywhere),
    one!("nettune_tcp_fastopen_passive_failed_total", "Fast opens by peers that failed (TcpExtTCPFastOpenPassiveFail).", "TcpExt" "TCPFastOpenPassiveFail"),
    one!("nettune_tcp_fastopen_active_total", "Fast opens by this host (TcpExtTCPFastOpenActive).", "TcpExt" "TCPFastOpenActive"),
    one!("nettune_tcp_fastopen_active_failed_total", "Fast opens by this host that failed (TcpExtTCPFastOpenActiveFail).", "TcpExt" "TCPFastOpenActiveFail"),
    one!("nettune_tcp_fastopen_listen_overflows_total", "Fast opens refused because the listener's queue of them was full (TcpExtTCPFastOpenListenOverflow).", "TcpExt" "TCPFastOpenListenOverflow"),
    one!("nettune_tcp_fastopen_blackholes_total", "Times active fast open was paused for a black hole (TcpExtTCPFastOpenBlackhole).", "TcpExt" "TCPFastOpenBlackhole"),
    // Closing and TIME_WAIT.
    one!("nettune_tcp_time_wait_total", "Sockets that entered TIME_WAIT, and orphans in FIN_WAIT_2 that the kernel counts with them (TcpExtTW).", "TcpExt" "TW"),
    one!("nettune_tcp_time_wait_recycled_total", "Sockets in TIME_WAIT whose port connect() took over (TcpExtTWRecycled).", "TcpExt" "TWRecycled"),
    one!("nettune_tcp_time_wait_overflows_total", "Sockets destroyed without TIME_WAIT because the table was full (TcpExtTCPTimeWaitOverflow).", "TcpExt" "TCPTimeWaitOverflow", everywhere),
    one!("nettune_tcp_aborts_on_data_total", "Connections reset by closing with zero linger, or because data came after the program closed (TcpExtTCPAbortOnData).", "TcpExt" "TCPAbortOnData"),
    one!("nettune_tcp_aborts_on_close_total", "Connections reset because the program closed with data unread (TcpExtTCPAbortOnClose).", "TcpExt" "TCPAbortOnClose"),
    one!("nettune_tcp_aborts_on_memory_total", "Connections reset for want of memory or for too many orphans (TcpExtTCPAbortOnMemory).", "TcpExt" "TCPAbortOnMemory", everywhere),
    one!("nettune_tcp_aborts_on_timeout_total", "Connections given up because the peer did not answer, connection attempts included; no reset is sent (TcpExtTCPAbortOnTimeout).", "TcpExt" "TCPAbortOnTimeout"),
    one!("nettune_tcp_aborts_on_linger_total", "Connections reset on closing because lingering in FIN_WAIT_2 was turned off by TCP_LINGER2 (TcpExtTCPAbortOnLinger).", "TcpExt" "TCPAbortOnLinger"),
    one!("nettune_tcp_aborts_failed_total", "Resets that could not be sent, for any reason (TcpExtTCPAbortFailed).", "TcpExt" "TCPAbortFailed"),
    one!("nettune_tcp_keepalive_probes_total", "Keepalive probes sent (TcpExtTCPKeepAlive).", "TcpExt" "TCPKeepAlive"),
    // Memory and windows.
    one!("nettune_tcp_memory_pressures_total", "Times TCP memory reached the pressure mark of tcp_mem (TcpExtTCPMemoryPressures).", "TcpExt" "TCPMemoryPressures", everywhere),
    one!("nettune_tcp_prunes_total", "Times received data was squeezed because a socket's buffer was exceeded (TcpExtPruneCalled).", "TcpExt" "PruneCalled", everywhere),
    one!("nettune_tcp_receive_pruned_total", "Segments dropped on arrival because pruning did not make room in the receive buffer (TcpExtRcvPruned).", "TcpExt" "RcvPruned", everywhere),
    one!("nettune_tcp_out_of_order_pruned_total", "Times a queue of out-of-order data was dropped over its buffer (TcpExtOfoPruned).", "TcpExt" "OfoPruned", everywhere),
    one!("nettune_tcp_receive_collapsed_total", "Packets merged to save memory (TcpExtTCPRcvCollapsed).", "TcpExt" "TCPRcvCollapsed"),
    one!("nettune_tcp_receive_queue_drops_total", "Segments dropped on arrival because the receive buffer was full or no memory could be charged (TcpExtTCPRcvQDrop).", "TcpExt" "TCPRcvQDrop", everywhere),
    one!("nettune_tcp_backlog_drops_total", "Segments dropped because a socket's backlog was full (TcpExtTCPBacklogDrop).", "TcpExt" "TCPBacklogDrop"),
    one!("nettune_tcp_zero_window_drops_total", "Segments dropped outside a window of zero (TcpExtTCPZeroWindowDrop).", "TcpExt" "TCPZeroWindowDrop"),
    one!("nettune_tcp_zero_window_advertised_total", "Times the window this host offers went to zero (TcpExtTCPToZeroWindowAdv).", "TcpExt" "TCPToZeroWindowAdv"),
    one!("nettune_tcp_zero_window_left_total", "Times the window this host offers left zero (TcpExtTCPFromZeroWindowAdv).", "TcpExt" "TCPFromZeroWindowAdv"),
    one!("nettune_tcp_zero_window_wanted_total", "Times a window of zero would have been offered were that not shrinking it (TcpExtTCPWantZeroWindowAdv).", "TcpExt" "TCPWantZeroWindowAdv"),
    one!("nettune_tcp_write_queue_too_big_total", "Retransmissions given up because the write queue exceeded the send buffer (TcpExtTCPWqueueTooBig).", "TcpExt" "TCPWqueueTooBig"),
    // Loss and recovery.
    one!("nettune_tcp_timeouts_total", "Retransmission timeouts (TcpExtTCPTimeouts).", "TcpExt" "TCPTimeouts"),
    one!("nettune_tcp_timeouts_spurious_total", "Retransmission timeouts that proved needless (TcpExtTCPSpuriousRTOs).", "TcpExt" "TCPSpuriousRTOs"),
    one!("nettune_tcp_fast_retransmits_total", "Segments retransmitted in fast recovery (TcpExtTCPFastRetrans).", "TcpExt" "TCPFastRetrans"),
    one!("nettune_tcp_slow_start_retransmits_total", "Segments retransmitted after a timeout (TcpExtTCPSlowStartRetrans).", "TcpExt" "TCPSlowStartRetrans"),
    one!("nettune_tcp_lost_retransmits_total", "Retransmissions that were lost themselves (TcpExtTCPLostRetransmit).", "TcpExt" "TCPLostRetransmit"),
    one!("nettune_tcp_retransmit_failures_total", "Retransmissions that could not be sent (TcpExtTCPRetransFail).", "TcpExt" "TCPRetransFail"),
    one!("nettune_tcp_loss_probes_total", "Tail loss probes sent (TcpExtTCPLossProbes).", "TcpExt" "TCPLossProbes"),
    one!("nettune_tcp_loss_probe_recoveries_total", "Losses that a tail loss probe repaired (TcpExtTCPLossProbeRecovery).", "TcpExt" "TCPLossProbeRecovery"),
    one!("nettune_tcp_sack_recoveries_total", "Recoveries with selective acknowledgements (TcpExtTCPSackRecovery).", "TcpExt" "TCPSackRecovery"),
    one!("nettune_tcp_reno_recoveries_total", "Recoveries without selective acknowledgements (TcpExtTCPRenoRecovery).", "TcpExt" "TCPRenoRecovery"),
    one!("nettune_tcp_sack_reorders_total", "Reordering noticed by selective acknowledgements (TcpExtTCPSACKReorder).", "TcpExt" "TCPSACKReorder", everywhere),
    one!("nettune_tcp_timestamp_reorders_total", "Reordering noticed by timestamps (TcpExtTCPTSReorder).", "TcpExt" "TCPTSReorder", everywhere),
    one!("nettune_tcp_dsack_received_total", "Duplicates that peers reported (TcpExtTCPDSACKRecv).", "TcpExt" "TCPDSACKRecv", everywhere),
    one!("nettune_tcp_dsack_out_of_order_received_total", "Out-of-order duplicates that peers reported (TcpExtTCPDSACKOfoRecv).", "TcpExt" "TCPDSACKOfoRecv", everywhere),
    one!("nettune_tcp_dsack_sent_total", "Duplicates this host reported (TcpExtTCPDSACKOldSent).", "TcpExt" "TCPDSACKOldSent"),
    one!("nettune_tcp_dsack_out_of_order_sent_total", "Out-of-order duplicates this host reported (TcpExtTCPDSACKOfoSent).", "TcpExt" "TCPDSACKOfoSent"),
    one!("nettune_tcp_dsack_undos_total", "Recoveries undone because all retransmissions were needless (TcpExtTCPDSACKUndo).", "TcpExt" "TCPDSACKUndo"),
    one!("nettune_tcp_host_queue_retransmits_total", "Retransmissions skipped because the original had not left the host (TcpExtTCPSpuriousRtxHostQueues).", "TcpExt" "TCPSpuriousRtxHostQueues"),
    one!("nettune_tcp_delivered_ce_total", "Segments delivered with a congestion mark (TcpExtTCPDeliveredCE).", "TcpExt" "TCPDeliveredCE"),
    one!("nettune_tcp_mtu_probe_failures_total", "MTU probes that were lost (TcpExtTCPMTUPFail).", "TcpExt" "TCPMTUPFail", everywhere),
    one!("nettune_tcp_mtu_probe_successes_total", "MTU probes that came through (TcpExtTCPMTUPSuccess).", "TcpExt" "TCPMTUPSuccess", everywhere),
    one!("nettune_tcp_paws_established_total", "Segments dropped for an old timestamp (TcpExtPAWSEstab).", "TcpExt" "PAWSEstab"),
    one!("nettune_tcp_paws_active_total", "SYN-ACKs refused because they echo a timestamp that was not sent (TcpExtPAWSActive).", "TcpExt" "PAWSActive"),
    one!("nettune_tcp_challenge_acks_total", "Challenge ACKs sent for suspicious segments (TcpExtTCPChallengeACK).", "TcpExt" "TCPChallengeACK"),
    one!("nettune_ip_reverse_path_drops_total", "IPv4 packets dropped by the reverse-path filter (TcpExtIPReversePathFilter).", "TcpExt" "IPReversePathFilter", everywhere),
    one!("nettune_busy_poll_packets_total", "Packets received by busy polling (TcpExtBusyPollRxPackets).", "TcpExt" "BusyPollRxPackets"),
    one!("nettune_ip_congestion_marks_received_total", "IPv4 packets received with a congestion mark (IpExtInCEPkts).", "IpExt" "InCEPkts"),
    // UDP.
    both!("nettune_udp_datagrams_received_total", "Datagrams delivered to programs (UdpInDatagrams).", "Udp" "Udp6" "InDatagrams", everywhere),
    both!("nettune_udp_datagrams_sent_total", "Datagrams sent (UdpOutDatagrams).", "Udp" "Udp6" "OutDatagrams"),
    both!("nettune_udp_no_port_total", "Datagrams for a port nobody listens on (UdpNoPorts).", "Udp" "Udp6" "NoPorts"),
    both!("nettune_udp_receive_errors_total", "Datagrams that could not be delivered for another reason than that nobody listens (UdpInErrors).", "Udp" "Udp6" "InErrors", everywhere),
    both!("nettune_udp_receive_buffer_errors_total", "Datagrams dropped because a socket's receive buffer was full (UdpRcvbufErrors).", "Udp" "Udp6" "RcvbufErrors", everywhere),
    both!("nettune_udp_send_buffer_errors_total", "Datagrams not sent because there was no buffer, or because a queueing discipline of this host dropped them (UdpSndbufErrors).", "Udp" "Udp6" "SndbufErrors"),
    both!("nettune_udp_checksum_errors_total", "Datagrams with a wrong checksum (UdpInCsumErrors).", "Udp" "Udp6" "InCsumErrors"),
    both!("nettune_udp_memory_errors_total", "Datagrams dropped because no memory could be charged for them (UdpMemErrors).", "Udp" "Udp6" "MemErrors", everywhere),
    // IP and ICMP.
    both!("nettune_ip_packets_received_total", "Packets received, bad ones included (IpInReceives).", "Ip" "Ip6" "InReceives"),
    both!("nettune_ip_packets_sent_total", "Packets that local protocols asked to send (IpOutRequests).", "Ip" "Ip6" "OutRequests"),
    both!("nettune_ip_receive_header_errors_total", "Packets dropped for an error in the header (IpInHdrErrors).", "Ip" "Ip6" "InHdrErrors"),
    both!("nettune_ip_receive_address_errors_total", "Packets dropped for an address that is not ours (IpInAddrErrors).", "Ip" "Ip6" "InAddrErrors"),
    both!("nettune_ip_receive_discards_total", "Good packets dropped on receipt (IpInDiscards).", "Ip" "Ip6" "InDiscards"),
    both!("nettune_ip_send_discards_total", "Good packets dropped on sending (IpOutDiscards).", "Ip" "Ip6" "OutDiscards"),
    both!("nettune_ip_send_no_route_total", "Packets dropped for want of a route (IpOutNoRoutes).", "Ip" "Ip6" "OutNoRoutes"),
    both!("nettune_ip_reassembly_failures_total", "Packets whose fragments could not be put together (IpReasmFails).", "Ip" "Ip6" "ReasmFails"),
    both!("nettune_ip_reassembly_timeouts_total", "Packets whose fragments did not all come in time (IpReasmTimeout).", "Ip" "Ip6" "ReasmTimeout"),
    both!("nettune_ip_fragmentation_failures_total", "Packets that needed fragments and were not allowed any (IpFragFails).", "Ip" "Ip6" "FragFails"),
    Curated {
        metric: counter("nettune_icmp_unreachable_received_total", &["family"], "Destination unreachable messages received (IcmpInDestUnreachs, Icmp6InDestUnreachs)."),
        from: &[("ipv4", "Icmp", "InDestUnreachs"), ("ipv6", "Icmp6", "InDestUnreachs")],
    },
    Curated {
        metric: counter("nettune_icmp6_packet_too_big_received_total", &[], "Packet too big messages received (Icmp6InPktTooBigs)."),
        from: &[("", "Icmp6", "InPktTooBigs")],
    },
];

pub(super) fn metrics() -> Vec<&'static Metric> {
    let curated = CURATED.iter().map(|curated| &curated.metric);
    curated.chain([&MEMORY_PRESSURE_TIME, &RETRANSMIT_RATIO, &ESTABLISHED, &NETSTAT]).collect()
}

pub(super) fn write(out: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let sources: Vec<&Counters> =
        [&snapshot.snmp, &snapshot.snmp6, &snapshot.netstat].into_iter().flatten().collect();
    let value = |group: &str, name: &str| sources.iter().find_map(|counters| counters.get(group, name));
    for Curated { metric, from } in CURATED {
        if metric.labels.is_empty() {
            out.single(metric, from.iter().find_map(|(_, group, name)| value(group, name)))?;
        } else {
            let samples = from
                .iter()
                .filter_map(|(family, group, name)| Some(([Label::from(*family)], value(group, name)?)));
            out.family(metric, samples)?;
        }
    }
    let pressure =
        value("TcpExt", "TCPMemoryPressuresChrono").map(|milliseconds| milliseconds as f64 / 1000.0);
    out.single(&MEMORY_PRESSURE_TIME, pressure)?;
    out.single(&RETRANSMIT_RATIO, snapshot.exporter.retransmit_ratio)?;
    out.single(&ESTABLISHED, value("Tcp", "CurrEstab"))?;
    if snapshot.netstat_all {
        // A map: no name comes twice, whatever files hold it.
        let all: BTreeMap<_, _> = sources
            .iter()
            .flat_map(|counters| counters.iter())
            .map(|(group, name, value)| ((group, name), value))
            .collect();
        let rest = all
            .into_iter()
            .filter(|((group, name), _)| !is_curated(group, name) && !NOT_COUNTERS.contains(&(group, name)));
        out.family(&NETSTAT, rest.map(|((group, name), value)| ([Label::from(group), name.into()], value)))?;
    }
    Ok(())
}

fn is_curated(group: &str, name: &str) -> bool {
    CURATED
        .iter()
        .flat_map(|curated| curated.from)
        .any(|(_, known, counter)| *known == group && *counter == name)
}
