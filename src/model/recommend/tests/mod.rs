//! Evidence as the sources give it, and what is recommended then. Expected numbers are
//! calculated by hand.

mod buffers;
mod guards;
mod host;
mod queues;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::kernel::Constants;
use crate::model::connections::Pass;
use crate::model::{Connections, Snapshot};
use crate::read::counters::parse_pairs;
use crate::read::host::Host;
use crate::read::sysctl::Reading;

fn facts(release: &str, gib: u64) -> Facts {
    let host = Host {
        release: release.into(),
        memory_total: gib << 30,
        memory_available: Some(gib << 29),
        ..Host::default()
    };
    Facts::new(host, 0, Constants { page_size: 4096, clock_ticks: 100, hz: 250, machine: "x86_64".into() })
}

/// A host and what is seen of it, from second to second.
struct Bench {
    start: Instant,
    facts: Facts,
    states: Vec<State>,
    evidence: Evidence,
    paths: Paths,
}

impl Bench {
    /// 8 GiB, on 6.1, with these running values.
    fn new(running: &[(&str, &[i64])]) -> Self {
        Self::on("6.1.0", running)
    }

    fn on(release: &str, running: &[(&str, &[i64])]) -> Self {
        let mut bench = Self {
            start: Instant::now(),
            facts: facts(release, 8),
            states: Vec::new(),
            evidence: Evidence::default(),
            paths: Paths::default(),
        };
        running.iter().for_each(|(name, numbers)| bench.set(name, Value::Numbers(numbers.to_vec())));
        bench
    }

    fn with_text(mut self, name: &str, text: &str) -> Self {
        self.set(name, Value::Text(text.into()));
        self
    }

    fn set(&mut self, name: &str, value: Value) {
        let entry = CATALOGUE.get(name).unwrap_or_else(|| known(name).unwrap());
        let reading = Reading { value, read_only: false };
        let state = State::new(entry, name.to_owned(), reading, Some(&self.facts));
        match self.states.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = state,
            None => self.states.push(state),
        }
    }

    /// Takes in what was read so many seconds after the start, and the parameters.
    fn see(&mut self, second: u64, snapshot: Snapshot) {
        let snapshot = Snapshot {
            parameters: Some(self.states.clone()),
            facts: Some(self.facts.clone()),
            constants: Some(self.facts.constants.clone()),
            ..snapshot
        };
        self.evidence.observe(self.start + Duration::from_secs(second), &snapshot, Duration::from_secs(15));
    }

    fn all(&self) -> Vec<Recommendation> {
        recommend(&self.states, Some(&self.facts), &self.evidence, &self.paths)
    }

    fn value(&self, name: &str) -> Option<(Value, Basis)> {
        let found = self.all().into_iter().find(|one| one.name == name)?;
        assert!(found.reason.ends_with('.') && found.reason.len() > 20, "{}", found.reason);
        Some((found.value, found.basis))
    }

    fn found(&self, name: &str) -> Option<(Vec<i64>, Basis)> {
        self.value(name).map(|(value, basis)| match value {
            Value::Numbers(numbers) => (numbers, basis),
            Value::Text(text) => panic!("{text}"),
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.value(name).map(|(value, _)| match value {
            Value::Text(text) => text,
            Value::Numbers(numbers) => panic!("{numbers:?}"),
        })
    }
}

/// Counters of one group by name.
fn counters(group: &str, all: &[(&str, u64)]) -> Option<crate::read::counters::Counters> {
    let names: String = all.iter().map(|(name, _)| format!(" {name}")).collect();
    let values: String = all.iter().map(|(_, value)| format!(" {value}")).collect();
    Some(parse_pairs(format!("{group}:{names}\n{group}:{values}\n").as_bytes()).unwrap())
}

fn extended(all: &[(&str, u64)]) -> Snapshot {
    Snapshot { netstat: counters("TcpExt", all), ..Snapshot::default() }
}

fn connections(found: Connections) -> Snapshot {
    Snapshot { connections: Some(Arc::new(found)), ..Snapshot::default() }
}

fn pass(pass: Pass) -> Snapshot {
    connections(Connections { now: Some(pass), ..Connections::default() })
}

#[test]
fn a_dangerous_value_gives_way_to_a_safe_one() {
    let cases = [
        ("net.ipv4.tcp_syncookies", 0, Some(1)),
        ("net.ipv4.tcp_syncookies", 1, None),
        ("net.ipv4.tcp_syncookies", 2, Some(1)),
        ("net.ipv4.tcp_timestamps", 0, Some(1)),
        ("net.ipv4.tcp_timestamps", 2, None),
        ("net.ipv4.tcp_sack", 0, Some(1)),
        ("net.ipv4.tcp_window_scaling", 0, Some(1)),
        ("net.ipv4.tcp_moderate_rcvbuf", 0, Some(1)),
        ("net.ipv4.tcp_shrink_window", 1, Some(0)),
        ("net.ipv4.tcp_tw_recycle", 1, Some(0)),
        ("net.ipv4.tcp_retries2", 7, Some(15)),
        ("net.ipv4.tcp_retries2", 8, None),
        ("net.ipv4.tcp_abort_on_overflow", 1, Some(0)),
    ];
    for (name, running, expected) in cases {
        let found = Bench::new(&[(name, &[running])]).found(name);
        assert_eq!(found, expected.map(|to| (vec![to], Basis::Dangerous)), "{name} {running}");
    }
}

#[test]
fn less_than_the_default_gives_way_to_it() {
    let found = |name: &str, running: &[i64]| Bench::new(&[(name, running)]).found(name);
    assert_eq!(found("net.core.somaxconn", &[1024]), Some((vec![4096], Basis::Default)));
    assert_eq!(found("net.core.somaxconn", &[8192]), None);
    // The default of 6.1 is 4096 131072 6291456; the other two numbers are left alone.
    let rmem = "net.ipv4.tcp_rmem";
    assert_eq!(found(rmem, &[4096, 87380, 4194304]), Some((vec![4096, 87380, 6291456], Basis::Default)));
    assert_eq!(found(rmem, &[4096, 87380, 6291456]), None);
    // That of 8 GiB is 98304 131072 196608, an estimate that may be off by 1 in 50.
    let mem = "net.ipv4.tcp_mem";
    assert_eq!(found(mem, &[96400, 128500, 192700]), None);
    let raised = Some((vec![120000, 131072, 196608], Basis::Default));
    assert_eq!(found(mem, &[120000, 120000, 190000]), raised);
}

#[test]
fn a_table_that_may_be_the_namespaces_own_has_no_known_default() {
    let buckets = "net.ipv4.tcp_max_tw_buckets";
    let mut bench = Bench::new(&[(buckets, &[1024])]);
    assert_eq!(bench.found(buckets), None);
    bench.set("net.ipv4.tcp_ehash_entries", Value::Numbers(vec![65536]));
    // 8 GiB >> 17 = 65536, half of it.
    assert_eq!(bench.found(buckets), Some((vec![32768], Basis::Default)));
    assert_eq!(
        Bench::on("5.10.0", &[(buckets, &[1024])]).found(buckets),
        Some((vec![32768], Basis::Default))
    );
}

#[test]
fn names_of_bases_are_distinct() {
    let names: std::collections::BTreeSet<_> = Basis::ALL.iter().map(|basis| basis.name()).collect();
    assert_eq!(names.len(), Basis::ALL.len());
}
