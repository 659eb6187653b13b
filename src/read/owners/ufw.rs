//! ufw: an enabled one gives a file of parameters to `sysctl -p` each time it starts or is
//! reloaded (lib/ufw/ufw-init-functions:ufw_start of 0.36.2).

use std::collections::BTreeMap;

use super::shell::variable;
use super::{Evidence, Origin, Program};
use crate::kernel::Kernel;
use crate::read::persisted::{Content, Loader, parse};

const SETTINGS: &str = "/etc/ufw/ufw.conf";
const DEFAULTS: &str = "/etc/default/ufw";

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    let settings = evidence.text(kernel, SETTINGS).unwrap_or_default();
    let defaults = evidence.text(kernel, DEFAULTS).unwrap_or_default();
    // Both are sourced, in this order.
    let all = format!("{defaults}\n{settings}");
    if !matches!(variable(&all, "ENABLED").as_deref(), Some("yes" | "YES")) {
        return;
    }
    let Some(file) = variable(&all, "IPT_SYSCTL").filter(|file| file.starts_with('/')) else { return };
    let text = evidence.text(kernel, &file).unwrap_or_default();
    let mut values = BTreeMap::new();
    for line in parse(text.as_bytes(), Loader::Procps) {
        if let Content::Assignment { path, value, .. } = line.content {
            values.insert(path, value);
        }
    }
    for (path, value) in values {
        evidence.claim(Program::Ufw, path, value, Origin::new(&file, file.as_str()));
    }
}
