//! What is wrong with the files, as counts of lines.

use std::collections::{BTreeMap, BTreeSet};

use super::Place;
use super::boot::lines;
use crate::catalogue::CATALOGUE;
use crate::read::persisted::{Configuration, Content, Loader, is_pattern};

/// Most pairs of file and problem that are named.
const NAMED: usize = 20;

/// What can be wrong with a line, or with a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The file cannot be read, or is too large to be.
    Unreadable,
    /// No assignment, or a line of a shell.
    Syntax,
    /// The kernel refuses the value.
    RefusedValue,
    /// The module of the key, or of what the value names, is not loaded before parameters
    /// are set.
    ModuleMissing,
    /// The kernel has no such key.
    UnknownKey,
    /// Whether the kernel has what the value names cannot be told.
    Unverified,
}

impl Problem {
    /// As in the `problem` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::RefusedValue => "refused_value",
            Self::ModuleMissing => "module_missing",
            Self::UnknownKey => "unknown_key",
            Self::Unverified => "unverified",
        }
    }
}

/// One kind of problem in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// Absolute path on the host.
    pub file: String,
    /// What it is.
    pub problem: Problem,
    /// Lines that have it; 1 for a file as a whole.
    pub lines: u64,
}

/// Modules of keys that are not in the catalogue, by how their paths start.
const MODULES: [(&str, &str); 3] = [
    ("net/bridge/", "br_netfilter"),
    ("net/netfilter/nf_conntrack_", "nf_conntrack"),
    ("net/nf_conntrack_max", "nf_conntrack"),
];

/// The module that makes the key at this path below `/proc/sys`.
fn module_of(path: &str) -> Option<&'static str> {
    let known = CATALOGUE.get(&path.replace('/', ".")).and_then(|parameter| parameter.module.as_deref());
    known.or_else(|| MODULES.iter().find(|(start, _)| path.starts_with(start)).map(|(_, module)| *module))
}

pub(super) fn find<'p>(
    configuration: &Configuration,
    loader: Loader,
    met: impl Iterator<Item = &'p (Problem, Place)>,
    unknown: &BTreeSet<String>,
) -> Vec<FileProblem> {
    let mut found: BTreeMap<(Problem, String), BTreeSet<usize>> = BTreeMap::new();
    let mut add = |problem, place: Place| {
        found.entry((problem, place.file)).or_default().insert(place.line);
    };
    for file in configuration.files.iter().filter(|file| file.is_applied_by(loader)) {
        if file.lines(loader).is_none() {
            add(Problem::Unreadable, Place { file: file.path.clone(), line: 0 });
        }
    }
    for (problem, place) in met {
        add(*problem, place.clone());
    }
    for (content, place) in lines(configuration, loader) {
        match content {
            Content::Unreadable => add(Problem::Syntax, place),
            Content::Assignment { path, may_fail, .. } if !is_pattern(path) => {
                let is_unknown = unknown.contains(path);
                match module_of(path) {
                    Some(module) if is_late(configuration, module, is_unknown) => {
                        add(Problem::ModuleMissing, place)
                    }
                    None if is_unknown && !may_fail => add(Problem::UnknownKey, place),
                    // The module is early and the key is not here: this kernel has it not.
                    Some(module)
                        if is_unknown && !may_fail && configuration.modules.loaded.contains_key(module) =>
                    {
                        add(Problem::UnknownKey, place);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    let mut problems: Vec<_> = found
        .into_iter()
        .map(|((problem, file), lines)| FileProblem { file, problem, lines: lines.len() as u64 })
        .collect();
    problems.sort_by(|one, two| one.problem.cmp(&two.problem).then(two.lines.cmp(&one.lines)));
    problems.truncate(NAMED);
    problems
}

/// Whether the module comes after parameters are set, if at all. One whose keys are here
/// while it is not among the loaded ones is part of the kernel.
fn is_late(configuration: &Configuration, module: &str, is_unknown: bool) -> bool {
    let modules = &configuration.modules;
    let is_module = is_unknown || modules.loaded.contains_key(module);
    is_module && !modules.is_early(module)
}
