//! What is looked at from time to time, whether or not anybody scrapes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Reader, index_of};
use crate::model::Snapshot;

/// Sources that the ticker reads.
pub(super) const ALL: &[&str] = &["snmp", "netstat", "sockstat", "listener", "connection", "udp", "sysctl"];
/// Of them those that are there at once.
pub(super) const FIRST: &[&str] = &["snmp", "netstat", "sockstat", "sysctl"];

impl Reader {
    /// What is to be known whether or not anybody scrapes.
    pub(super) fn tick(&mut self, sources: &[&str]) {
        let constants = Some(self.context.kernel.constants().clone());
        let declared = Arc::clone(&self.context.settings.declared);
        let mut snapshot = Snapshot { constants, declared, ..Snapshot::default() };
        for index in sources.iter().filter_map(|name| index_of(name)) {
            if self.context.settings.enabled.contains(index) {
                self.read(index, &mut snapshot);
            }
        }
        self.observe(&snapshot);
        let counters = snapshot.snmp;
        let of_tcp = counters.as_ref().and_then(|counters| {
            Some((counters.get("Tcp", "OutSegs")?, counters.get("Tcp", "RetransSegs")?))
        });
        self.retransmit_ratio.tick(of_tcp);
    }

    /// Takes in what recommendations rest on.
    pub(super) fn observe(&mut self, snapshot: &Snapshot) {
        let sampling = self.context.sampler.work();
        let interval = sampling
            .map_or(Duration::ZERO, |sampling| sampling.interval.div_f64(sampling.sampled_ratio.max(1e-4)));
        self.evidence.observe(Instant::now(), snapshot, interval);
    }
}
