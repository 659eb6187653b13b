//! No bytes make a parser panic, and well-formed text survives the way round.

use nettune::kernel::Malformed;
use nettune::read::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// A parser whose result does not matter.
type Parser = fn(&[u8]) -> Result<(), Malformed>;

const PARSERS: &[(&str, Parser)] = &[
    ("counters pairs", |bytes| counters::parse_pairs(bytes).map(drop)),
    ("counters lines", |bytes| counters::parse_lines(bytes).map(drop)),
    ("sockstat", |bytes| sockstat::parse(bytes).map(drop)),
    ("softnet", |bytes| softnet::parse(bytes, None).map(drop)),
    ("softnet with CPUs", |bytes| softnet::parse(bytes, Some(&[0, 2])).map(drop)),
    ("softirqs", |bytes| softirqs::parse(bytes).map(drop)),
    ("cpu", |bytes| cpu::parse(bytes).map(drop)),
    ("interrupts", |bytes| interrupts::parse(bytes, |_, _| true).map(drop)),
    ("statistics", |bytes| statistics::parse(bytes).map(drop)),
    ("memory", |bytes| host::parse_memory(bytes).map(drop)),
    ("watermarks", |bytes| {
        host::parse_unusable(bytes);
        Ok(())
    }),
    ("process", |bytes| process::parse(bytes).map(drop)),
    ("boot time", |bytes| {
        process::parse_boot_time(bytes);
        Ok(())
    }),
    ("sysctl numbers", |bytes| sysctl::parse_numbers(bytes, 3).map(drop)),
    ("sysctl text", |bytes| sysctl::parse_text(bytes).map(drop)),
    ("steering mask", |bytes| steering::parse_mask(bytes).map(drop)),
    ("steering count", |bytes| steering::parse_count(bytes).map(drop)),
    ("speed", |bytes| {
        links::parse_speed(bytes);
        Ok(())
    }),
    ("driver counters", |bytes| {
        nic::parse_driver_counters(bytes);
        Ok(())
    }),
    ("links", |bytes| links::parse(bytes).map(drop)),
    ("qdiscs", |bytes| qdiscs::parse(bytes).map(drop)),
    ("connections", |bytes| connections::walk(bytes, |_| ())),
    ("closes", |bytes| closes::walk(bytes, |_| ())),
    ("listeners", |bytes| listeners::parse(&mut Vec::new(), bytes)),
    ("UDP sockets", |bytes| udp::parse(&mut Vec::new(), bytes)),
    ("ports", |bytes| listeners::parse_ports(bytes).map(drop)),
    ("mounts", |bytes| cgroups::parse_mount(bytes).map(drop)),
    ("namespaces", |bytes| namespaces::parse_mounts(bytes).map(drop)),
    ("cgroups of a process", |bytes| {
        namespaces::parse_cgroups(bytes);
        Ok(())
    }),
    ("process name", |bytes| {
        processes::parse_name(bytes);
        Ok(())
    }),
    ("neighbours", |bytes| neighbours::count_states(&mut Default::default(), bytes)),
    ("addresses", |bytes| addresses::count_addresses(&mut Default::default(), bytes)),
    ("routes", |bytes| addresses::count_routes(&mut Default::default(), bytes)),
    ("rings", |bytes| nic::parse_rings(bytes).map(drop)),
    ("channels", |bytes| nic::parse_channels(bytes).map(drop)),
    ("conntrack statistics", |bytes| conntrack::add_statistics(&mut Default::default(), bytes)),
];

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

fn all_survive(bytes: &[u8]) {
    for (name, parse) in PARSERS {
        if let Err(error) = parse(bytes) {
            assert!(
                error.line > 0 && !error.item.is_empty() && !error.expected.is_empty(),
                "{name}: {error}"
            );
        }
    }
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
