//! Whatever the kernel answers about sockets, and whenever: no panic, no counter that
//! falls, nothing exported but finite numbers, and a table that does not grow.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::support::{Chain, Circumstances};

/// A number as a hostile or broken kernel might give it.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        2 => Just(0u32),
        4 => 0u32..3000,
        4 => 0u32..50_000_000,
        1 => Just(i32::MAX as u32 + 1),
        2 => Just(u32::MAX),
        1 => any::<u32>(),
    ]
}

/// Bytes of an attribute: of every length that a tcp_info may have, and others.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let numbers = vec(number(), 100).prop_map(|all| all.into_iter().flat_map(u32::to_ne_bytes).collect());
    let all = prop_oneof![
        8 => numbers,
        1 => Just(vec![0; 400]),
        1 => Just(vec![0xff; 400]),
    ];
    (all, 0usize..=400, any::<bool>()).prop_map(|(mut all, length, whole): (Vec<u8>, _, _)| {
        all.truncate(if whole { 280 } else { length });
        all
    })
}

/// Names of algorithms, and what is none.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let known = vec!["cubic\0", "bbr\0", "unknown\0", "\0", "a\"b\\c\nd\0", "sixteen bytes and more\0"];
    prop_oneof![
        3 => select(known).prop_map(|name| name.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..20),
    ]
}

/// An attribute; one in ten lies about its length.
fn attribute() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop_oneof![
        4 => (Just(2u16), value()),
        2 => (Just(7u16), value()),
        2 => (Just(4u16), name()),
        1 => (Just(16u16), value()),
        1 => (select(vec![21u16, 22]), vec(any::<u8>(), 0..12)),
        // Nested, and of any kind.
        1 => (any::<u16>(), value()),
    ];
    let lie = prop_oneof![20 => Just(None), 1 => select(vec![0u16, 3, 5, 0x7fff, u16::MAX]).prop_map(Some)];
    (kinds, lie).prop_map(|((kind, value), lie)| {
        let mut bytes = Vec::new();
        bytes.extend(lie.unwrap_or(value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    })
}

fn cookie() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 1 => Just(u64::MAX), 12 => 1u64..40, 1 => any::<u64>()]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![select(vec![0u16, 53, 80, 443, 32_768, 40_001, 60_999, 65_535]), any::<u16>()]
}

/// A message that is well-formed as far as its own length goes.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let head = (select(vec![2u8, 2, 2, 10, 10, 10, 0]), 0u8..14, 0u8..6, port(), port(), cookie());
    let rest = (0u8..4, 0u8..4, [number(), number(), number()], select(vec![0u32, 5]));
    (head, rest, vec(attribute(), 0..5)).prop_map(|(head, rest, attributes)| {
        let (family, state, timer, port, peer_port, cookie) = head;
        let (own, peer, [expires, receive, send], inode) = rest;
        let mut bytes = vec![0; 16 + 72];
        bytes[4] = 20;
        bytes[16..19].copy_from_slice(&[family, state, timer]);
        bytes[20..22].copy_from_slice(&port.to_be_bytes());
        bytes[22..24].copy_from_slice(&peer_port.to_be_bytes());
        bytes[24..28].copy_from_slice(&[192, 0, 2, own]);
        bytes[40..44].copy_from_slice(&[192, 0, peer, 2]);
        bytes[60..68].copy_from_slice(&cookie.to_ne_bytes());
        for (place, number) in [(68, expires), (72, receive), (76, send), (84, inode)] {
            bytes[place..place + 4].copy_from_slice(&number.to_ne_bytes());
        }
        bytes.extend(attributes.concat());
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    })
}

/// What becomes of messages on their way.
#[derive(Debug, Clone)]
enum Fault {
    None,
    Cut(Index),
    Twice,
    Garbled(Vec<(Index, u8)>),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        1 => any::<Index>().prop_map(Fault::Cut),
        1 => Just(Fault::Twice),
        2 => vec((any::<Index>(), any::<u8>()), 1..6).prop_map(Fault::Garbled),
    ]
}

fn answer() -> impl Strategy<Value = Vec<u8>> {
    (vec(message(), 0..8), fault()).prop_map(|(messages, fault)| {
        let mut bytes = messages.concat();
        match fault {
            _ if bytes.is_empty() => {}
            Fault::None => {}
            Fault::Cut(place) => bytes.truncate(place.index(bytes.len())),
            Fault::Twice => bytes.extend(bytes.clone()),
            Fault::Garbled(edits) => {
                for (place, value) in edits {
                    let place = place.index(bytes.len());
                    bytes[place] = value;
                }
            }
        }
        bytes
    })
}

fn circumstances() -> impl Strategy<Value = Circumstances> {
    let limit = select(vec![0, 1, 4096, 1 << 20, u64::MAX / 2 + 1, u64::MAX]);
    // Less than the flag allows, and more.
    let share = select(vec![0.0, 1e-12, 0.001, 0.01, 1.0, 1e12]);
    let cost = select(vec![0, 1, 1000, 1_000_000, u64::MAX / 2_000_000]);
    let since = prop_oneof![Just(0u64), Just(1), 0u64..600_000];
    let time = (0u64..2000, since, (0u16..=17, 0u16..17), any::<bool>(), any::<bool>());
    (time, (port(), port()), limit, share, cost).prop_map(|(time, (first, last), limit, share, cost)| {
        let (at, since, slices, round, closes) = time;
        Circumstances {
            at: Duration::from_secs(at),
            since: Duration::from_millis(since),
            slices,
            range: first..=last,
            limit,
            budget: (share, Duration::from_micros(cost)),
            round,
            closes,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_answers_at_any_time(passes in vec((answer(), circumstances()), 1..8)) {
        let mut chain = Chain::new();
        for (bytes, how) in &passes {
            chain.pass(bytes, how);
        }
    }

    /// Interleaved: messages of several answers, an attribute's bytes at a time.
    #[test]
    fn answers_within_answers(answers in vec(answer(), 2..4), place in any::<Index>(), how in circumstances()) {
        let mut chain = Chain::new();
        let mut bytes = answers[0].clone();
        for other in &answers[1..] {
            let middle = if bytes.is_empty() { 0 } else { place.index(bytes.len()) };
            let rest = bytes.split_off(middle / 4 * 4);
            bytes.extend(other);
            bytes.extend(rest);
            chain.pass(&bytes, &how);
        }
    }
}
