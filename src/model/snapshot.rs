use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::accepted::Accepted;
use super::connections::paths::PathId;
use super::connections::{Pass, Paths, Sums};
use super::devices::{DeviceCount, DeviceInterrupts, Names, QdiscGroup};
use super::host::Facts;
use super::listeners::Group;
use super::namespaces::Namespaces;
use super::owners::Owned;
use super::parameters::State;
use super::persisted::Persisted;
use super::ports::Usage;
use super::udp;
use super::units::UnitMemory;
use crate::kernel::{Constants, Error};
use crate::read::conntrack::Conntrack;
use crate::read::counters::Counters;
use crate::read::links::Link;
use crate::read::neighbours::Table;
use crate::read::nic::{self, DriverCounter};
use crate::read::process::Process;
use crate::read::sockstat::{Limits, Sockstat};
use crate::read::steering::Queue;
use crate::read::{cpu, softirqs, softnet};

/// What came of reading one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was read, and everything in it understood.
    Ok,
    /// It does not exist on this kernel, in this namespace or on this host.
    Absent(String),
    /// It exists and could not be read or understood. What was read before the
    /// failure is kept.
    Failed(String),
}

impl Outcome {
    /// The word that the page and JSON use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Absent(_) => "absent",
            Self::Failed(_) => "failed",
        }
    }

    /// What is missing or wrong; empty when nothing is.
    pub fn detail(&self) -> &str {
        match self {
            Self::Ok => "",
            Self::Absent(detail) | Self::Failed(detail) => detail,
        }
    }
}

impl From<Result<(), Error>> for Outcome {
    fn from(result: Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self::Ok,
            Err(error) if error.is_absent() => Self::Absent(error.to_string()),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// How the reading of one source went.
#[derive(Debug, Clone)]
pub struct Report {
    /// Name of the source, as in `--collector.NAME`.
    pub source: &'static str,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
}

/// Everything one collection found: one field a source, empty where the source
/// is absent, failed or was not asked for.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// One entry a source that was asked for, in the order of the source table.
    pub reports: Vec<Report>,
    /// Page size, clock ticks and tick rate; set whatever sources were read.
    pub constants: Option<Constants>,
    /// The host, for defaults and limits.
    pub facts: Option<Facts>,
    /// `/proc/net/snmp`
    pub snmp: Option<Counters>,
    /// `/proc/net/snmp6`
    pub snmp6: Option<Counters>,
    /// `/proc/net/netstat`
    pub netstat: Option<Counters>,
    /// Whether every counter is wanted, not just the curated ones.
    pub netstat_all: bool,
    /// `/proc/net/sockstat`
    pub sockstat: Option<Sockstat>,
    /// `/proc/net/sockstat6`
    pub sockstat6: Option<Sockstat>,
    /// Listening TCP sockets.
    pub listeners: Option<Arc<Vec<Group>>>,
    /// TCP connections.
    pub connections: Option<Arc<Connections>>,
    /// UDP sockets.
    pub udp_sockets: Option<Arc<Vec<udp::Group>>>,
    /// What sockstat is judged by.
    pub socket_limits: Option<Limits>,
    /// `/proc/net/softnet_stat`
    pub softnet: Option<Vec<softnet::Cpu>>,
    /// Network devices that the filter keeps.
    pub links: Option<Vec<Link>>,
    /// How many devices the filter left out.
    pub links_left_out: u64,
    /// All devices, for sources that know only indices.
    pub names: Option<Names>,
    /// Devices that sysfs shows and the filter keeps.
    pub in_sysfs: Option<Vec<String>>,
    /// Queueing disciplines.
    pub qdiscs: Option<Vec<QdiscGroup>>,
    /// Rings, channels and drivers' counters.
    pub nic: Option<Nic>,
    /// `/proc/softirqs`
    pub softirqs: Option<Vec<softirqs::Cpu>>,
    /// `/proc/stat`
    pub cpus: Option<Vec<cpu::Cpu>>,
    /// Interrupts of network devices.
    pub interrupts: Option<Vec<DeviceInterrupts>>,
    /// RPS, RFS and XPS by device.
    pub steering: Option<Vec<(String, Vec<Queue>)>>,
    /// Connection tracking.
    pub conntrack: Option<Conntrack>,
    /// Neighbour tables, IPv4 then IPv6.
    pub neighbours: Option<[Table; 2]>,
    /// Addresses by device.
    pub addresses: Option<Vec<DeviceCount>>,
    /// Unicast routes by device.
    pub routes: Option<Vec<DeviceCount>>,
    /// Parameters of the catalogue.
    pub parameters: Option<Vec<State>>,
    /// Parameters at the next boot.
    pub persisted: Option<Arc<Persisted>>,
    /// Programs that set running values which files do not explain.
    pub owners: Option<Vec<Owned>>,
    /// Whether this is the initial network namespace; `None` where that cannot be told.
    pub in_initial_namespace: Option<bool>,
    /// Other network namespaces; `None` where none is wanted.
    pub namespaces: Option<Arc<Namespaces>>,
    /// Our own process.
    pub process: Option<Process>,
    /// What people declared.
    pub declared: Arc<Declared>,
    /// The exporter itself.
    pub exporter: Exporter,
}

/// What the host cannot know and people declared in the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// Limits elsewhere.
    pub limits: DeclaredLimits,
    /// Findings that are to be silent.
    pub accepted: Vec<Accepted>,
}

