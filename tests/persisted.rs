//! What files set at boot, against what systemd-sysctl and `sysctl --system` leave behind
//! when they are run: each in a network and a mount namespace of its own, where the tree
//! stands in for the host's folders and nothing but keys of the network can be written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nettune::catalogue::Accepts;
use nettune::kernel::{Kernel, Roots};
use nettune::model::host::Facts;
use nettune::model::persisted::{Key, Problem, Stored, Taking, evaluate, keys, persisting};
use nettune::read::persisted::{Configuration, Loader, read};
use nettune::read::{cpu, host};

use crate::fixture;
use crate::support::{Scratch, skip};

/// Prints `path<TAB>value` of the keys named on its standard input before and after.
const APPLY: &str = r#"
set -eu
tree=$1
command=$2
mkdir -p "$tree/etc" "$tree/run" "$tree/usr/local/lib" "$tree/usr/lib/sysctl.d"
mount --bind "$tree/usr/lib/sysctl.d" /usr/lib/sysctl.d
mount --bind "$tree/usr/local/lib" /usr/local/lib
mount --bind "$tree/run" /run
mount --bind "$tree/etc" /etc
mount --bind /proc/sys /proc/sys
mount -o remount,ro,bind /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,rw,bind /proc/sys/net
ip link set lo up
ip link add d0 type veth peer name d.1
echo ready
paths=$(cat)
show() { (cd /proc/sys && grep -H '' $paths | sed 's/:/\t/'); }
show
echo applied
sh -c "$command" >/dev/null 2>&1 || true
show
"#;

fn command(loader: Loader) -> &'static str {
    match loader {
        Loader::Systemd => "/usr/lib/systemd/systemd-sysctl",
        Loader::Procps => "sysctl --system",
    }
}

type Values = BTreeMap<String, String>;

