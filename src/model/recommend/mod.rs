//! Which value of a parameter this host needs, as far as what was seen of it tells, and
//! why. Nothing is recommended without a reason that can be shown.

mod buffers;
mod evidence;
mod ground;
mod memory;
mod ports;
mod queues;
mod rails;
mod running;
mod switches;
mod tables;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::connections::Paths;
use super::host::Facts;
use super::parameters::State;
use crate::catalogue::{CATALOGUE, Formula, Parameter};
use crate::read::sysctl::Value;

use buffers::Side;
pub use evidence::Evidence;
use ground::Ground;

/// A value to set instead of the running one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    /// Name of the parameter, as its [`State`] has it.
    pub name: String,
    /// Names of its integers; empty when it has one.
    pub fields: Vec<String>,
    /// All of its numbers, or its text.
    pub value: Value,
    /// The evidence it rests on.
    pub basis: Basis,
    /// One sentence with the numbers that led to it.
    pub reason: String,
}

impl Recommendation {
    /// As a line of sysctl.d(5).
    pub fn assignment(&self) -> String {
        match &self.value {
            Value::Numbers(numbers) => format!("{} = {}", self.name, listed(numbers)),
            Value::Text(text) => format!("{} = {text}", self.name),
        }
    }
}

/// Numbers as people write them.
fn listed(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

/// The kind of evidence that a value rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// What a declared path holds.
    Declared,
    /// What a path was seen to hold.
    Witnessed,
    /// It limits: a multiple of the running value, to be repeated if it still limits.
    Repeat,
    /// The most that was seen of what it bounds.
    Peak,
    /// Something was seen that another mode or a shorter time avoids.
    Seen,
    /// Ports that programs listen on.
    ListeningPorts,
    /// When connection tracking, or what is declared to be on the way, forgets a connection.
    Tracker,
    /// It limits: as much as memory carries.
    Memory,
    /// The running value is dangerous.
    Dangerous,
    /// The running value is below the kernel's default, and nothing calls for that.
    Default,
}

impl Basis {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Declared,
        Self::Witnessed,
        Self::Repeat,
        Self::Peak,
        Self::Seen,
        Self::ListeningPorts,
        Self::Tracker,
        Self::Memory,
        Self::Dangerous,
        Self::Default,
    ];

    /// As in the `basis` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Witnessed => "witnessed",
            Self::Repeat => "repeat",
            Self::Peak => "peak",
            Self::Seen => "seen",
            Self::ListeningPorts => "listening_ports",
            Self::Tracker => "tracker",
            Self::Memory => "memory",
            Self::Dangerous => "dangerous",
            Self::Default => "default",
        }
    }
}

/// What a formula comes to, before the rails.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Proposal {
    value: Value,
    basis: Basis,
    reason: String,
}

impl Proposal {
    /// The first of its numbers.
    fn first(&self) -> Option<u64> {
        match &self.value {
            Value::Numbers(numbers) => u64::try_from(*numbers.first()?).ok(),
            Value::Text(_) => None,
        }
    }
}

/// What to set on a host with these parameters, in their order.
pub fn recommend(
    states: &[State],
    facts: Option<&Facts>,
    evidence: &Evidence,
    paths: &Paths,
) -> Vec<Recommendation> {
    let ground = Ground::new(states, facts, evidence, paths);
    states.iter().filter_map(|state| one(&ground, state)).collect()
}

fn one(ground: &Ground<'_>, state: &State) -> Option<Recommendation> {
    let parameter = known(&state.name)?;
    let permitted = parameter.recommendation.iter().find_map(|formula| {
        let proposal = propose(ground, formula, state)?;
        rails::permit(parameter, state, ground.facts, formula, &proposal).then_some(proposal)
    });
    let Proposal { value, basis, reason } = permitted?;
    Some(Recommendation { name: state.name.clone(), fields: state.fields.clone(), value, basis, reason })
}

fn propose(ground: &Ground<'_>, formula: &Formula, state: &State) -> Option<Proposal> {
    match formula {
        Formula::Dangerous { when, to } => running::dangerous(state, *when, *to),
        Formula::BeyondMemory { part } => running::beyond_memory(ground, state, *part),
        Formula::BufferBeyondMemory { connections } => {
            running::buffer_beyond_memory(ground, state, *connections)
        }
        Formula::EcnWithoutMarks { to } => running::ecn_without_marks(ground, state, *to),
        Formula::BelowDefault { field } => running::below_default(ground, state, field.as_deref()),
        Formula::Seen { sign, when, to } => switches::seen(ground, state, *sign, *when, *to),
        Formula::Doubled { signs, most } => switches::doubled(ground, state, signs, *most),
        Formula::AcceptQueue { least, most } => queues::accept_queue(ground, state, *least, *most),
        Formula::HalfOpen => queues::half_open(ground, state),
        Formula::TimeWait => queues::time_wait(ground, state),
        Formula::Orphans => queues::orphans(ground, state),
        Formula::ReuseTimeWait => switches::reuse_time_wait(ground, state),
        Formula::LocalPorts => ports::local_ports(ground, state),
        Formula::ListeningPorts => ports::listening_ports(ground, state),
        Formula::SendBuffer => buffers::buffer(ground, state, Side::Send),
        Formula::ReceiveBuffer => buffers::buffer(ground, state, Side::Receive),
        Formula::SendBufferLimit => buffers::limit(ground, state, Side::Send),
        Formula::ReceiveBufferLimit => buffers::limit(ground, state, Side::Receive),
        Formula::DatagramBuffer { most } => buffers::of_datagrams(ground, state, *most),
        Formula::SocketMemory { sign } => memory::socket_memory(ground, state, *sign),
        Formula::LossyPath { to } => switches::lossy_path(ground, state, to),
        Formula::Pacing { to } => switches::pacing(ground, state, to),
        Formula::FlowTable { least, most } => tables::flow_table(ground, state, *least, *most),
        Formula::Neighbours { part } => tables::neighbours(ground, state, *part),
        Formula::TrackedFlows => tables::tracked_flows(ground, state),
        Formula::TrackedBuckets => tables::tracked_buckets(ground, state),
        Formula::LooseFilter => switches::loose_filter(ground, state),
        Formula::Keepalive => switches::keepalive(ground, state),
    }
}

/// The parameters that have a formula, by name.
static KNOWN: LazyLock<HashMap<&'static str, &'static Parameter>> = LazyLock::new(|| {
    let all = CATALOGUE.parameters.iter().filter(|parameter| !parameter.recommendation.is_empty());
    all.map(|parameter| (parameter.name.as_str(), parameter)).collect()
});

/// The parameter that a name belongs to, if it has a formula.
fn known(name: &str) -> Option<&'static Parameter> {
    let of_interfaces = || {
        let (start, end) = ("net.ipv4.conf.", name.rsplit_once('.')?.1);
        let name = name.starts_with(start).then(|| format!("{start}*.{end}"))?;
        KNOWN.get(name.as_str())
    };
    KNOWN.get(name).or_else(of_interfaces).copied()
}

#[cfg(test)]
mod tests;