/// Limits that lie outside of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredLimits {
    /// What a device may carry by its plan, bytes a second.
    pub devices: Vec<(String, u64)>,
    /// After this time without a packet something on the way forgets a connection.
    pub idle_timeout: Option<Duration>,
}

/// Rings, channels and drivers' counters of the devices the filter keeps.
#[derive(Debug, Default)]
pub struct Nic {
    /// By device.
    pub rings: Vec<nic::Settings>,
    /// By device.
    pub channels: Vec<nic::Settings>,
    /// By device.
    pub driver_counters: Vec<(String, Vec<DriverCounter>)>,
}

/// What the exporter knows of its own work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exporter {
    /// Netlink dumps that stayed interrupted after retries, since start.
    pub interrupted_dumps: u64,
    /// Retransmissions over the last interval.
    pub retransmit_ratio: Option<f64>,
    /// The thread that walks sockets; `None` where it has nothing to do.
    pub sampling: Option<Sampling>,
    /// Changes of parameters.
    pub ledger: LedgerFigures,
}

/// What the ledger of changes tells of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LedgerFigures {
    /// Changes noticed since the start.
    pub changes: u64,
    /// Changes that are remembered.
    pub entries: u64,
    /// Attempts to write the file that failed, since the start.
    pub write_failures: u64,
    /// Lines of the file that could not be read at the start.
    pub unreadable_lines: u64,
    /// Whether what is remembered survives a restart.
    pub persistent: bool,
}

/// TCP connections.
#[derive(Debug, Clone, Default)]
pub struct Connections {
    /// As the last pass found them; `None` when it failed.
    pub now: Option<Pass>,
    /// What they did since the start; `None` before the first pass.
    pub followed: Option<Followed>,
    /// Local ports that connections of ours take up; `None` when the pass failed, or
    /// the range is not known.
    pub ports: Option<Usage>,
    /// Their memory by unit, as the last pass found it.
    pub unit_memory: Vec<UnitMemory>,
}

/// What connections did since the start, as far as passes so far tell.
#[derive(Debug, Clone, Default)]
pub struct Followed {
    /// Sums by path and algorithm.
    pub sums: Sums,
    /// Names of algorithms, by number.
    pub algorithms: Vec<String>,
    /// Names of paths, by number.
    pub paths: Arc<Paths>,
    /// Bytes a second that paths were seen to carry in the last ten minutes.
    pub witnessed: BTreeMap<PathId, f64>,
    /// Connections that are followed from pass to pass.
    pub followed: u64,
}

/// What walking sockets costs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// Completed passes over all connections, in one or more slices.
    pub passes: u64,
    /// Share of the connections that a pass gives.
    pub sampled_ratio: f64,
    /// Time from pass to pass.
    pub interval: Duration,
    /// CPU time of the thread, and of the one that hears of closed connections.
    pub cpu: Duration,
    /// Notifications of closed connections that were lost, since the start.
    pub lost_events: u64,
    /// Whether connections that close between passes are heard of.
    pub hears_closes: bool,
    /// Dumps that stayed interrupted after retries.
    pub interrupted_dumps: u64,
}
