//! Our own side of other namespaces: what they are compared with, and what they share
//! with ours and may not show.

use std::collections::BTreeMap;
use std::time::Instant;

use super::super::{Settings, parameters, sources};
use crate::catalogue::{Parameter, Scope};
use crate::kernel::Kernel;
use crate::model::host::Facts;
use crate::model::parameters::State;
use crate::read::sysctl::Value;
use crate::read::tcp_limits::{self, TcpLimits};
use crate::read::udp;

/// What a namespace has for itself and somebody can set there.
pub(super) fn is_own(parameter: &Parameter) -> bool {
    parameter.scope != Scope::Initial && !parameter.read_only
}

/// As it was last read.
#[derive(Default)]
pub(super) struct Host {
    at: Option<Instant>,
    pub(super) facts: Option<Facts>,
    unusable_pages: Option<u64>,
    values: BTreeMap<String, Value>,
    pub(super) tcp: TcpLimits,
    pub(super) udp: udp::Bounds,
}

impl Host {
    /// Reads it anew where it is older than `--sockets.interval`.
    pub(super) fn refresh(&mut self, kernel: &mut Kernel, settings: &Settings, now: Instant) {
        let is_old = |at| now.saturating_duration_since(at) >= settings.sockets_interval;
        if !self.at.is_none_or(is_old) {
            return;
        }
        self.at = Some(now);
        if settings.wants("sysctl") {
            self.facts = sources::facts(kernel, &mut self.unusable_pages).ok();
            let (states, _) = parameters::read(kernel, &settings.devices, None, is_own);
            self.values = states.into_iter().map(|state| (state.name, state.value)).collect();
        }
        if settings.wants("connection") {
            self.tcp = tcp_limits::read(kernel);
        }
        if settings.wants("udp") {
            // What cannot be read is told by the source itself.
            (self.udp, _) = udp::read_bounds(kernel);
        }
    }

    /// Whether a value of a namespace is another than ours, or than the kernel's default.
    pub(super) fn differs(&self, state: &State) -> bool {
        let here = self.values.get(&state.name);
        let default = state.default.as_ref().map(|numbers| Value::Numbers(numbers.clone()));
        here.is_some_and(|value| *value != state.value) || default.is_some_and(|value| value != state.value)
    }
}
