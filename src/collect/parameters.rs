//! Reads every parameter of the catalogue.

use super::DeviceFilter;
use crate::catalogue::{CATALOGUE, Kind, Parameter};
use crate::kernel::{Kernel, Result};
use crate::model::host::Facts;
use crate::model::parameters::{State, interface_name};
use crate::read::sysctl;

/// Every wanted parameter that this kernel has in this namespace. A key that is absent
/// is left out; one that cannot be read or understood is left out as well, and
/// the first such is the error.
pub(super) fn read(
    kernel: &mut Kernel,
    devices: &DeviceFilter,
    facts: Option<&Facts>,
    wanted: impl Fn(&Parameter) -> bool,
) -> (Vec<State>, Result<()>) {
    let mut states = Vec::with_capacity(CATALOGUE.parameters.len());
    let mut result = Ok(());
    let mut absent = None;
    let interfaces = match sysctl::interfaces(kernel) {
        Ok(mut names) => {
            names.retain(|name| devices.keeps(name));
            names
        }
        Err(error) => {
            result = Err(error);
            Vec::new()
        }
    };
    let indexes = kernel.device_indexes(&interfaces);
    let interfaces: Vec<_> = interfaces.iter().map(String::as_str).zip(indexes).collect();
    let mut read = |parameter: &Parameter, path: &str, name: String, device: Option<u32>| match read_one(
        kernel, parameter, path,
    ) {
        Ok(reading) => {
            states.push(State { device, ..State::new(parameter, name, reading, facts) });
        }
        Err(error) if error.is_absent() => absent = Some(error),
        Err(error) if result.is_ok() => result = Err(error),
        Err(_) => {}
    };
    for parameter in CATALOGUE.parameters.iter().filter(|parameter| wanted(parameter)) {
        let Some(path) = parameter.path() else { continue };
        if path.contains('*') {
            let all = [("all", None), ("default", None)];
            for (interface, device) in all.into_iter().chain(interfaces.iter().copied()) {
                let name = interface_name(&parameter.name, interface);
                read(parameter, &path.replace('*', interface), name, device);
            }
        } else {
            read(parameter, &path, parameter.name.clone(), None);
        }
    }
    match absent {
        // Not one key is here.
        Some(error) if states.is_empty() && result.is_ok() => (states, Err(error)),
        _ => (states, result),
    }
}

fn read_one(kernel: &mut Kernel, parameter: &Parameter, path: &str) -> Result<sysctl::Reading> {
    match parameter.kind {
        Kind::Int => sysctl::read_numbers(kernel, path, 1),
        Kind::Ints => sysctl::read_numbers(kernel, path, parameter.fields.len()),
        Kind::Text | Kind::Object => sysctl::read_text(kernel, path),
    }
}
