//! The table of sources, and what each puts into a snapshot.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::Settings;
use super::namespaces::{Share, Watch};
use super::parameters;
use super::persisted;
use super::sampler::Sampler;
use crate::kernel::{Kernel, Result, Root};
use crate::ledger::Ledger;
use crate::model::changes::Moment;
use crate::model::devices::{Names, group_interrupts, group_qdiscs, name_counts};
use crate::model::host::Facts;
use crate::model::{Nic, Snapshot};
use crate::read::place::Place;
use crate::read::sysctl::Value;
use crate::read::{
    addresses, conntrack, counters, cpu, host, interrupts, links, neighbours, nic, process, qdiscs, sockstat,
    softirqs, softnet, steering,
};

/// What the readers of sources work with.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) kernel: Kernel,
    pub(super) settings: Settings,
    pub(super) sampler: Sampler,
    pub(super) ledger: Ledger,
    /// The boot and the namespace that this process is in.
    pub(super) place: Place,
    /// See [`Plan`](super::sampler::Plan).
    pub(super) earlier_somaxconn: Arc<OnceLock<u64>>,
    /// Reads other network namespaces, where there are to be any.
    pub(super) namespaces: Option<Watch>,
    /// What that takes of the CPU budget.
    pub(super) elsewhere: Arc<Share>,
    /// Read once: the kernel sums them up anew at each reading, over every CPU
    /// of every zone, and they hardly ever change.
    pub(super) unusable_pages: Option<u64>,
    pub(super) persisted: persisted::Cache,
}

impl Context {
    /// Tells the other threads of new settings.
    pub(super) fn apply(&self, settings: &Settings) {
        self.sampler.apply(settings.sampling(&self.elsewhere, &self.earlier_somaxconn));
        if let Some(namespaces) = &self.namespaces {
            namespaces.apply(settings);
        }
    }
}

/// One source of facts: a file, a netlink answer, or a few that belong together.
#[derive(Debug)]
pub struct Source {
    /// As in `--collector.NAME`, `?collect[]=NAME` and `collector="NAME"`.
    pub name: &'static str,
    /// What it is, for help and the landing page.
    pub help: &'static str,
    pub(super) read: fn(&mut Context, &mut Snapshot) -> Result<()>,
}

/// Every source, in the order in which they are read and shown. `host` is
/// first: others derive limits and defaults from it.
pub const SOURCES: &[Source] = &[
    Source { name: "host", help: "kernel release, memory and CPUs", read: read_host },
    Source { name: "snmp", help: "/proc/net/snmp: IP, ICMP, TCP and UDP counters", read: read_snmp },
    Source { name: "snmp6", help: "/proc/net/snmp6: the same for IPv6", read: read_snmp6 },
    Source { name: "netstat", help: "/proc/net/netstat: extended TCP and IP counters", read: read_netstat },
    Source { name: "sockstat", help: "sockets and socket memory beside their limits", read: read_sockstat },
    Source { name: "sockstat6", help: "/proc/net/sockstat6: IPv6 sockets", read: read_sockstat6 },
    Source { name: "listener", help: "accept queues of listening TCP sockets", read: read_listener },
    Source {
        name: "connection",
        help: "TCP connections: what limits each and why, round trips, ports taken",
        read: read_connection,
    },
    Source { name: "udp", help: "receive buffers and drops of UDP sockets", read: read_udp },
    Source {
        name: "softnet",
        help: "/proc/net/softnet_stat: the receive path of each CPU",
        read: read_softnet,
    },
    Source { name: "netdev", help: "network devices: counters by cause, speed, queues", read: read_netdev },
    Source { name: "qdisc", help: "queueing disciplines: kinds, drops, backlog", read: read_qdisc },
    Source { name: "ethtool", help: "NIC rings, channels and drivers' loss counters", read: read_ethtool },
    Source { name: "softirqs", help: "/proc/softirqs: network softirqs of each CPU", read: read_softirqs },
    Source { name: "cpu", help: "/proc/stat: idle, softirq and stolen time of each CPU", read: read_cpu },
    Source {
        name: "interrupts",
        help: "/proc/interrupts: which CPUs serve which NIC",
        read: read_interrupts,
    },
    Source { name: "steering", help: "RPS, RFS and XPS of each queue", read: read_steering },
    Source { name: "conntrack", help: "connection tracking table and statistics", read: read_conntrack },
    Source { name: "neighbour", help: "neighbour tables beside their limits", read: read_neighbour },
    Source { name: "route", help: "addresses and routes of each device", read: read_route },
    Source { name: "sysctl", help: "every parameter of the catalogue", read: read_sysctl },
    Source {
        name: "persisted",
        help: "parameters at the next boot: sysctl.d, and who else sets them",
        read: read_persisted,
    },
    Source { name: "netns", help: "other network namespaces, as --netns says", read: read_netns },
    Source { name: "process", help: "the exporter's own process", read: read_process },
];

