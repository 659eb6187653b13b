use super::*;
use crate::kernel::Constants;
use crate::read::host::Host;

fn facts(release: &str, gib: u64) -> Facts {
    let host = Host { release: release.into(), memory_total: gib << 30, ..Host::default() };
    Facts::new(host, 0, Constants { page_size: 4096, clock_ticks: 100, hz: 250, machine: "x86_64".into() })
}

/// A parameter of a host with 8 GiB, on 6.1.
fn state(name: &str, running: &[i64]) -> State {
    let parameter = parameter_of(name).unwrap();
    let reading = crate::read::sysctl::Reading { value: Value::Numbers(running.to_vec()), read_only: false };
    State::new(parameter, name.to_owned(), reading, Some(&facts("6.1.0", 8)))
}

fn recommended(state: &State) -> Option<(Vec<i64>, Basis)> {
    let found = recommend(std::slice::from_ref(state), Some(&facts("6.1.0", 8)));
    assert!(found.len() <= 1);
    found.into_iter().next().map(|one| match one.value {
        Value::Numbers(numbers) => (numbers, one.basis),
        Value::Text(text) => panic!("{text}"),
    })
}

#[test]
fn a_dangerous_value_gives_way_to_a_safe_one() {
    let cases = [
        ("net.ipv4.tcp_syncookies", 0, Some(1)),
        ("net.ipv4.tcp_syncookies", 1, None),
        ("net.ipv4.tcp_syncookies", 2, Some(1)),
        ("net.ipv4.tcp_timestamps", 0, Some(1)),
        ("net.ipv4.tcp_timestamps", 2, None),
        ("net.ipv4.tcp_retries2", 7, Some(15)),
        ("net.ipv4.tcp_retries2", 8, None),
        ("net.ipv4.tcp_abort_on_overflow", 1, Some(0)),
    ];
    for (name, running, expected) in cases {
        let found = recommended(&state(name, &[running]));
        assert_eq!(found, expected.map(|to| (vec![to], Basis::Dangerous)), "{name} {running}");
    }
}

#[test]
fn less_than_the_default_gives_way_to_it() {
    let found = |name: &str, running: &[i64]| recommended(&state(name, running));
    assert_eq!(found("net.core.somaxconn", &[1024]), Some((vec![4096], Basis::Default)));
    assert_eq!(found("net.core.somaxconn", &[8192]), None);
    // The default of 6.1 is 4096 131072 6291456; the other two numbers are left alone.
    let rmem = "net.ipv4.tcp_rmem";
    assert_eq!(found(rmem, &[4096, 87380, 4194304]), Some((vec![4096, 87380, 6291456], Basis::Default)));
    assert_eq!(found(rmem, &[4096, 87380, 6291456]), None);
}

#[test]
fn names_of_bases_are_distinct() {
    let names: std::collections::BTreeSet<_> = Basis::ALL.iter().map(|basis| basis.name()).collect();
    assert_eq!(names.len(), Basis::ALL.len());
}
