//! Which namespaces are served, and under which names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::names::{best_mount, by_cgroups, by_mount, enter};
use super::{NotEntered, Others, Place};
use crate::read::namespaces::Ways;

/// Most namespaces that are read.
pub const LIMIT: usize = 256;
/// Most names that are given in an hour: each is a set of new series, and a host may
/// make a hundred namespaces a second.
pub const NEW_NAMES: usize = 512;
const HOUR: Duration = Duration::from_secs(3600);

/// Remembers namespaces from scan to scan.
#[derive(Debug, Default)]
pub struct Roster {
    known: BTreeMap<u64, Known>,
    /// Names given in the last hour, and when.
    given: VecDeque<(Instant, String)>,
}

#[derive(Debug)]
struct Known {
    name: String,
    /// What the name was made from.
    base: Base,
    /// The first process and what its cgroups tell.
    unit: (Option<u32>, Option<String>),
    served: bool,
}

/// What a name is made from, the better the further down.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Base {
    Inode,
    Unit(String),
    Mount(String),
}

/// One that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// What it goes by.
    pub place: Arc<Place>,
    /// A file it is mounted at.
    pub mount: Option<OsString>,
    /// A process inside.
    pub process: Option<u32>,
}

impl Roster {
    /// How many names were given in the last hour.
    pub fn new_names(&self) -> usize {
        self.given.len()
    }

    /// Those of the namespaces `found` that are to be read, by inode number, and how
    /// many are not. One that was not there at the last scan is left for the next:
    /// most that live shorter are not worth a name, and `ip netns add` gives one its name
    /// a moment after it made it. `cgroups` are those of a process.
    pub fn choose(
        &mut self,
        now: Instant,
        found: &BTreeMap<u64, Ways>,
        others: &Others,
        mut cgroups: impl FnMut(u32) -> Vec<String>,
    ) -> (Vec<Chosen>, NotEntered) {
        while self.given.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= HOUR) {
            self.given.pop_front();
        }
        let before: BTreeSet<u64> = self.known.keys().copied().collect();
        self.known.retain(|inode, _| found.contains_key(inode));
        for (inode, ways) in found {
            self.learn(*inode, ways, &mut cgroups);
        }
        self.name(&before);

        let mut not_entered = NotEntered::default();
        let mut left = LIMIT;
        // Those that are served stay so.
        let mut order: Vec<u64> = self.known.keys().copied().filter(|inode| before.contains(inode)).collect();
        order.sort_by_key(|inode| !self.known[inode].served);
        let mut chosen = Vec::new();
        for inode in order {
            let (Some(known), Some(ways)) = (self.known.get_mut(&inode), found.get(&inode)) else { continue };
            known.served = false;
            if !others.include(&known.name) {
                continue;
            }
            let is_new = !self.given.iter().any(|(_, name)| *name == known.name);
            if left == 0 {
                not_entered.limit += 1;
            } else if is_new && self.given.len() >= NEW_NAMES {
                not_entered.new_names += 1;
            } else {
                if is_new {
                    self.given.push_back((now, known.name.clone()));
                }
                left -= 1;
                known.served = true;
                chosen.push(known.chosen(inode, ways));
            }
        }
        chosen.sort_unstable_by_key(|one| one.place.inode);
        (chosen, not_entered)
    }

    /// Names that are asked for, and that none went by at the last scan.
    pub fn missing<'o>(&self, others: &'o Others) -> BTreeSet<&'o str> {
        let Others::Named(names) = others else { return BTreeSet::new() };
        let is_known = |name: &str| self.known.values().any(|known| known.name == name);
        names.iter().map(String::as_str).filter(|name| !is_known(name)).collect()
    }

    fn learn(&mut self, inode: u64, ways: &Ways, cgroups: &mut impl FnMut(u32) -> Vec<String>) {
        let known = self.known.entry(inode).or_insert_with(|| Known {
            name: String::new(),
            base: Base::Inode,
            unit: (None, None),
            served: false,
        });
        if known.unit.0 != ways.process {
            known.unit = (ways.process, ways.process.and_then(|process| by_cgroups(&cgroups(process))));
        }
        let base = match (by_mount(ways), &known.unit.1) {
            (Some(mount), _) => Base::Mount(mount),
            // It keeps the name of a first process that has ended.
            (None, _) if matches!(known.base, Base::Unit(_)) => return,
            (None, Some(unit)) => Base::Unit(unit.clone()),
            (None, None) => Base::Inode,
        };
        if known.base != base {
            (known.base, known.name) = (base, String::new());
        }
    }

    /// Names those that have none. Of several of one name the first known has it, and
    /// the others their number besides.
    fn name(&mut self, before: &BTreeSet<u64>) {
        let mut taken: BTreeSet<String> = self.known.values().map(|known| known.name.clone()).collect();
        for longer_known in [true, false] {
            let unnamed = self
                .known
                .iter_mut()
                .filter(|(inode, known)| known.name.is_empty() && before.contains(inode) == longer_known);
            for (inode, known) in unnamed {
                let name = match &known.base {
                    Base::Mount(name) | Base::Unit(name) => name.clone(),
                    Base::Inode => inode.to_string(),
                };
                known.name = if taken.contains(&name) { format!("{name}-{inode}") } else { name };
                taken.insert(known.name.clone());
            }
        }
    }
}

impl Known {
    fn chosen(&self, inode: u64, ways: &Ways) -> Chosen {
        let unit = self.unit.1.clone().unwrap_or_default();
        let place = Place { name: self.name.clone(), inode, enter: enter(ways), unit };
        Chosen { place: Arc::new(place), mount: best_mount(ways).cloned(), process: ways.process }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mount: &str) -> Ways {
        Ways { mounts: vec![mount.into()], process: None }
    }