fn read_host(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let Context { kernel, unusable_pages, .. } = context;
    snapshot.facts = Some(facts(kernel, unusable_pages)?);
    Ok(())
}

pub(super) fn facts(kernel: &mut Kernel, unusable_pages: &mut Option<u64>) -> Result<Facts> {
    let unusable_pages = *unusable_pages.get_or_insert_with(|| host::read_unusable(kernel));
    Ok(Facts::new(host::read(kernel)?, unusable_pages, kernel.constants().clone()))
}

fn read_snmp(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.snmp = Some(counters::read_snmp(kernel)?);
    Ok(())
}

fn read_snmp6(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.snmp6 = Some(counters::read_snmp6(kernel)?);
    Ok(())
}

fn read_netstat(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.netstat = Some(counters::read_netstat(kernel)?);
    Ok(())
}

fn read_sockstat(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.sockstat = Some(sockstat::read(kernel)?);
    let (limits, result) = sockstat::read_limits(kernel);
    snapshot.socket_limits = Some(limits);
    result
}

fn read_sockstat6(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.sockstat6 = Some(sockstat::read6(kernel)?);
    Ok(())
}

fn read_listener(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let (listeners, result) = context.sampler.listeners()?;
    snapshot.listeners = Some(listeners);
    result
}

fn read_connection(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let (connections, result) = context.sampler.connections()?;
    snapshot.connections = Some(connections);
    result
}

fn read_udp(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let (sockets, result) = context.sampler.udp_sockets()?;
    snapshot.udp_sockets = Some(sockets);
    result
}

fn read_softnet(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.softnet = Some(softnet::read(kernel)?);
    Ok(())
}

fn read_netdev(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let Context { kernel, settings, .. } = context;
    let mut found = links::read(kernel)?;
    snapshot.names = Some(Names::new(&found));
    let all = found.len();
    found.retain(|link| settings.devices.keeps(&link.name));
    snapshot.links_left_out = (all - found.len()) as u64;
    let shown = devices(kernel, settings, snapshot).unwrap_or_default();
    for link in found.iter_mut().filter(|link| shown.contains(&link.name)) {
        link.speed = links::read_speed(kernel, &link.name);
    }
    snapshot.links = Some(found);
    Ok(())
}

/// Names of all devices: those already read, or asked for now when that source
/// is off or failed; by sysfs when netlink has no answer.
fn names<'a>(kernel: &mut Kernel, snapshot: &'a mut Snapshot) -> Result<&'a Names> {
    if snapshot.names.is_none() {
        let names = match links::read(kernel) {
            Ok(links) => Names::new(&links),
            Err(error) => match links::read_identities(kernel) {
                Ok(found) if !found.is_empty() => Names::from_identities(found),
                _ => return Err(error),
            },
        };
        snapshot.names = Some(names);
    }
    Ok(snapshot.names.get_or_insert_default())
}

fn read_qdisc(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let Context { kernel, settings, .. } = context;
    let found = qdiscs::read(kernel)?;
    let mut groups = group_qdiscs(&found, names(kernel, snapshot)?);
    groups.retain(|group| settings.devices.keeps(&group.device));
    snapshot.qdiscs = Some(groups);
    Ok(())
}

/// Rings and channels come over ethtool netlink (5.6), the drivers' counters by
/// an older way; the source is absent when there is none of them.
fn read_ethtool(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let Context { kernel, settings, .. } = context;
    let mut found = Nic::default();
    let mut result = Ok(());
    let mut keep = |all: Result<Vec<nic::Settings>>| match all {
        Ok(mut all) => {
            all.retain(|one| settings.devices.keeps(&one.device));
            all
        }
        Err(error) => {
            result = Err(error);
            Vec::new()
        }
    };
    found.rings = keep(nic::read_rings(kernel));
    found.channels = keep(nic::read_channels(kernel));
    for device in devices(kernel, settings, snapshot).unwrap_or_default() {
        if interrupts::read_owner(kernel, &device).is_none() {
            continue;
        }
        match nic::read_driver_counters(kernel, &device) {
            Ok(counters) if counters.is_empty() => {}
            Ok(counters) => found.driver_counters.push((device, counters)),
            Err(error) => result = Err(error),
        }
    }
    let any = !found.driver_counters.is_empty();
    snapshot.nic = Some(found);
    match result {
        Err(error) if error.is_absent() && any => Ok(()),
        result => result,
    }
}

