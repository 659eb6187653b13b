//! What stops a proposal, one test for each rail.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const SOMAXCONN: &str = "net.core.somaxconn";

/// A full listener at a limit that somaxconn sets.
fn limited(running: i64, change: impl FnOnce(&mut State)) -> Option<Vec<i64>> {
    let mut bench = Bench::new(&[(SOMAXCONN, &[running])]);
    change(&mut bench.states[0]);
    bench.evidence.sign(bench.start, crate::catalogue::Sign::AcceptQueueFull);
    bench.found(SOMAXCONN).map(|(numbers, _)| numbers)
}

#[test]
fn a_key_that_this_kernel_lacks_gets_none() {
    let bench = Bench::new(&[]);
    assert_eq!(bench.all(), []);
    assert!(limited(8192, |_| {}).is_some());
}

#[test]
fn a_key_without_effect_gets_none() {
    // route.max_size bounds nothing since 6.3, and has no formula; the rail is asked itself.
    let entry = CATALOGUE.parameters.iter().find(|entry| entry.inert_since.is_some()).unwrap();
    let reading = Reading { value: Value::Numbers(vec![1]), read_only: false };
    let state = State::new(entry, entry.name.clone(), reading, None);
    let proposal = Proposal::number(2, Basis::Peak, "seen", "so");
    let permit = |release: &str| {
        let facts = facts(release, 8);
        rails::permit(entry, &state, Some(&facts), &Formula::TrackedFlows, &proposal)
    };
    let since = entry.inert_since.unwrap();
    assert!(!permit(&format!("{since}.0")) && permit("2.6.32"), "{}", entry.name);
}

#[test]
fn what_is_read_only_here_gets_none() {
    assert_eq!(limited(8192, |state| state.locked = true), None);
    assert_eq!(limited(8192, |state| state.changeable = false), None);
}

#[test]
fn what_the_kernel_refuses_is_not_proposed() {
    let entry = CATALOGUE.get("net.ipv4.tcp_tw_reuse").unwrap();
    let bench = Bench::new(&[("net.ipv4.tcp_tw_reuse", &[0])]);
    let permit = |value: Vec<i64>| {
        let proposal = Proposal::new(Value::Numbers(value), Basis::Seen, "seen", "so");
        rails::permit(entry, &bench.states[0], Some(&bench.facts), &Formula::ReuseTimeWait, &proposal)
    };
    assert!(permit(vec![2]));
    assert!(!permit(vec![3]) && !permit(vec![-1]) && !permit(vec![]) && !permit(vec![1, 1]));
}

#[test]
fn the_running_value_is_not_repeated() {
    assert_eq!(limited(65_536, |_| {}), None);
    let bench = Bench::new(&[("net.ipv4.tcp_syncookies", &[1])]);
    assert_eq!(bench.all(), []);
}

#[test]
fn a_capacity_never_becomes_less() {
    // No more than 65536 are proposed.
    assert_eq!(limited(100_000, |_| {}), None);
    // Unless the running value is dangerous: 6 GiB of pages on a host of 8 GiB.
    let mem = "net.ipv4.tcp_mem";
    let bench = Bench::new(&[(mem, &[786_432, 1_048_576, 1_572_864])]);
    assert_eq!(bench.found(mem), Some((vec![98304, 131072, 196608], Basis::Dangerous)));
    // A range is cut from both sides.
    let entry = CATALOGUE.get("net.ipv4.ip_local_port_range").unwrap();
    let bench = Bench::new(&[("net.ipv4.ip_local_port_range", &[32768, 60999])]);
    let permit = |range: [i64; 2]| {
        let proposal = Proposal::new(Value::Numbers(range.to_vec()), Basis::ListeningPorts, "seen", "so");
        rails::permit(entry, &bench.states[0], Some(&bench.facts), &Formula::LocalPorts, &proposal)
    };
    assert!(permit([32768, 61000]) && permit([32767, 60999]));
    assert!(!permit([32769, 61000]) && !permit([32767, 60998]));
}

