//! What either program leaves behind at boot: the writes of a program in their order, and
//! each key after the last of them.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{Outcome, outcome};
use super::problems::Problem;
use super::writes::{Stored, Taking, write};
use super::{Key, Place};
use crate::read::persisted::{Configuration, Content, Loader, Modules, is_pattern, matches};

/// Other paths of the same value: path, and that of the catalogue.
const ALIASES: [(&str, &str); 2] = [
    // net/ipv4/devinet.c:ctl_forward_entry
    ("net/ipv4/conf/all/forwarding", "net/ipv4/ip_forward"),
    // net/netfilter/nf_conntrack_standalone.c:nf_ct_netfilter_table
    ("net/nf_conntrack_max", "net/netfilter/nf_conntrack_max"),
];

/// One key after the boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) value: Option<Stored>,
    /// The line that set it.
    pub(super) place: Option<Place>,
    /// What is wrong with values that lines write to it.
    pub(super) problems: Vec<(Problem, Place)>,
    /// Written itself, not taken over from the template of new devices.
    written: bool,
}

/// One setting that is to be written.
struct Setting<'c> {
    path: &'c str,
    /// `None` only keeps patterns away from the path.
    value: Option<&'c str>,
    may_fail: bool,
    place: Place,
}

/// What each key is after `loader` applied the files, in the order of `keys`.
pub(super) fn boot(configuration: &Configuration, loader: Loader, keys: &[Key], taking: Taking) -> Vec<Left> {
    let mut left = vec![Left::default(); keys.len()];
    let settings = settings(configuration, loader);
    let explicit: BTreeSet<&str> = settings.iter().map(|setting| setting.path).collect();
    let targets = targets(keys);
    let modules = &configuration.modules;
    for setting in &settings {
        let Some(value) = setting.value else { continue };
        if is_pattern(setting.path) {
            for (path, index) in &targets {
                if matches(setting.path, path) && !explicit.contains(path) {
                    apply(&mut left, keys, *index, value, setting, modules, taking);
                }
            }
        } else if let Some(index) = targets.get(setting.path) {
            apply(&mut left, keys, *index, value, setting, modules, taking);
        }
    }
    left
}

/// Lines that assign this key or a pattern of it, in the order of the files.
pub(super) fn assignments(configuration: &Configuration, loader: Loader, key: &Key) -> Vec<Place> {
    let names = |path: &str| {
        let alias = ALIASES.iter().find(|(_, canonical)| *canonical == key.path).map(|(alias, _)| *alias);
        [Some(key.path.as_str()), alias].into_iter().flatten().any(|own| path == own || matches(path, own))
    };
    let lines = lines(configuration, loader);
    lines
        .filter(|(content, _)| matches!(content, Content::Assignment { path, .. } if names(path)))
        .map(|(_, place)| place)
        .collect()
}

/// Every path that leads to a key, aliases included, and the number of the key.
fn targets(keys: &[Key]) -> BTreeMap<&str, usize> {
    let mut targets: BTreeMap<&str, usize> =
        keys.iter().enumerate().map(|(index, key)| (key.path.as_str(), index)).collect();
    for (alias, canonical) in ALIASES {
        if let Some(index) = targets.get(canonical) {
            targets.insert(alias, *index);
        }
    }
    targets
}

/// Lines of the files that `loader` applies, in its order.
pub(super) fn lines(
    configuration: &Configuration,
    loader: Loader,
) -> impl Iterator<Item = (&Content, Place)> {
    let files = configuration.files.iter().filter(move |file| file.is_applied_by(loader));
    files.flat_map(move |file| {
        let lines = file.lines(loader).unwrap_or_default().iter();
        lines.map(|line| (&line.content, Place { file: file.path.clone(), line: line.number }))
    })
}

