//! Whether the kernel has the congestion control or queueing discipline that a file names.

use crate::read::persisted::Modules;

use super::writes::Taking;

const CHOSEN: &str = "net.ipv4.tcp_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";
const QDISC: &str = "net.core.default_qdisc";

/// Part of every kernel that has the key, in no module of their own
/// (net/ipv4/tcp_cong.c:tcp_congestion_default, net/sched/sch_api.c:pktsched_init).
const ALWAYS: [&str; 7] = ["reno", "pfifo_fast", "pfifo", "bfifo", "pfifo_head_drop", "noqueue", "mq"];

/// What comes of a name at boot, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// It is there, or the kernel loads it when it is written.
    Taken,
    /// It would be there if its module were loaded before.
    Late,
    /// Nothing here says what this kernel has.
    Unknown,
    /// It is not there and cannot be loaded.
    Refused,
}

/// What comes of writing `text` to a key, when `chosen` was the last congestion control
/// that was written before.
pub(super) fn outcome(
    modules: &Modules,
    key: &str,
    text: &str,
    chosen: Option<&str>,
    taking: Taking,
) -> Outcome {
    let one = |name| of_name(modules, key, name, taking);
    match key {
        CHOSEN | QDISC => one(text),
        // Names are only looked up, and nothing is loaded for them
        // (net/ipv4/tcp_cong.c:tcp_set_allowed_congestion_control).
        ALLOWED => {
            let names = text.split_ascii_whitespace().filter(|name| Some(*name) != chosen);
            let outcomes = names.map(|name| match one(name) {
                Outcome::Taken if !is_there(modules, name, &module(key, name)) => Outcome::Late,
                outcome => outcome,
            });
            outcomes.max().unwrap_or(Outcome::Taken)
        }
        _ => Outcome::Taken,
    }
}

/// The module that a value needs to be loaded before, so that it is taken.
pub(super) fn missing_module(modules: &Modules, key: &str, text: &str, taking: Taking) -> Option<String> {
    let is_late = outcome(modules, key, text, None, taking) == Outcome::Late;
    let mut names = text.split_ascii_whitespace().map(|name| (name, module(key, name)));
    names.find(|(name, module)| is_late && !is_there(modules, name, module)).map(|(_, module)| module)
}

/// As it is called when it is asked for; modprobe(8) takes `-` for `_`.
fn module(key: &str, name: &str) -> String {
    match (key, name) {
        // Another name of the same module, which no list of files has.
        (QDISC, "clsact") => "sch_ingress".to_owned(),
        (QDISC, name) => format!("sch_{}", name.replace('-', "_")),
        (_, name) => format!("tcp_{}", name.replace('-', "_")),
    }
}

/// Whether it is there before parameters are set.
fn is_there(modules: &Modules, name: &str, module: &str) -> bool {
    let offered = &modules.offered;
    let is_built_in = offered.built_in.as_ref().is_some_and(|names| names.contains(module));
    // Without modules, what is here now is part of the kernel.
    let is_fixed = offered.is_fixed && offered.congestion_controls.contains(name);
    ALWAYS.contains(&name) || is_built_in || is_fixed || modules.is_early(module)
}

fn of_name(modules: &Modules, key: &str, name: &str, taking: Taking) -> Outcome {
    let module = module(key, name);
    let offered = &modules.offered;
    if is_there(modules, name, &module) {
        return Outcome::Taken;
    }
    let exists = modules.loaded.contains_key(&module)
        || offered.on_disk.as_ref().is_some_and(|names| names.contains(&module));
    if !exists {
        let is_known = match key {
            // The kernel lists these, and those are all.
            CHOSEN | ALLOWED if offered.is_fixed => true,
            _ => offered.built_in.is_some() && (offered.is_fixed || offered.on_disk.is_some()),
        };
        return if is_known { Outcome::Refused } else { Outcome::Unknown };
    }
    // From 6.9 on a discipline is asked for by an alias, which a blacklist hides.
    let is_hidden = key == QDISC && taking.by_alias && modules.blacklisted.contains(&module);
    if modules.replaced.contains(&module) || is_hidden {
        Outcome::Refused
    } else if offered.on_demand {
        Outcome::Taken
    } else {
        Outcome::Late
    }
}
