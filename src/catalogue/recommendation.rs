//! How values to recommend are found, as data.

use serde::Deserialize;

/// How a value to recommend follows from what was seen on this host, or from the running
/// value alone. Each is computed in `model/recommend`; of several the first that gives a
/// value counts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "formula", rename_all = "snake_case", deny_unknown_fields)]
pub enum Formula {
    /// A running value from the first to the second of `when` breaks something.
    Dangerous {
        /// The least and the greatest value that does.
        when: [i64; 2],
        /// What to set instead.
        to: i64,
    },
    /// Marks of memory that are above a part of what the host has.
    BeyondMemory {
        /// Which part, as a divisor.
        part: u64,
    },
    /// A buffer so large that a few connections take all memory that TCP may have.
    BufferBeyondMemory {
        /// How many they are.
        connections: u64,
    },
    /// ECN is asked for, and no mark was received in the last hour.
    EcnWithoutMarks {
        /// What to set instead.
        to: i64,
    },
    /// The kernel's default, where the running value is less and nothing that was seen
    /// calls for it.
    BelowDefault {
        /// The one number that is judged and raised, of a parameter that has several.
        field: Option<String>,
    },
    /// Another mode or time, where something was seen while the running value is from the
    /// first to the second of `when`.
    Seen {
        /// What was.
        sign: Sign,
        /// The least and the greatest value that it speaks against.
        when: [i64; 2],
        /// What to set instead.
        to: i64,
    },
    /// Twice the running value, where all of these were seen.
    Doubled {
        /// What was.
        signs: Vec<Sign>,
        /// No more than this.
        most: u64,
    },
    /// `net.core.somaxconn`
    AcceptQueue {
        /// No less than this.
        least: u64,
        /// No more than this.
        most: u64,
    },
    /// `net.ipv4.tcp_max_syn_backlog`
    HalfOpen,
    /// `net.ipv4.tcp_max_tw_buckets`
    TimeWait,
    /// `net.ipv4.tcp_tw_reuse`
    ReuseTimeWait,
    /// `net.ipv4.ip_local_port_range`
    LocalPorts,
    /// `net.ipv4.ip_local_reserved_ports`
    ListeningPorts,
    /// `net.ipv4.tcp_max_orphans`
    Orphans,
    /// `net.ipv4.tcp_wmem`
    SendBuffer,
    /// `net.ipv4.tcp_rmem`
    ReceiveBuffer,
    /// `net.core.wmem_max`
    SendBufferLimit,
    /// `net.core.rmem_max`
    ReceiveBufferLimit,
    /// `net.core.rmem_default`
    DatagramBuffer {
        /// No more than this.
        most: u64,
    },
    /// `net.ipv4.tcp_mem` and `net.ipv4.udp_mem`
    SocketMemory {
        /// That more is needed.
        sign: Sign,
    },
    /// `net.ipv4.tcp_congestion_control`
    LossyPath {
        /// The algorithm.
        to: String,
    },
    /// `net.core.default_qdisc`
    Pacing {
        /// The queueing discipline.
        to: String,
    },
    /// `net.core.rps_sock_flow_entries`
    FlowTable {
        /// No less than this.
        least: u64,
        /// No more than this.
        most: u64,
    },
    /// `gc_thresh1` to `gc_thresh3` of a neighbour table
    Neighbours {
        /// What of `gc_thresh3` this one is, as a divisor.
        part: u64,
    },
    /// `net.netfilter.nf_conntrack_max`
    TrackedFlows,
    /// `net.netfilter.nf_conntrack_buckets`
    TrackedBuckets,
    /// `net.ipv4.conf.*.rp_filter`
    LooseFilter,
    /// `net.ipv4.tcp_keepalive_time`
    Keepalive,
}

/// Something that is seen, and remembered for an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// A listener was full whose limit is `net.core.somaxconn`.
    AcceptQueueFull,
    /// It had more half-open connections than that.
    SynQueueFull,
    /// More than half of the SYN cookies that were sent came back.
    CookiesReturned,
    /// SYNs were dropped for another reason than a full queue.
    SynsDropped,
    /// Sockets skipped TIME_WAIT for want of room.
    TimeWaitOverflow,
    /// Local ports toward one destination ran short, most of them in TIME_WAIT.
    PortsInTimeWait,
    /// They ran short, most of them in use.
    PortsInUse,
    /// A thousand sockets in FIN_WAIT2 or more had no owner.
    OrphanedFinWait2,
    /// Sockets without an owner came near their limit, or were reset for it.
    OrphansMany,
    /// Connections waited for room in a send buffer that was at its maximum.
    SendBufferAtMaximum,
    /// They did in one that `net.core.wmem_max` cut.
    SendBufferClamped,
    /// They did since no more may be written ahead of what is sent.
    SendBufferWithheld,
    /// A sender was held back by a receive buffer of ours that was at its maximum.
    ReceiveBufferAtMaximum,
    /// It was by one that `net.core.rmem_max` cut.
    ReceiveBufferClamped,
    /// TCP reached its marks of memory.
    TcpMemoryShort,
    /// UDP did.
    UdpMemoryShort,
    /// Long paths lost data that no queue explains.
    LossOnLongPath,
    /// The kernel reset congestion windows on long paths after idle time.
    IdleRestart,
    /// Full segments are not acknowledged, and none ever was.
    FullSegmentsStall,
    /// Segments became far smaller than those to the same peers.
    SegmentsShrunk,
    /// Datagrams were dropped at receive buffers of the default size.
    DatagramsDropped,
    /// They were at buffers that `net.core.rmem_max` cut.
    DatagramsDroppedAtLimit,
    /// Packets were dropped at the input queue of a CPU.
    BacklogDrops,
    /// Packets were lost at an input queue or in a card.
    ReceiveLoss,
    /// A CPU that had time left ended runs of the receive softirq with work undone.
    BudgetExhausted,
    /// Chains of the connection tracking table were too long.
    LongChains,
    /// The reverse-path filter dropped packets.
    ReversePathDrops,
    /// Connections used BBR.
    BbrInUse,
}

impl Formula {
    /// Whether it sizes something that must never become less by a recommendation.
    pub fn is_of_capacity(&self) -> bool {
        !matches!(
            self,
            Self::Dangerous { .. }
                | Self::BeyondMemory { .. }
                | Self::BufferBeyondMemory { .. }
                | Self::EcnWithoutMarks { .. }
                | Self::Seen { .. }
                | Self::ReuseTimeWait
                | Self::Keepalive
        )
    }
}
