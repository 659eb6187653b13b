//! Whose sockets are whose: names of systemd units and containers by cgroup.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::kernel::sock_diag::Memory;

/// Time from one walk in search of names to the next.
const PAUSE: Duration = Duration::from_secs(60);

/// Most answers that are kept.
const KEPT: usize = 4096;

/// Units whose socket memory is shown; the others are summed up.
pub const NAMED: usize = 10;

/// A short name for the cgroup at `path`: the container, else the unit (`*.service`,
/// `*.scope`) that it is or is within, the innermost of several, else its last
/// component. The root, which is everything, has none.
pub fn unit_of(path: &str) -> Option<String> {
    let components = path.split('/').filter(|component| !component.is_empty());
    let (first, last) = (components.clone().next()?, components.clone().next_back()?);
    let unit = components.rev().find_map(|component| {
        let is_unit = component.ends_with(".service") || component.ends_with(".scope");
        container(component, first).or_else(|| is_unit.then(|| component.to_owned()))
    });
    Some(unit.unwrap_or_else(|| last.to_owned()))
}

/// `docker-<64 hex>.scope`, `cri-containerd-<64 hex>.scope`, `…:cri-containerd:<64 hex>`
/// and `<64 hex>` within a folder of `first`, as (runtime, 12 digits), which is how
/// these programs show them.
fn container(component: &str, first: &str) -> Option<String> {
    const DIGITS: usize = 64;
    let name = component.strip_suffix(".scope").unwrap_or(component);
    let (before, id) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
    if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let before = before.trim_end_matches(['-', ':']);
    let runtime = match before.rsplit(':').next().unwrap_or_default() {
        "" => first.trim_end_matches(".slice"),
        "libpod" => "podman",
        "cri-containerd" => "containerd",
        other => other,
    };
    Some(format!("{runtime}/{}", &id[..12]))
}

/// Names that a walk over the host finds, by a number that is never given twice. A
/// walk is dear: it is made only for numbers that nobody asked for before, and not
/// more often than once a minute. What it did not find is remembered as well, and what
/// was asked for meanwhile is for the next one.
#[derive(Debug, Default)]
pub struct Names {
    known: HashMap<u64, Option<String>>,
    wanted: BTreeSet<u64>,
    walked: Option<Instant>,
}

impl Names {
    /// The name, where there is one and it was found.
    pub fn get(&self, number: u64) -> Option<&str> {
        self.known.get(&number)?.as_deref()
    }

    /// Those of `numbers` for which a walk should be made now; it counts as made.
    pub fn missing(&mut self, now: Instant, numbers: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
        let unknown = numbers.into_iter().filter(|number| !self.known.contains_key(number));
        self.wanted.extend(unknown.take(KEPT.saturating_sub(self.wanted.len())));
        let is_early = self.walked.is_some_and(|walked| now.saturating_duration_since(walked) < PAUSE);
        if is_early || self.wanted.is_empty() {
            return BTreeSet::new();
        }
        self.walked = Some(now);
        std::mem::take(&mut self.wanted)
    }

    /// Takes in what a walk found of those that were missing.
    pub fn learn(&mut self, missing: BTreeSet<u64>, mut found: HashMap<u64, String>) {
        if self.known.len() + missing.len() > KEPT {
            self.known.clear();
        }
        let answers = missing.into_iter().take(KEPT).map(|number| (number, found.remove(&number)));
        self.known.extend(answers);
    }
}

/// Socket memory by cgroup, as one pass over sockets adds it up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// For every socket it is asked once: what is hashed is a number of the kernel's,
    /// and a fast function does.
    by_cgroup: hashbrown::HashMap<u64, u64>,
    /// Of sockets whose cgroup the kernel does not tell.
    untold: u64,
}

/// What stands for all that are not named.
const OTHER: &str = "other";

/// Socket memory of one unit, or of all that are not named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitMemory {
    /// Its name, or `other`.
    pub unit: String,
    /// Bytes.
    pub bytes: u64,
}

