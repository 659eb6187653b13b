//! What the next boot sets: the files of sysctl.d as the program that applies them here
//! reads them, joined with the catalogue.

mod boot;
mod masks;
mod names;
mod place;
mod problems;
mod writes;

use std::collections::BTreeSet;

pub use place::{Persisting, persisting};
pub use problems::{FileProblem, Problem};
pub use writes::{Stored, Taking, written};

use super::parameters::interface_name;
use crate::catalogue::{CATALOGUE, Parameter};
use crate::read::persisted::{Configuration, Loader};

/// A parameter of the catalogue that this kernel has.
#[derive(Debug, Clone)]
pub struct Key {
    /// Path below `/proc/sys`.
    pub path: String,
    /// Its name, as in [`super::parameters::State`].
    pub name: String,
    /// What the catalogue knows.
    pub parameter: &'static Parameter,
}

impl Key {
    /// The interface it belongs to, `all` and `default` included.
    fn interface(&self) -> Option<&str> {
        let (before, after) = self.parameter.name.split_once('*')?;
        self.path.get(before.len()..self.path.len().checked_sub(after.len())?)
    }
}

/// Every key of the catalogue for these interfaces that is here, or comes with a module.
pub fn keys(interfaces: &[String], is_here: impl Fn(&str) -> bool) -> Vec<Key> {
    let mut keys = Vec::new();
    for parameter in &CATALOGUE.parameters {
        let Some(pattern) = parameter.path() else { continue };
        let mut add = |path: String, name: String| {
            if parameter.module.is_some() || is_here(&path) {
                keys.push(Key { path, name, parameter });
            }
        };
        if pattern.contains('*') {
            for interface in ["all", "default"].into_iter().chain(interfaces.iter().map(String::as_str)) {
                add(pattern.replace('*', interface), interface_name(&parameter.name, interface));
            }
        } else {
            add(pattern, parameter.name.clone());
        }
    }
    keys
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Absolute path on the host.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
}

/// One parameter that files set, under either program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// As in [`super::parameters::State`].
    pub name: String,
    /// Names of its integers; empty when it has one.
    pub fields: Vec<String>,
    /// What it is after boot; `None` where only the other program sets it.
    pub value: Option<Stored>,
    /// The line that sets it.
    pub place: Option<Place>,
    /// Lines that set it too, and are not the ones that count.
    pub overridden: Vec<Place>,
    /// What the other program would leave, where that is here and leaves another value.
    pub conflict: Option<Other>,
}

/// What the program that does not run at boot would leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// `None` where it sets nothing.
    pub value: Option<Stored>,
    /// The line that sets it.
    pub place: Option<Place>,
}

/// What the next boot sets, and what is wrong with the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Persisted {
    /// In the order of the catalogue.
    pub settings: Vec<Setting>,
    /// By file and kind, the worst first.
    pub problems: Vec<FileProblem>,
}

/// Joins the files with the catalogue. `unknown` are paths below `/proc/sys` that the
/// files name and this kernel does not have.
pub fn evaluate(
    configuration: &Configuration,
    keys: &[Key],
    unknown: &BTreeSet<String>,
    taking: Taking,
) -> Persisted {
    let Some(loader) = configuration.loader else {
        return Persisted::default();
    };
    let other = match loader {
        Loader::Systemd => Loader::Procps,
        Loader::Procps => Loader::Systemd,
    };
    let left = boot::boot(configuration, loader, keys, taking);
    let others =
        if configuration.both { boot::boot(configuration, other, keys, taking) } else { left.clone() };
    let mut settings = Vec::new();
    for ((key, left), other) in keys.iter().zip(&left).zip(others) {
        if left.value.is_none() && other.value.is_none() {
            continue;
        }
        let mut overridden = boot::assignments(configuration, loader, key);
        overridden.retain(|place| Some(place) != left.place.as_ref());
        let differs = left.value != other.value;
        settings.push(Setting {
            name: key.name.clone(),
            fields: key.parameter.fields.clone(),
            value: left.value.clone(),
            place: left.place.clone(),
            overridden,
            conflict: differs.then_some(Other { value: other.value, place: other.place }),
        });
    }
    let met = left.iter().flat_map(|left| &left.problems);
    let problems = problems::find(configuration, loader, met, unknown);
    Persisted { settings, problems }
}

#[cfg(test)]
mod tests;
