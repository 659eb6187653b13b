//! Formulas of recommended values, in words.

use crate::catalogue::{Formula, Sign};

/// How a recommended value is found, one sentence.
pub(super) fn sentence(formula: &Formula) -> String {
    match formula {
            Formula::Dangerous { when: [first, last], to } => {
                let when = if first == last { first.to_string() } else { format!("{first} to {last}") };
                format!("{to} where it is {when}.")
            }
            Formula::BeyondMemory { part } => {
                format!("The kernel's default where the last number is more than one part in {part} of memory.")
            }
            Formula::BufferBeyondMemory { connections } => format!(
                "The kernel's default, or less, of the last number where {connections} connections with buffers of that size take all that tcp_mem allows."
            ),
            Formula::EcnWithoutMarks { to } => {
                format!("{to} where it is 1 and no congestion mark was received in the last hour.")
            }
            Formula::BelowDefault { field: None } => "The kernel's default where it is less.".into(),
            Formula::BelowDefault { field: Some(field) } => {
                format!("The kernel's default of {field} where that is less.")
            }
            Formula::Seen { sign, when: [first, last], to } => {
                let when = if first == last { first.to_string() } else { format!("{first} to {last}") };
                format!("{to} where it is {when} and {}.", words(*sign))
            }
            Formula::Doubled { signs, most } => {
                let words: Vec<_> = signs.iter().map(|sign| words(*sign)).collect();
                format!("Twice as much, at most {most}, where {}.", words.join(", and "))
            }
            Formula::AcceptQueue { least, most } => format!(
                "A power of two from twice as much, {least} to {most}, where {}, or {} and {}.",
                words(Sign::AcceptQueueFull),
                words(Sign::SynQueueFull),
                words(Sign::CookiesReturned)
            ),
            Formula::HalfOpen => format!(
                "A power of two from twice as much and from 4/3 of the most half-open connections seen, where tcp_syncookies is 0 and {}.",
                words(Sign::SynsDropped)
            ),
            Formula::TimeWait => format!(
                "A power of two from 1.5 times the running value and what a minute brought besides, where {}.",
                words(Sign::TimeWaitOverflow)
            ),
            Formula::ReuseTimeWait => {
                format!("1 where tcp_timestamps is not 0 and {}.", words(Sign::PortsInTimeWait))
            }
            Formula::LocalPorts => format!(
                "Down to the next port below it that something listens on, not below 1024 and ip_unprivileged_port_start, and up to 65535, ends of different parity; where {}, or most in TIME_WAIT while tcp_tw_reuse is 1 or tcp_timestamps 0.",
                words(Sign::PortsInUse)
            ),
            Formula::ListeningPorts => {
                "The running list and every TCP port that something listens on, by nettune_listener_in_port_range, or in a recommended ip_local_port_range; none where the list gets longer than 200 characters. A service that is not running is not known.".into()
            }
            Formula::Orphans => format!(
                "A power of two from twice the larger of the running value and the most orphans seen, which may take 1/32 of memory at 2560 bytes each, where {}.",
                words(Sign::OrphansMany)
            ),
            Formula::SendBuffer => buffer(
                "2 times what the path holds (bandwidth times round trip time), 3 times where connections use bbr",
                Sign::SendBufferAtMaximum,
            ),
            Formula::ReceiveBuffer => buffer(
                "what the path holds (bandwidth times round trip time) over the kernel's window ratio: by tcp_adv_win_scale before 6.6, then 1/2",
                Sign::ReceiveBufferAtMaximum,
            ),
            Formula::SendBufferLimit => format!(
                "Half of what net.ipv4.tcp_wmem would be for the path, else a power of two from 4 times as much, where {}.",
                words(Sign::SendBufferClamped)
            ),
            Formula::ReceiveBufferLimit => format!(
                "Half of what net.ipv4.tcp_rmem would be for the path, else a power of two from 4 times as much, where {}, or {}.",
                words(Sign::ReceiveBufferClamped),
                words(Sign::DatagramsDroppedAtLimit)
            ),
            Formula::DatagramBuffer { most } => format!(
                "A power of two from 4 times as much, at most {most}, where {}.",
                words(Sign::DatagramsDropped)
            ),
            Formula::SocketMemory { sign } => format!(
                "The last number a power of two from twice as much and from 1.5 times the most seen in use, no more than a quarter of memory and than half of what is available besides; the others 1/2 and 2/3 of it; where {}.",
                words(*sign)
            ),
            Formula::LossyPath { to } => format!(
                "{to} where {}, and it is in tcp_available_congestion_control, outside the initial network namespace in tcp_allowed_congestion_control as well, and the kernel is 4.13 or later or has fq in use.",
                words(Sign::LossOnLongPath)
            ),
            Formula::Pacing { to } => format!(
                "{to} where connections use bbr over pfifo_fast, fq_codel, pfifo or sfq, and the kernel has it: in use, or by modules.builtin or modules.dep."
            ),
            Formula::FlowTable { least, most } => format!(
                "A power of two, {least} to {most}, from the most established connections seen, where receive queues have flow tables (rps_flow_cnt) and it is less."
            ),
            Formula::Neighbours { part: 1 } => {
                "A power of two from twice the most entries seen, where those were 80 % of it.".into()
            }
            Formula::Neighbours { part } => format!(
                "One part in {part} of gc_thresh3, running or recommended, where more entries than gc_thresh2 were seen."
            ),
            Formula::TrackedFlows => {
                "A power of two from 1.5 times the most entries seen, where those were 75 % of it; 384 bytes each may take an eighth of memory.".into()
            }
            Formula::TrackedBuckets => format!(
                "A power of two from nf_conntrack_max, running or recommended, where more is recommended for that, it is more than 4 times as much, or {}.",
                words(Sign::LongChains)
            ),
            Formula::LooseFilter => format!(
                "2 on each device that is up, has routes and filters strictly, as one of at least two such with routes, where {}.",
                words(Sign::ReversePathDrops)
            ),
            Formula::Keepalive => {
                "Four fifths of nf_conntrack_tcp_timeout_established, or of idle_timeout in the configuration file where that is less, where it is no less than that and connections have a keepalive timer.".into()
            }
        }
}