/// procps writes every line. systemd keeps one setting a path: another value goes to the
/// end, the same value leaves it where it was.
fn settings(configuration: &Configuration, loader: Loader) -> Vec<Setting<'_>> {
    let mut settings: BTreeMap<usize, Setting<'_>> = BTreeMap::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, (content, place)) in lines(configuration, loader).enumerate() {
        let setting = match content {
            Content::Assignment { path, value, may_fail } => {
                Setting { path, value: Some(value), may_fail: *may_fail, place }
            }
            Content::Exclusion { path } => Setting { path, value: None, may_fail: true, place },
            Content::Unreadable => continue,
        };
        if loader == Loader::Systemd
            && let Some(earlier) = known.get(setting.path)
        {
            match settings.get_mut(earlier) {
                // Whoever wants another value has to change the later line.
                Some(same) if same.value == setting.value => {
                    same.may_fail |= setting.may_fail;
                    same.place = setting.place;
                    continue;
                }
                _ => settings.remove(earlier),
            };
        }
        known.insert(setting.path, number);
        settings.insert(number, setting);
    }
    settings.into_values().collect()
}

fn apply(
    left: &mut [Left],
    keys: &[Key],
    index: usize,
    value: &str,
    setting: &Setting<'_>,
    modules: &Modules,
    taking: Taking,
) {
    let key = &keys[index];
    let before = left[index].value.clone();
    let (after, taken) = write(key.parameter, value, before.as_ref(), taking);
    let outcome = match &after {
        Some(Stored::Text(text)) if taken => outcome(modules, &key.name, text, chosen(left, keys), taking),
        _ => Outcome::Taken,
    };
    let refused = taken && (!agrees(left, keys, key, after.as_ref()) || outcome == Outcome::Refused);
    let (after, taken) = if refused { (before.clone(), false) } else { (after, taken) };
    let problem = match outcome {
        _ if !taken => Some(Problem::RefusedValue),
        Outcome::Late => Some(Problem::ModuleMissing),
        Outcome::Unknown => Some(Problem::Unverified),
        Outcome::Taken | Outcome::Refused => None,
    };
    if let Some(problem) = problem.filter(|_| !setting.may_fail) {
        left[index].problems.push((problem, setting.place.clone()));
    }
    // A refused write counts as one too (net/ipv4/devinet.c:devinet_conf_proc).
    left[index].written = true;
    if !taken && after == before {
        return;
    }
    left[index] = Left {
        value: after,
        place: Some(setting.place.clone()),
        problems: std::mem::take(&mut left[index].problems),
        written: true,
    };
    // A new template is taken over by devices whose own key nobody wrote and that have no
    // address yet (net/ipv4/devinet.c:devinet_copy_dflt_conf, ipv4_devconf_setall): at boot
    // by all but the loopback device.
    if key.interface() == Some("default") {
        let template = left[index].clone();
        for (other, device) in keys.iter().enumerate() {
            let own = device.interface().is_some_and(|name| !["all", "default", "lo"].contains(&name));
            if own && device.parameter.name == key.parameter.name && !left[other].written {
                let Left { value, place, .. } = template.clone();
                left[other] = Left { value, place, ..left[other].clone() };
            }
        }
    }
}

/// The congestion control that was written so far.
fn chosen<'l>(left: &'l [Left], keys: &[Key]) -> Option<&'l str> {
    let index = keys.iter().position(|key| key.name == "net.ipv4.tcp_congestion_control")?;
    match &left[index].value {
        Some(Stored::Text(name)) => Some(name),
        _ => None,
    }
}

/// Local ports of connections begin where those of the privileged end, or above
/// (net/ipv4/sysctl_net_ipv4.c:ipv4_local_port_range, ipv4_privileged_ports).
fn agrees(left: &[Left], keys: &[Key], key: &Key, after: Option<&Stored>) -> bool {
    const RANGE: (&str, i64) = ("net.ipv4.ip_local_port_range", 32768);
    const START: (&str, i64) = ("net.ipv4.ip_unprivileged_port_start", 1024);
    let first = |stored: Option<&Stored>| match stored {
        Some(Stored::Numbers(values)) => values.first().copied().flatten(),
        _ => None,
    };
    let now = |(name, default): (&str, i64)| {
        let index = keys.iter().position(|other| other.name == name);
        index.and_then(|index| first(left[index].value.as_ref())).unwrap_or(default)
    };
    match first(after) {
        Some(value) if key.name == RANGE.0 => value >= now(START),
        Some(value) if key.name == START.0 => value <= now(RANGE),
        _ => true,
    }
}
