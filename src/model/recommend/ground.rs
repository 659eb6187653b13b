//! What formulas look at.

use std::collections::HashMap;

use super::{Basis, Evidence, Proposal};
use crate::model::connections::Paths;
use crate::model::host::Facts;
use crate::model::parameters::State;
use crate::read::sysctl::Value;

/// The running values beside what is known and was seen of the host.
pub(super) struct Ground<'a> {
    states: HashMap<&'a str, &'a State>,
    pub(super) facts: Option<&'a Facts>,
    pub(super) evidence: &'a Evidence,
    pub(super) paths: &'a Paths,
}

impl<'a> Ground<'a> {
    pub(super) fn new(
        states: &'a [State],
        facts: Option<&'a Facts>,
        evidence: &'a Evidence,
        paths: &'a Paths,
    ) -> Self {
        let states = states.iter().map(|state| (state.name.as_str(), state)).collect();
        Self { states, facts, evidence, paths }
    }

    pub(super) fn state(&self, name: &str) -> Option<&'a State> {
        self.states.get(name).copied()
    }

    /// The running value of another parameter that has one number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        number(self.state(name)?)
    }

    /// The running text of another parameter.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        text(self.state(name)?)
    }

    /// Bytes of memory of the host, and of one page.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        let facts = self.facts?;
        let (memory, page) = (facts.host.memory_total, facts.constants.page_size);
        (memory > 0 && page > 0).then_some((memory, page))
    }

    /// What `bytes` each are as many of as fit in one part of the memory in `part`.
    pub(super) fn as_many(&self, bytes: u64, part: u64) -> Option<u64> {
        self.memory().map(|(memory, _)| memory / part.max(1) / bytes.max(1))
    }

    /// Whether the kernel is of this release or a later one; false where that is not known.
    pub(super) fn is_since(&self, major: u32, minor: u32) -> bool {
        let version = self.facts.and_then(|facts| facts.version);
        version.is_some_and(|version| (version.major, version.minor) >= (major, minor))
    }
}

/// The one number of a parameter.
pub(super) fn number(state: &State) -> Option<u64> {
    numbers(state).map(|[number]| number)
}

/// So many numbers of a parameter, none of them negative.
pub(super) fn numbers<const N: usize>(state: &State) -> Option<[u64; N]> {
    let Value::Numbers(numbers) = &state.value else { return None };
    let unsigned: Option<Vec<_>> = numbers.iter().map(|number| u64::try_from(*number).ok()).collect();
    unsigned?.try_into().ok()
}

/// The text of a parameter.
pub(super) fn text(state: &State) -> Option<&str> {
    match &state.value {
        Value::Text(text) => Some(text),
        Value::Numbers(_) => None,
    }
}

/// The least power of two that is no less.
pub(super) fn power_from(number: u64) -> u64 {
    number.checked_next_power_of_two().unwrap_or(1 << 63)
}

/// The greatest power of two that is no more; 0 for 0.
pub(super) fn power_to(number: u64) -> u64 {
    if number == 0 { 0 } else { 1 << number.ilog2() }
}

/// As the kernel takes it; what is beyond its integers is no value of it anyway.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Proposal {
    /// `what` was seen, and `so` follows.
    pub(super) fn new(value: Value, basis: Basis, what: &str, so: &str) -> Self {
        let mut letters = what.chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
        Self { value, basis, reason: format!("{first}{}: {so}.", letters.as_str()) }
    }

    /// One number.
    pub(super) fn number(number: u64, basis: Basis, what: &str, so: &str) -> Self {
        Self::new(Value::Numbers(vec![signed(number)]), basis, what, so)
    }
}

/// A wanted value of something that takes memory, or as much as there is memory for; the
/// basis says which.
pub(super) fn within(wanted: u64, most: u64, basis: Basis) -> (u64, Basis) {
    if wanted <= most { (wanted, basis) } else { (power_to(most), Basis::Memory) }
}

/// The words for a value that [`within`] gave.
pub(super) fn how(basis: Basis, otherwise: &str) -> &str {
    if basis == Basis::Memory { "as much as memory carries" } else { otherwise }
}
