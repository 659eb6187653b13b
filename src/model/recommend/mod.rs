//! Which value of a parameter this host needs, as far as what was seen of it tells, and
//! why. Nothing is recommended without a reason that can be shown.

mod rails;
mod running;

use super::host::Facts;
use super::parameters::State;
use crate::catalogue::{CATALOGUE, Formula, Parameter};
use crate::read::sysctl::Value;

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
    /// A timeout of connection tracking.
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

/// What to set on a host with these parameters, in their order.
pub fn recommend(states: &[State], facts: Option<&Facts>) -> Vec<Recommendation> {
    let one = |state: &State| {
        let parameter = parameter_of(&state.name)?;
        parameter.recommendation.iter().find_map(|formula| {
            let proposal = propose(formula, state)?;
            let permitted = rails::permit(parameter, state, facts, formula, &proposal);
            permitted.then(|| Recommendation {
                name: state.name.clone(),
                fields: state.fields.clone(),
                value: proposal.value,
                basis: proposal.basis,
                reason: proposal.reason,
            })
        })
    };
    states.iter().filter_map(one).collect()
}

fn propose(formula: &Formula, state: &State) -> Option<Proposal> {
    match formula {
        Formula::Dangerous { when, to } => running::dangerous(state, *when, *to),
        Formula::BelowDefault { field } => running::below_default(state, field.as_deref()),
    }
}

/// The entry of the catalogue that a name belongs to.
fn parameter_of(name: &str) -> Option<&'static Parameter> {
    CATALOGUE.get(name)
}

#[cfg(test)]
mod tests;