#[test]
fn nothing_is_beyond_memory() {
    let mut bench = Bench::new(&[(SOMAXCONN, &[8192])]);
    bench.evidence.sign(bench.start, crate::catalogue::Sign::AcceptQueueFull);
    // 2560 bytes each in 1/32 of memory: 1 GiB has room for 13107, 8192 as a power of two.
    bench.facts.host.memory_total = 1 << 30;
    assert_eq!(bench.found(SOMAXCONN), None);
    // 2 GiB for 26214.
    bench.facts.host.memory_total = 2 << 30;
    assert_eq!(bench.found(SOMAXCONN), Some((vec![16384], Basis::Repeat)));
    // Of memory nothing is known.
    assert_eq!(recommend(&bench.states, None, &bench.evidence, &bench.paths), []);
}

#[test]
fn what_is_no_number_of_a_kernel_says_nothing() {
    assert_eq!(limited(-1, |_| {}), None);
    assert_eq!(limited(8192, |state| state.value = Value::Text("8192".into())), None);
    assert_eq!(limited(8192, |state| state.value = Value::Numbers(vec![8192, 1])), None);
    assert_eq!(limited(8192, |state| state.value = Value::Numbers(vec![])), None);
}

#[test]
fn a_text_fits_into_a_label() {
    let entry = CATALOGUE.get("net.ipv4.ip_local_reserved_ports").unwrap();
    let bench = Bench::new(&[]).with_text("net.ipv4.ip_local_reserved_ports", "");
    let permit = |text: String| {
        let proposal = Proposal::new(Value::Text(text), Basis::ListeningPorts, "seen", "so");
        rails::permit(entry, &bench.states[0], Some(&bench.facts), &Formula::ListeningPorts, &proposal)
    };
    assert!(permit("1".repeat(200)));
    assert!(!permit("1".repeat(201)) && !permit("1\n".into()) && !permit(String::new()));
}

/// A number as files may hold it.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), 0i64..100_000, Just(0), Just(-1), Just(i64::MAX), Just(1 << 31)]
}

proptest! {
    /// Whatever the files hold and whatever was seen, the rails hold.
    #[test]
    fn whatever_runs_no_rail_is_broken(
        values in vec(vec(number(), 0..4), CATALOGUE.parameters.len()),
        peaks in any::<[u64; 4]>(),
        texts in vec("[a-z0-9, -]{0,30}", CATALOGUE.parameters.len()),
        gib in 0u64..64,
        minor in 0u32..20,
        locked in any::<u8>(),
    ) {
        let mut bench = Bench::on(&format!("6.{minor}.0"), &[]);
        bench.facts.host.memory_total = gib << 30;
        bench.facts.host.memory_available = Some(peaks[3]);
        for (index, entry) in CATALOGUE.parameters.iter().enumerate() {
            let value = match (&values[index], index % 7) {
                (_, 6) => Value::Text(texts[index].clone()),
                (numbers, 5) => Value::Numbers(numbers.clone()),
                (numbers, _) => {
                    let all = numbers.iter().copied().chain(std::iter::repeat(1));
                    Value::Numbers(all.take(entry.fields.len().max(1)).collect())
                }
            };
            let name = entry.name.replace('*', "eth0");
            let read_only = locked % 5 == (index % 5) as u8;
            let reading = Reading { value, read_only };
            bench.states.push(State::new(entry, name, reading, Some(&bench.facts)));
        }
        bench.evidence = Evidence::arbitrary(bench.start, peaks);
        for one in bench.all() {
            let state = bench.states.iter().find(|state| state.name == one.name).unwrap();
            let entry = known(&one.name).unwrap();
            prop_assert!(!state.locked && state.changeable, "{one:?}");
            prop_assert_ne!(&one.value, &state.value);
            if let (Value::Numbers(then), Value::Numbers(now)) = (&one.value, &state.value) {
                let [least, most] = entry.accepted(250);
                prop_assert_eq!(then.len(), entry.fields.len().max(1));
                prop_assert!(then.iter().all(|number| (0..=most).contains(number) && *number >= least), "{one:?}");
                prop_assert!(now.iter().all(|number| *number >= 0), "{one:?}");
                let is_buffer = ["tcp_mem", "udp_mem"].iter().any(|mark| one.name.ends_with(mark));
                if is_buffer && one.basis != Basis::Dangerous && one.basis != Basis::Default {
                    let bytes = then[2] as u64 * 4096;
                    prop_assert!(bytes <= (gib << 30) / 4, "{one:?}");
                }
            }
        }
    }
}