fn read_softirqs(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.softirqs = Some(softirqs::read(kernel)?);
    Ok(())
}

fn read_cpu(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.cpus = Some(cpu::read(kernel)?);
    Ok(())
}

fn read_interrupts(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let Context { kernel, settings, .. } = context;
    let devices = devices(kernel, settings, snapshot)?;
    let owners: Vec<_> = devices.iter().filter_map(|device| interrupts::read_owner(kernel, device)).collect();
    let found = interrupts::read(kernel, &owners)?;
    snapshot.interrupts = Some(group_interrupts(&found, &owners));
    Ok(())
}

fn read_steering(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let Context { kernel, settings, .. } = context;
    let mut found = Vec::new();
    for device in devices(kernel, settings, snapshot)? {
        match steering::read(kernel, &device) {
            Ok(queues) => found.push((device, queues)),
            // The device went away after it was listed, or is listed without
            // being one (bonding_masters).
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    snapshot.steering = Some(found);
    Ok(())
}

/// Devices that sysfs shows and the filter keeps. Sysfs may be mounted for
/// another network namespace, with devices of the same names: where netlink says
/// which devices this one has, only those are taken whose index and address are
/// the same there.
fn devices(kernel: &mut Kernel, settings: &Settings, snapshot: &mut Snapshot) -> Result<Vec<String>> {
    if let Some(known) = &snapshot.in_sysfs {
        return Ok(known.clone());
    }
    let mut found = kernel.roots().list(Root::Sys, "class/net")?;
    found.retain(|name| settings.devices.keeps(name));
    if let Ok(names) = names(kernel, snapshot) {
        found
            .retain(|name| names.identity(name).is_some_and(|known| links::is_in_sysfs(kernel, name, known)));
    }
    snapshot.in_sysfs = Some(found.clone());
    Ok(found)
}

fn read_conntrack(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    let (found, result) = conntrack::read(kernel);
    let Some(mut conntrack) = found else { return result };
    let tracked = context.sampler.tracked_flows().and_then(|(tracked, outcome)| {
        conntrack.tracked = (*tracked).clone();
        outcome
    });
    snapshot.conntrack = Some(conntrack);
    result.and(tracked)
}

fn read_neighbour(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    let (tables, result) = neighbours::read(kernel);
    snapshot.neighbours = Some(tables);
    result
}

fn read_route(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let Context { kernel, settings, .. } = context;
    let addresses = addresses::read_addresses(kernel)?;
    let routes = addresses::read_routes(kernel);
    let names = names(kernel, snapshot)?;
    let keep = |name: &str| settings.devices.keeps(name);
    let addresses = name_counts(&addresses, names, keep);
    let routes = routes.map(|routes| name_counts(&routes, names, keep));
    snapshot.addresses = Some(addresses);
    snapshot.routes = Some(routes?);
    Ok(())
}

const SOMAXCONN: &str = "net.core.somaxconn";

fn read_sysctl(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    // Defaults are left out when the host cannot be told; values are not.
    let Context { kernel, settings, ledger, place, earlier_somaxconn, unusable_pages, .. } = context;
    let facts = snapshot.facts.clone().or_else(|| facts(kernel, unusable_pages).ok());
    let (mut states, result) = parameters::read(kernel, &settings.devices, facts.as_ref(), |_| true);
    ledger.observe(Moment::now(), place, &states, result.is_ok());
    ledger.annotate(&mut states);
    if let Some(Value::Numbers(numbers)) = ledger.before_start(SOMAXCONN) {
        let number = numbers.first().and_then(|number| u64::try_from(*number).ok());
        number.inspect(|number| _ = earlier_somaxconn.set(*number));
    }
    snapshot.parameters = Some(states);
    result
}

/// Owners are found for the running values that `sysctl` read.
fn read_persisted(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let Context { kernel, settings, persisted, unusable_pages, .. } = context;
    let facts = snapshot.facts.clone().or_else(|| facts(kernel, unusable_pages).ok());
    let (found, result) = persisted.read(kernel, settings, facts.as_ref(), Instant::now());
    snapshot.persisted = Some(found);
    let states = snapshot.parameters.as_deref();
    snapshot.owners = states.map(|states| persisted.owners(kernel, states, facts.as_ref()));
    result
}

fn read_netns(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    snapshot.in_initial_namespace = context.kernel.is_in_initial_namespace();
    let Some(namespaces) = &context.namespaces else { return Ok(()) };
    let (found, result) = namespaces.found()?;
    snapshot.namespaces = Some(found);
    result
}

fn read_process(context: &mut Context, snapshot: &mut Snapshot) -> Result<()> {
    let kernel = &mut context.kernel;
    snapshot.process = Some(process::read(kernel)?);
    Ok(())
}