/// Values of these keys before and after the program was run, and `first` before it;
/// `None`, loudly, where that cannot be.
fn apply(tree: &Path, first: &str, loader: Loader, paths: &[&str]) -> Option<(Values, Values)> {
    let mut child = Command::new("unshare")
        .args(["--net", "--mount", "--propagation=private", "sh", "-c", APPLY, "sh"])
        .arg(tree)
        .arg(format!("{first}\n{}", command(loader)))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .ok()?;
    use std::io::Write;
    // A child that could not start does not listen.
    let _ = child.stdin.take()?.write_all(paths.join("\n").as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some(rest) = text.strip_prefix("ready\n") else {
        skip(&format!("no namespace for {loader:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (before, after) = rest.split_once("applied\n").unwrap();
    let values = |text: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        lines.map(|(path, value)| (path.to_owned(), value.replace('\t', " "))).collect()
    };
    Some((values(before), values(after)))
}

pub(crate) fn runs(loader: Loader) -> bool {
    let program = command(loader).split(' ').next().unwrap();
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip(&format!("{program} is not here; `make tools` installs it"));
    }
    found
}

/// Keys that a new network namespace has, as it shows them.
pub(crate) fn namespaced() -> Option<Vec<Key>> {
    let output = Command::new("unshare")
        .args([
            "--net",
            "sh",
            "-c",
            "ip link add d0 type veth peer name d.1; find /proc/sys/net -type f -perm -200",
        ])
        .output()
        .ok()
        .filter(|output| output.status.success());
    let Some(output) = output else {
        skip("no network namespace; this needs root");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let paths: BTreeSet<_> = text.lines().filter_map(|line| line.strip_prefix("/proc/sys/")).collect();
    let all = keys(&["d.1", "d0", "lo"].map(str::to_owned), |path| paths.contains(path));
    Some(all.into_iter().filter(|key| paths.contains(key.path.as_str())).collect())
}

/// A value once the files were applied over what stood there.
fn predicted(before: &str, stored: Option<&Stored>) -> String {
    match stored {
        None => before.to_owned(),
        Some(Stored::Text(text)) => text.clone(),
        Some(Stored::Numbers(numbers)) => {
            let before: Vec<_> = before.split(' ').collect();
            let shown = numbers.iter().zip(before).map(|(number, old)| match number {
                Some(number) => number.to_string(),
                None => old.to_owned(),
            });
            shown.collect::<Vec<_>>().join(" ")
        }
    }
}

fn configuration(tree: &Path, loader: Loader) -> (Configuration, Taking) {
    let mut kernel = Kernel::live(Roots { host: tree.to_owned(), ..Roots::default() });
    let facts = Facts::new(host::read(&mut kernel).unwrap(), 0, kernel.constants().clone());
    let (configuration, _) = read(&mut kernel);
    let taking = Taking::of(Some(&facts), cpu::read_possible(&mut kernel));
    (Configuration { loader: Some(loader), ..configuration }, taking)
}

/// Compares key by key, with `first` run before the program; the number of keys that the tree changes.
pub(crate) fn compare(tree: &Path, first: &str, keys: &[Key], loader: Loader) -> Option<usize> {
    let name = tree.file_name().unwrap().to_string_lossy().into_owned();
    let (configuration, taking) = configuration(tree, loader);
    let found = evaluate(&configuration, keys, &BTreeSet::new(), taking);
    let paths: Vec<_> = keys.iter().map(|key| key.path.as_str()).collect();
    let (before, after) = apply(tree, first, loader, &paths)?;
    let mut wrong = Vec::new();
    let mut changed = 0;
    for key in keys {
        let stored = found
            .settings
            .iter()
            .find(|setting| setting.name == key.name)
            .and_then(|setting| setting.value.as_ref());
        let (Some(before), Some(after)) = (before.get(&key.path), after.get(&key.path)) else { continue };
        changed += usize::from(before != after);
        let expected = predicted(before, stored);
        if expected != *after {
            wrong.push(format!("{}: {before:?} became {after:?}, not {expected:?}", key.path));
        }
    }
    assert!(wrong.is_empty(), "{name} by {loader:?}:\n{}", wrong.join("\n"));
    Some(changed)
}

fn compare_all(trees: &[(PathBuf, &str)]) {
    let Some(keys) = namespaced() else { return };
    let mut changed = 0;
    for loader in Loader::BOTH.into_iter().filter(|loader| runs(*loader)) {
        for (from, below) in trees {
            let scratch = Scratch::new();
            let to = scratch.path(&format!("{}/{below}", from.file_name().unwrap().to_string_lossy()));
            fs::create_dir_all(&to).unwrap();
            fixture::copy(from, &to);
            let tree = scratch.path(&from.file_name().unwrap().to_string_lossy());
            match compare(&tree, "", &keys, loader) {
                Some(keys) => changed += keys,
                None => return,
            }
        }
    }
    assert!(changed > 3 * trees.len(), "only {changed} keys were set");
}

#[test]
fn the_programs_leave_what_is_predicted() {
    let trees: Vec<_> = ["order", "linked", "quirks", "refused", "broken", "edges"]
        .into_iter()
        .map(|name| (fixture::root().join("sysctl.d").join(name), ""))
        .collect();
    compare_all(&trees);
}

/// The limits that the catalogue states are those that the kernel has: one number beyond
/// each is refused, and the number itself is not.
#[test]
fn numbers_are_taken_up_to_their_limits() {
    let Some(keys) = namespaced() else { return };
    let loader = Loader::Systemd;
    if !runs(loader) {
        return;
    }
    let bounds: [fn(i64, i64) -> i64; 4] = [
        |least, _| least.saturating_sub(1),
        |least, _| least,
        |_, most| most,
        |_, most| most.saturating_add(1),
    ];
    let hz = Kernel::live(Roots::default()).constants().hz as i64;
    let mut changed = 0;
    for bound in bounds {
        let scratch = Scratch::new();
        let line = |key: &Key| {
            let (least, most) = match key.parameter.accepts? {
                Accepts::Between([least, most]) => (least, most),
                Accepts::Rule(_) => (-i64::from(i32::MAX) / hz, i64::from(i32::MAX) / hz),
            };
            // What one of them may be depends on the other.
            let alone = !key.name.starts_with("net.ipv4.ip_");
            alone.then(|| format!("{} = {}\n", key.name, bound(least, most)))
        };
        let lines: String = keys.iter().filter_map(line).collect();
        assert!(lines.lines().count() > 40, "{lines}");
        scratch.file("limits/etc/sysctl.d/a.conf", &lines);
        let Some(keys) = compare(&scratch.path("limits"), "", &keys, loader) else { return };
        changed += keys;
    }
    assert!(changed > 40, "only {changed} keys were set");
}

/// Names are looked up in this kernel, by what it says of itself and of its modules.
#[test]
fn a_name_that_the_kernel_lacks_leaves_what_was_there() {
    let Some(keys) = namespaced() else { return };
    let release = Command::new("uname").arg("-r").output().unwrap().stdout;
    let modules = format!("lib/modules/{}", String::from_utf8(release).unwrap().trim());
    for loader in Loader::BOTH.into_iter().filter(|loader| runs(*loader)) {
        for last in ["reno", "nosuch", "tcp_reno"] {
            let scratch = Scratch::new();
            let tree = scratch.path("names");
            fs::create_dir_all(tree.join("etc/sysctl.d")).unwrap();
            fs::create_dir_all(tree.join(&modules)).unwrap();
            for list in ["modules.builtin", "modules.dep"] {
                // Not every kernel has them.
                let _ = fs::copy(Path::new("/").join(&modules).join(list), tree.join(&modules).join(list));
            }
            // Other namespaces may choose this one whatever is allowed.
            for (name, value) in [("10-first.conf", "reno"), ("20-last.conf", last)] {
                let line = format!("net.ipv4.tcp_congestion_control = {value}\n");
                fs::write(tree.join("etc/sysctl.d").join(name), line).unwrap();
            }
            let (configuration, taking) = configuration(&tree, loader);
            let found = evaluate(&configuration, &keys, &BTreeSet::new(), taking);
            if found.problems.iter().any(|found| found.problem == Problem::Unverified) {
                return skip("nothing tells what congestion controls this kernel has");
            }
            let name = "net.ipv4.tcp_congestion_control";
            let setting = found.settings.iter().find(|setting| setting.name == name);
            let stored = setting.and_then(|setting| setting.value.clone());
            // systemd writes the last line alone.
            let left = (last == "reno" || loader == Loader::Procps).then(|| Stored::Text("reno".to_owned()));
            assert_eq!(stored, left, "{last} by {loader:?}");
            if compare(&tree, "", &keys, loader).is_none() {
                return;
            }
        }
    }
}

/// What is advised to keep a value makes both programs set it, and is undone without
/// a trace that either could see.
#[test]
fn what_keeps_a_value_keeps_it_and_is_undone() {
    let Some(keys) = namespaced() else { return };
    let values = [
        ("net.core.somaxconn", "3210"),
        ("net.ipv4.tcp_rmem", "4096 131072 7654321"),
        ("net.ipv4.tcp_congestion_control", "reno"),
        ("net.ipv4.conf.d0.rp_filter", "1"),
    ];
    for loader in Loader::BOTH.into_iter().filter(|loader| runs(*loader)) {
        for name in ["order", "linked", "quirks", "refused", "broken"] {
            for (parameter, value) in values {
                let scratch = Scratch::new();
                let tree = scratch.path(name);
                fs::create_dir_all(&tree).unwrap();
                fixture::copy(&fixture::root().join("sysctl.d").join(name), &tree);
                let (configuration, taking) = configuration(&tree, loader);
                let key = keys.iter().find(|key| key.name == parameter).unwrap();
                let found = evaluate(&configuration, &keys, &BTreeSet::new(), taking);
                let setting = found.settings.iter().find(|setting| setting.name == parameter);
                let steps = persisting(&configuration, key, &keys, setting, value, taking)
                    .unwrap_or_else(|| panic!("{name}: {parameter}"));
                let keep = steps.keep.join("\n");
                let Some((_, after)) = apply(&tree, &keep, loader, &[&key.path]) else { return };
                assert_eq!(after[&key.path], value, "{name} by {loader:?}: {keep}");
                // The tree has the lines now; what undoes them leaves what was predicted before.
                let undo = steps.undo.join("\n");
                let Some((before, after)) = apply(&tree, &undo, loader, &[&key.path]) else { return };
                let stored = setting.and_then(|setting| setting.value.as_ref());
                assert_eq!(
                    after[&key.path],
                    predicted(&before[&key.path], stored),
                    "{name} by {loader:?}: {undo}"
                );
            }
        }
    }
}

/// Trees of distributions and clouds, which are not part of the repository.
#[test]
fn so_they_do_for_what_hosts_have() {
    let Some(corpus) = std::env::var_os("NETTUNE_CORPUS") else {
        return skip("NETTUNE_CORPUS is not set: no trees of other hosts");
    };
    let trees = fs::read_dir(Path::new(&corpus).join("sysctl.d")).unwrap().map(|entry| entry.unwrap().path());
    let trees: Vec<_> = trees
        .map(|tree| {
            let is_root = tree.join("etc").is_dir() || tree.join("usr").is_dir();
            (tree, if is_root { "" } else { "etc/sysctl.d" })
        })
        .collect();
    assert!(trees.len() > 5);
    compare_all(&trees);
}
