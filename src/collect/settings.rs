//! What is to be read, and one look at parameters without a thread.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use regex::Regex;

use super::namespaces::Share;
use super::sampler::Plan;
use super::{Others, Selection, index_of, parameters, sources};
use crate::kernel::Kernel;
use crate::model::Declared;
use crate::model::connections::Paths;
use crate::model::host::Facts;
use crate::model::parameters::State;

/// What to read and of which devices; changed by a reload.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Sources that are read at all.
    pub enabled: Selection,
    /// Which network devices are exported.
    pub devices: DeviceFilter,
    /// Export every counter of netstat and snmp, not just the curated ones.
    pub netstat_all: bool,
    /// Interval of the ticker behind ratios.
    pub sample_interval: Duration,
    /// Time from pass to pass over connections, where the budget allows.
    pub sockets_interval: Duration,
    /// Share of one CPU that walking connections may take, above 0.
    pub sockets_cpu_budget: f64,
    /// Hear of connections that are closed between passes.
    pub close_notifications: bool,
    /// Paths that connections are sorted by.
    pub paths: Arc<Paths>,
    /// Limits and accepted findings.
    pub declared: Arc<Declared>,
    /// Other network namespaces that are read; a reload does not change it.
    pub others: Others,
}

impl Settings {
    pub(super) fn wants(&self, name: &str) -> bool {
        index_of(name).is_some_and(|index| self.enabled.contains(index))
    }

    pub(super) fn sampling(&self, elsewhere: &Arc<Share>, earlier_somaxconn: &Arc<OnceLock<u64>>) -> Plan {
        let wants = |name| self.wants(name);
        Plan {
            listeners: wants("listener"),
            connections: wants("connection"),
            close_notifications: self.close_notifications,
            udp_sockets: wants("udp"),
            tracked_flows: wants("conntrack"),
            interval: self.sockets_interval,
            cpu_budget: self.sockets_cpu_budget,
            elsewhere: Arc::clone(elsewhere),
            paths: Arc::clone(&self.paths),
            earlier_somaxconn: Arc::clone(earlier_somaxconn),
        }
    }
}

/// Which network devices are exported.
#[derive(Debug, Clone)]
pub enum DeviceFilter {
    /// All but those whose name matches.
    Exclude(Regex),
    /// Only those whose name matches.
    Include(Regex),
}

impl DeviceFilter {
    /// Keeps every device.
    pub fn everything() -> Self {
        // Invariant: the empty pattern is one, and matches everything.
        Self::Include(Regex::new("").expect("the empty pattern is valid"))
    }

    /// Whether a device of this name is exported.
    pub fn keeps(&self, name: &str) -> bool {
        match self {
            Self::Exclude(pattern) => !pattern.is_match(name),
            Self::Include(pattern) => pattern.is_match(name),
        }
    }
}

/// What one look at parameters gives.
#[derive(Debug)]
pub struct Look {
    /// The host, as far as it can be read.
    pub facts: Option<Facts>,
    /// Every parameter of the catalogue that is here.
    pub states: Vec<State>,
}

impl Look {
    /// Looks once, without a thread.
    ///
    /// # Errors
    /// Parameters could not be read, nor anything of them.
    pub fn take(kernel: &mut Kernel, devices: &DeviceFilter) -> crate::kernel::Result<Self> {
        let facts = sources::facts(kernel, &mut None).ok();
        match parameters::read(kernel, devices, facts.as_ref(), |_| true) {
            (states, Err(error)) if states.is_empty() => Err(error),
            (states, _) => Ok(Self { facts, states }),
        }
    }
}
