//! The catalogue joined with the running kernel.

use std::sync::Arc;

use super::changes::Change;
use super::defaults::default_beside;
use super::host::Facts;
use crate::catalogue::Parameter;
use crate::read::sysctl::{Reading, Value};

/// One parameter as it stands on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its name, with the interface where the catalogue has `*`. As sysctl(8)
    /// writes it: a dot in the interface's name becomes a slash.
    pub name: String,
    /// Names of its integers; empty when it has one.
    pub fields: Vec<String>,
    /// The running value.
    pub value: Value,
    /// The kernel's default on this host, where it is known and a number.
    pub default: Option<Vec<i64>>,
    /// Shown, but not to be changed in this namespace, although the catalogue
    /// knows it as changeable.
    pub locked: bool,
    /// Whether anybody can change it; what the kernel only tells moves by itself.
    pub changeable: bool,
    /// The index number of the device it belongs to, of one that does.
    pub device: Option<u32>,
    /// Its last change, if one was seen.
    pub last_change: Option<Arc<Change>>,
}

impl State {
    /// Joins an entry of the catalogue with what was read.
    pub fn new(parameter: &Parameter, name: String, reading: Reading, facts: Option<&Facts>) -> Self {
        // For text the catalogue's default is documentation, not a number.
        let default = match &reading.value {
            Value::Numbers(running) => facts.and_then(|facts| default_beside(parameter, running, facts)),
            Value::Text(_) => None,
        };
        Self {
            name,
            fields: parameter.fields.clone(),
            value: reading.value,
            default,
            locked: reading.read_only && !parameter.read_only,
            changeable: !parameter.read_only,
            device: None,
            last_change: None,
        }
    }
}

/// The name of a parameter of one interface: `net.ipv4.conf.eth0/100.rp_filter`.
pub fn interface_name(pattern: &str, interface: &str) -> String {
    pattern.replace('*', &interface.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_in_interface_names_become_slashes() {
        let pattern = "net.ipv4.conf.*.rp_filter";
        assert_eq!(interface_name(pattern, "eth0"), "net.ipv4.conf.eth0.rp_filter");
        assert_eq!(interface_name(pattern, "eth0.100"), "net.ipv4.conf.eth0/100.rp_filter");
    }
}
