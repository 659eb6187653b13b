//! The one-way rule: a module uses only modules to its left.

use std::fs;
use std::path::{Path, PathBuf};

/// Every module, and the modules it may use besides itself.
const ALLOWED: &[(&str, &[&str])] = &[
    ("kernel", &[]),
    ("catalogue", &[]),
    ("read", &["kernel"]),
    ("model", &["kernel", "read", "catalogue"]),
    ("metrics", &["kernel", "read", "model", "catalogue"]),
    ("render", &["catalogue", "metrics"]),
    ("ledger", &["kernel", "read", "model"]),
    ("collect", &["kernel", "read", "model", "ledger", "catalogue"]),
    ("explain", &["catalogue", "collect", "kernel", "model", "read", "render"]),
    ("cli", &["collect", "kernel"]),
    ("config", &["cli", "collect", "kernel", "model", "catalogue"]),
    ("serve", &["metrics", "model", "ledger", "collect", "cli", "config", "kernel"]),
];

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

pub(crate) fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found
}

/// The module a file below `src` belongs to: `src/read/text.rs` → `read`.
fn module(path: &Path) -> String {
    let relative = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let first = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Modules named behind `crate::` in a text, tests and comments included.
fn used(text: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for (start, pattern) in text.match_indices("crate::") {
        let rest = &text[start + pattern.len()..];
        let names = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap().split(',').map(str::trim).collect(),
            None => vec![rest],
        };
        for name in names {
            let end = name.find(|character: char| !character.is_ascii_lowercase() && character != '_');
            modules.push(name[..end.unwrap_or(name.len())].to_owned());
        }
    }
    modules.retain(|module| !module.is_empty());
    modules
}

/// What of `text` in module `from` breaks the rule.
fn violations(from: &str, text: &str) -> Vec<String> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == from) else {
        return vec![format!("{from}: not in the table of modules")];
    };
    let wrong = used(text).into_iter().filter(|to| to != from && !allowed.contains(&to.as_str()));
    wrong.map(|to| format!("{from} uses {to}")).collect()
}

#[test]
fn modules_use_only_what_stands_to_their_left() {
    let mut wrong = Vec::new();
    for path in sources() {
        let from = module(&path);
        if from == "main" || from == "lib" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        wrong.extend(violations(&from, &text).into_iter().map(|what| format!("{}: {what}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_rule_sees_what_it_should() {
    assert_eq!(violations("read", "use crate::model::Snapshot;"), ["read uses model"]);
    assert_eq!(
        violations("kernel", "use crate::{read, serve::run};"),
        ["kernel uses read", "kernel uses serve"]
    );
    assert_eq!(violations("read", "let x = crate::kernel::Root::Sys; use crate::read::text;"), [""; 0]);
    assert_eq!(violations("nosuch", "").len(), 1);
}

#[test]
fn unsafe_stands_only_in_kernel_and_with_its_proof() {
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !line.contains("unsafe {") {
                continue;
            }
            assert_eq!(module(&path), "kernel", "{}:{}", path.display(), index + 1);
            let comment: Vec<_> =
                lines[..index].iter().rev().take_while(|line| line.trim().starts_with("//")).collect();
            let proved = comment.iter().any(|line| line.contains("SAFETY:"));
            assert!(proved, "{}:{}: no SAFETY comment", path.display(), index + 1);
        }
    }
}

#[test]
fn paths_are_joined_and_kernel_files_opened_in_kernel_only() {
    for path in sources() {
        let from = module(&path);
        if ["kernel", "ledger", "config", "render", "serve", "cli", "main"].contains(&from.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for word in ["std::fs", "File::open", "\"/proc", "\"/sys"] {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let found: Vec<_> = code.filter(|line| line.contains(word) && !line.contains("help:")).collect();
            assert!(found.is_empty(), "{}: {word}: {found:?}", path.display());
        }
    }
}