impl SocketMemory {
    /// What a socket holds, bytes: received, queued for sending, and reserved.
    pub fn held(memory: &Memory) -> u64 {
        // The kernel keeps what is reserved with a sign, and may be met while it is
        // below 0.
        let reserved = if memory.fwd_alloc > i32::MAX as u32 { 0 } else { memory.fwd_alloc };
        [memory.rmem_alloc, memory.wmem_queued, reserved].into_iter().map(u64::from).sum()
    }

    /// Adds bytes that a socket made in this cgroup holds.
    pub fn add(&mut self, cgroup: Option<u64>, bytes: u64) {
        match cgroup {
            Some(number) => *self.by_cgroup.entry(number).or_default() += bytes,
            None => self.untold += bytes,
        }
    }

    /// Every cgroup that has sockets.
    pub fn cgroups(&self) -> impl Iterator<Item = u64> {
        self.by_cgroup.keys().copied()
    }

    /// By unit: those that hold most by name, then `other` with the rest and with
    /// what no unit is known for. Several cgroups may have one name.
    pub fn by_unit(&self, names: &Names) -> Vec<UnitMemory> {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        let mut other = self.untold;
        for (number, bytes) in &self.by_cgroup {
            match names.get(*number) {
                // A folder may be called that.
                Some(name) if name != OTHER => *by_name.entry(name).or_default() += bytes,
                _ => other += bytes,
            }
        }
        let mut units: Vec<UnitMemory> =
            by_name.into_iter().map(|(unit, bytes)| UnitMemory { unit: unit.to_owned(), bytes }).collect();
        units.sort_by_key(|unit| Reverse(unit.bytes));
        other += units.drain(units.len().min(NAMED)..).map(|unit| unit.bytes).sum::<u64>();
        units.sort_unstable_by(|one, two| one.unit.cmp(&two.unit));
        units.push(UnitMemory { unit: OTHER.into(), bytes: other });
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_cgroup_is_named_by_its_container_or_unit() {
        for (path, expected) in [
            ("system.slice/nginx.service", "nginx.service"),
            ("system.slice/nginx.service/worker", "nginx.service"),
            ("system.slice/dev\\x2dpts.service", "dev\\x2dpts.service"),
            ("user.slice/user-0.slice/user@0.service/app.slice/web.service", "web.service"),
            ("user.slice/user-0.slice/session-3.scope", "session-3.scope"),
            ("init.scope", "init.scope"),
            ("system.slice/docker-ID.scope", "docker/0123456789ab"),
            ("docker/ID", "docker/0123456789ab"),
            ("machine.slice/libpod-ID.scope/container", "podman/0123456789ab"),
            ("kubepods.slice/kubepods-pod7.slice/crio-ID.scope", "crio/0123456789ab"),
            ("kubepods.slice/kubepods-pod7.slice/cri-containerd-ID.scope", "containerd/0123456789ab"),
            ("system.slice/k3s.service/kubepods-pod7.slice:cri-containerd:ID", "containerd/0123456789ab"),
            ("kubepods/burstable/pod7/ID", "kubepods/0123456789ab"),
            // What runs in a container is told by its own unit.
            ("system.slice/docker-ID.scope/system.slice/nginx.service", "nginx.service"),
            ("lxc/web", "web"),
            ("lxc/x-IDx", "x-IDx"),
        ] {
            let unit = unit_of(&format!("/{}", path.replace("ID", ID))).unwrap();
            assert_eq!(unit, expected.replace("ID", ID), "{path}");
        }
        assert_eq!((unit_of("/"), unit_of("")), (None, None));
        // Cut within a character, or too short for an identifier.
        assert_eq!(unit_of(&format!("/ä{}", "é".repeat(32))).unwrap(), format!("ä{}", "é".repeat(32)));
    }

    fn names(known: &[(u64, &str)]) -> Names {
        let mut names = Names::default();
        let found = known.iter().map(|(number, name)| (*number, (*name).to_owned())).collect();
        let missing = names.missing(Instant::now(), known.iter().map(|(number, _)| *number));
        names.learn(missing, found);
        names
    }

    #[test]
    fn nobody_walks_twice_for_the_same_or_twice_a_minute() {
        let (mut names, start) = (Names::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let missing = names.missing(after(0), [7, 8]);
        assert_eq!(missing, BTreeSet::from([7, 8]));
        names.learn(missing, HashMap::from([(7, "a".to_owned()), (99, "not asked for".to_owned())]));
        assert_eq!((names.get(7), names.get(8), names.get(99)), (Some("a"), None, None));
        assert_eq!(names.missing(after(70), [7, 8]), BTreeSet::new());
        // Nothing was walked for, so that the minute has not begun anew.
        assert_eq!(names.missing(after(71), [7, 9]), BTreeSet::from([9]));
        // That walk failed: it is tried again, a minute later, with who asked meanwhile.
        assert_eq!(names.missing(after(130), [9]), BTreeSet::new());
        assert_eq!(names.missing(after(130), [10]), BTreeSet::new());
        assert_eq!(names.missing(after(131), [11]), BTreeSet::from([9, 10, 11]));
        assert_eq!(names.missing(after(300), []), BTreeSet::new());
    }

    #[test]
    fn answers_are_bounded() {
        let mut names = Names::default();
        for start in [0, 4000] {
            let missing: BTreeSet<u64> = (start..start + 4000).collect();
            names.learn(missing, HashMap::from([(start, "x".to_owned())]));
        }
        assert_eq!((names.known.len(), names.get(0), names.get(4000)), (4000, None, Some("x")));
    }

    #[test]
    fn what_is_reserved_may_be_below_nothing() {
        let memory = Memory { rmem_alloc: 1, wmem_queued: 20, fwd_alloc: 300, ..Memory::default() };
        assert_eq!(SocketMemory::held(&memory), 321);
        assert_eq!(SocketMemory::held(&Memory { fwd_alloc: -4096i32 as u32, ..memory }), 21);
    }

    #[test]
    fn memory_is_summed_by_name_and_the_least_is_other() {
        let known: Vec<(u64, String)> =
            (1..=12).map(|number| (number, format!("unit-{number:02}"))).collect();
        let mut known: Vec<(u64, &str)> =
            known.iter().map(|(number, name)| (*number, name.as_str())).collect();
        // Two folders of one name.
        known.push((13, "unit-12"));
        let mut memory = SocketMemory::default();
        for number in 1..=13 {
            memory.add(Some(number), number);
            memory.add(Some(number), 99 * number);
        }
        memory.add(None, 5);
        memory.add(Some(77), 6);
        memory.add(None, 10);
        let found = memory.by_unit(&names(&known));
        let found: Vec<_> = found.iter().map(|unit| (unit.unit.as_str(), unit.bytes)).collect();
        assert_eq!(found.len(), NAMED + 1);
        assert_eq!((found[0], found[9]), (("unit-03", 300), ("unit-12", 2500)));
        // 100 and 200 of the two least, 15 of no cgroup, 6 of one without a name.
        assert_eq!(found[10], ("other", 321));
        assert_eq!(SocketMemory::default().by_unit(&Names::default()).len(), 1);
    }

    #[test]
    fn a_folder_called_other_is_no_second_one() {
        let mut memory = SocketMemory::default();
        memory.add(Some(1), 7);
        memory.add(Some(2), 30);
        memory.add(None, 400);
        let found = memory.by_unit(&names(&[(1, "other"), (2, "x")]));
        let found: Vec<_> = found.iter().map(|unit| (unit.unit.as_str(), unit.bytes)).collect();
        assert_eq!(found, [("x", 30), ("other", 407)]);
    }
}
