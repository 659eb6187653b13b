//! No bytes make a parser panic, and well-formed text survives the way round.

use nettune::read::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::support::all_survive;

/// What a capture of this project holds for each parser, to be garbled.
fn seeds() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut folders = vec![crate::fixture::root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else {
                found.push(std::fs::read(path).unwrap());
            }
        }
    }
    assert!(found.len() > 50, "fixtures are missing");
    found
}

/// Text that looks like the kernel's: words, numbers, blanks, newlines.
fn kernel_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[ \t]{1,3}",
        "\n",
        "[A-Z][A-Za-z]{1,8}:",
        "[a-z_]{1,12}",
        "-?[0-9]{1,21}",
        "[0-9a-f]{8}",
        "CPU[0-9]{1,2}",
        "cpu[0-9]{0,12}",
        ".{0,4}",
    ];
    vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Netlink messages with true lengths around arbitrary content.
fn netlink_like() -> impl Strategy<Value = Vec<u8>> {
    let attribute = (any::<u16>(), vec(any::<u8>(), 0..24)).prop_map(|(kind, value)| {
        let mut bytes = Vec::new();
        bytes.extend(((value.len() + 4) as u16).to_ne_bytes());
        bytes.extend((kind % 64).to_ne_bytes());
        bytes.extend(&value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    });
    let header = prop_oneof![Just(0usize), Just(4), Just(8), Just(12), Just(16), Just(20)];
    let message =
        (header, vec(any::<u8>(), 20), vec(attribute, 0..6)).prop_map(|(size, header, attributes)| {
            let payload = [&header[..size], &attributes.concat()[..]].concat();
            let mut bytes = Vec::new();
            bytes.extend(((payload.len() + 16) as u32).to_ne_bytes());
            bytes.extend([16, 0, 2, 0]);
            bytes.extend([0; 8]);
            bytes.extend(payload);
            bytes
        });
    vec(message, 0..5).prop_map(|messages| messages.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..400)) {
        all_survive(&bytes);
    }

    #[test]
    fn text_like_the_kernels(bytes in kernel_like()) {
        all_survive(&bytes);
    }

    #[test]
    fn messages_like_the_kernels(bytes in netlink_like()) {
        all_survive(&bytes);
    }

    #[test]
    fn counters_survive_the_way_round(
        counters in proptest::collection::btree_map("[A-Z][A-Za-z0-9]{0,12}", any::<u64>(), 1..20)
    ) {
        let names: Vec<_> = counters.keys().cloned().collect();
        let values: Vec<_> = counters.values().map(u64::to_string).collect();
        let text = format!("Tcp: {}\nTcp: {}\n", names.join(" "), values.join(" "));
        let parsed = counters::parse_pairs(text.as_bytes()).unwrap();
        for (name, value) in &counters {
            prop_assert_eq!(parsed.get("Tcp", name), Some(*value));
        }
        prop_assert_eq!(parsed.iter().count(), counters.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens to some lines, the others are read.
    #[test]
    fn lines_that_nothing_happened_to_are_read(
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let line = |value: u32| {
            format!(
                "{{\"v\":1,\"at\":\"2023-11-14T22:13:20Z\",\"kind\":\"change\",\"parameter\":\"x\",\
                 \"from\":{value},\"to\":\"{value}\"}}\n"
            )
        };
        let lines: Vec<String> = (100..120).map(line).collect();
        let mut bytes = lines.concat().into_bytes();
        let length = lines[0].len();
        let mut touched = std::collections::BTreeSet::new();
        for (place, value) in &edits {
            let place = place.index(bytes.len());
            bytes[place] = *value;
            // Without its newline a line takes the next one with it.
            touched.extend([place / length, place / length + usize::from((place + 1) % length == 0)]);
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let whole = (bytes.len() + 1) / length;
        let read = nettune::ledger::parse(&bytes);
        let untouched = (0..whole).filter(|line| !touched.contains(line)).count();
        prop_assert!(read.records.len() >= untouched, "{} of {untouched}", read.records.len());
    }
}

#[test]
fn garbled_captures() {
    let seeds = seeds();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let edits =
        (any::<prop::sample::Index>(), vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), any::<bool>());
    for _ in 0..1500 {
        let (which, edits, cut) = edits.new_tree(&mut runner).unwrap().current();
        let mut bytes = which.get(&seeds).clone();
        if bytes.is_empty() || bytes.len() > 64 << 10 {
            continue;
        }
        for (place, value) in &edits {
            let place = place.index(bytes.len());
            bytes[place] = *value;
        }
        if cut {
            bytes.truncate(edits[0].0.index(bytes.len()));
        }
        all_survive(&bytes);
    }
}