fn buffer(of_path: &str, sign: Sign) -> String {
    format!(
        "Of the last number a power of two from {of_path}, by the declared path, else by what its class was seen to carry, where that is more, else from 4 times as much, where {}, or a declared path does not fit; as many as were seen at the maximum take no more than half of tcp_mem's pressure mark.",
        words(sign)
    )
}

/// What was seen, as a clause.
fn words(sign: Sign) -> &'static str {
    match sign {
        Sign::AcceptQueueFull => "a listener whose limit is somaxconn was full",
        Sign::SynQueueFull => "such a listener had more half-open connections than that",
        Sign::CookiesReturned => "more than half of the SYN cookies sent came back",
        Sign::SynsDropped => "SYNs were dropped beyond those at full queues",
        Sign::TimeWaitOverflow => "TCPTimeWaitOverflow rose",
        Sign::PortsInTimeWait => {
            "more than 0.7 of the local ports toward one destination were taken, more than half of these by TIME_WAIT that may not be reused"
        }
        Sign::PortsInUse => "more than 0.7 of the local ports toward one destination were taken, most in use",
        Sign::OrphanedFinWait2 => "1000 sockets or more in FIN_WAIT2 had no owner",
        Sign::OrphansMany => {
            "sockets without an owner were 90 % of it, or TCPAbortOnMemory rose while TCP had less than 90 % of its memory"
        }
        Sign::SendBufferAtMaximum => {
            "connections of one path spent a tenth of their busy time or more waiting for send buffers at that size, without a standing queue"
        }
        Sign::SendBufferClamped => {
            "connections of one path spent a tenth of their busy time or more waiting for send buffers that it cut"
        }
        Sign::SendBufferWithheld => {
            "connections of one path spent a tenth of their busy time or more waiting though their send buffers were far from full"
        }
        Sign::ReceiveBufferAtMaximum => {
            "receive buffers at that size held connections of one path back for a tenth of the time they received or more"
        }
        Sign::ReceiveBufferClamped => {
            "receive buffers that it cut held connections of one path back for a tenth of the time they received or more"
        }
        Sign::TcpMemoryShort => {
            "TCP reached its pressure mark, reset connections for want of memory, or kept send buffers from growing"
        }
        Sign::UdpMemoryShort => "UDP's MemErrors rose while it had 90 % of its memory",
        Sign::LossOnLongPath => {
            "connections of a long path, not with bbr, spent a tenth of their busy time or more held back by losses that no queue explains"
        }
        Sign::IdleRestart => "congestion windows on long paths were reset after idle time",
        Sign::FullSegmentsStall => {
            "connections stalled with full segments in flight, none of which was ever delivered"
        }
        Sign::SegmentsShrunk => "segments became less than half of those to the same peers",
        Sign::DatagramsDropped => "datagrams were dropped at UDP receive buffers of that size",
        Sign::DatagramsDroppedAtLimit => "datagrams were dropped at UDP receive buffers that it cut",
        Sign::BacklogDrops => "packets were dropped at a CPU's input queue, not by the flow limit",
        Sign::ReceiveLoss => "packets were lost at a CPU's input queue or in a card",
        Sign::BudgetExhausted => {
            "a CPU with less than 90 % of softirq time ended runs with work left more than once in 1000 packets"
        }
        Sign::LongChains => "chains were too long",
        Sign::ReversePathDrops => "IPReversePathFilter rose",
        Sign::BbrInUse => "connections used bbr",
    }
}