    fn by(process: u32) -> Ways {
        Ways { mounts: Vec::new(), process: Some(process) }
    }

    fn cgroups(process: u32) -> Vec<String> {
        match process {
            0..100 => vec!["/".into()],
            100..200 => vec!["/web.slice/a.service".into()],
            _ => vec!["/web.slice/b.service".into()],
        }
    }

    struct Host(Roster, Instant);

    impl Host {
        fn scan(&mut self, found: &[(u64, Ways)], others: &Others) -> (Vec<(u64, String)>, NotEntered) {
            let (chosen, not) = self.0.choose(self.1, &found.iter().cloned().collect(), others, cgroups);
            (chosen.iter().map(|one| (one.place.inode, one.place.name.clone())).collect(), not)
        }

        /// Two scans, so that nothing is new.
        fn names(&mut self, found: &[(u64, Ways)]) -> Vec<(u64, String)> {
            self.scan(found, &Others::All);
            self.scan(found, &Others::All).0
        }
    }

    fn host() -> Host {
        Host(Roster::default(), Instant::now())
    }

    fn named(names: &[(u64, &str)]) -> Vec<(u64, String)> {
        names.iter().map(|(inode, name)| (*inode, (*name).to_owned())).collect()
    }

    #[test]
    fn a_namespace_is_served_from_its_second_scan_on() {
        let (mut host, found) = (host(), [(5, at("/run/netns/web"))]);
        assert_eq!(host.scan(&found, &Others::All).0, []);
        assert_eq!(host.scan(&found, &Others::All).0, named(&[(5, "web")]));
        assert_eq!(host.scan(&[], &Others::All).0, []);
        // Another one of this name begins anew.
        assert_eq!(host.scan(&[(6, at("/run/netns/web"))], &Others::All).0, []);
    }

    #[test]
    fn names_are_by_mount_unit_or_number_and_unique() {
        let mut host = host();
        let found = [(5, at("/run/netns/web")), (6, at("/x/web")), (7, by(1)), (8, by(100)), (9, by(101))];
        let expected = [(5, "web"), (6, "web-6"), (7, "7"), (8, "a.service"), (9, "a.service-9")];
        assert_eq!(host.names(&found), named(&expected));
        // What is known keeps its name, whoever else would have it by order.
        let more = [&found[..], &[(4, at("/z/web"))]].concat();
        let expected = [&[(4, "web-4")], &expected[..]].concat();
        assert_eq!(host.names(&more), named(&expected));
    }

    #[test]
    fn a_better_name_replaces_one_and_a_process_that_ends_does_not() {
        let mut host = host();
        assert_eq!(host.names(&[(5, by(1))]), named(&[(5, "5")]));
        assert_eq!(host.names(&[(5, by(100))]), named(&[(5, "a.service")]));
        assert_eq!(host.names(&[(5, by(200))]), named(&[(5, "a.service")]));
        assert_eq!(host.names(&[(5, at("/run/netns/web"))]), named(&[(5, "web")]));
        // Deleted while it is in use, and another one made in its place.
        let found = [(5, by(100)), (6, at("/run/netns/web"))];
        assert_eq!(host.names(&found), named(&[(5, "a.service"), (6, "web")]));
    }

    #[test]
    fn only_those_that_are_asked_for_are_served() {
        let (mut host, others) = (host(), Others::Named(vec!["b".into(), "none".into()]));
        let found = [(5, at("/run/netns/a")), (6, at("/run/netns/b"))];
        host.scan(&found, &others);
        assert_eq!(host.scan(&found, &others), (named(&[(6, "b")]), NotEntered::default()));
        assert_eq!(host.0.missing(&others), BTreeSet::from(["none"]));
        assert_eq!(host.0.missing(&Others::All), BTreeSet::new());
        host.scan(&[(7, at("/run/netns/none"))], &others);
        assert_eq!(host.0.missing(&others), BTreeSet::from(["b"]), "it need not be old");
        assert_eq!(host.scan(&found, &Others::None).0, []);
    }

    #[test]
    fn those_beyond_the_limit_are_counted_and_wait() {
        let mut host = host();
        let found: Vec<_> =
            (0..LIMIT as u64 + 3).map(|inode| (inode + 10, at(&format!("/run/netns/{inode}")))).collect();
        host.scan(&found[3..], &Others::All);
        host.scan(&found[3..], &Others::All);
        host.scan(&found, &Others::All);
        let (served, not) = host.scan(&found, &Others::All);
        assert_eq!((served.len(), not.limit), (LIMIT, 3));
        assert_eq!(served[0].0, 13, "those that were served stay");
        assert_eq!(host.scan(&found[..LIMIT], &Others::All).0[0].0, 10);
    }

    #[test]
    fn new_names_are_rationed_by_the_hour() {
        let mut host = host();
        let churn = |round: u64| {
            (0..200).map(|n| (round * 1000 + n, at(&format!("/run/netns/{round}-{n}")))).collect::<Vec<_>>()
        };
        let served: Vec<_> = (1..5).map(|round| host.names(&churn(round)).len()).collect();
        assert_eq!((served, host.0.new_names()), (vec![200, 200, 112, 0], NEW_NAMES));
        // A name that was given already costs nothing.
        assert_eq!(host.names(&[(1, at("/run/netns/1-0"))]).len(), 1);
        let (_, not) = host.scan(&churn(4), &Others::All);
        assert_eq!(not.new_names, 0, "the first scan decides nothing");
        assert_eq!(host.scan(&churn(4), &Others::All).1.new_names, 200);
        host.1 += HOUR;
        assert_eq!(host.scan(&churn(4), &Others::All).0.len(), 200);
    }
}
