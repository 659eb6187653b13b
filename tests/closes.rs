//! Notifications of closed connections, as the running kernel sends them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nettune::kernel::sock_diag::CloseEvents;
use nettune::kernel::{Kernel, Roots};
use nettune::read::closes::{self, Closed};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::namespace::Namespace;
use crate::support::eventually;

const ROOM: usize = 4 << 20;

fn join(room: usize) -> CloseEvents {
    Kernel::live(Roots::default()).close_events(room).unwrap()
}

/// What has come when `expected` datagrams have, and in the second after the last. A
/// busy kernel may take its time to send them.
fn heard(events: &CloseEvents, expected: usize) -> (usize, Vec<Closed>) {
    let (mut datagrams, mut found) = (0, Vec::new());
    let patience = |datagrams| Duration::from_secs(if datagrams < expected { 30 } else { 1 });
    while events.wait(patience(datagrams)).unwrap() {
        events
            .drain(usize::MAX, |bytes| {
                datagrams += 1;
                closes::walk(bytes, |closed| found.push(closed)).unwrap();
            })
            .unwrap();
    }
    (datagrams, found)
}

/// Both ends of connections, half of them over IPv6.
fn pairs(count: u16) -> Vec<[TcpStream; 2]> {
    let addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 9001)), (Ipv6Addr::LOCALHOST, 9001).into()];
    let listeners = addresses.map(|address| TcpListener::bind(address).unwrap());
    let open = |number: u16| {
        let listener = &listeners[usize::from(number % 2)];
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [client, listener.accept().unwrap().0]
    };
    (0..count).map(open).collect()
}

/// Local and peer port, of IPv6 or not: both may use the same.
type Ends = (bool, u16, u16);

/// Bytes sent by each end, as `ss` prints them; each once, since a machine that halts for
/// a while sends some again.
fn sent_by_ss(namespace: &Namespace) -> BTreeMap<Ends, u64> {
    let mut found = BTreeMap::new();
    for line in namespace.run("ss -tinHO state established").lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let port = |word: &str| word.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
        let bytes = |name| words.iter().find_map(|word| word.strip_prefix(name));
        let bytes = |name| bytes(name).map_or(0, |bytes| bytes.parse::<u64>().unwrap());
        let sent = bytes("bytes_sent:") - bytes("bytes_retrans:");
        let ends = (words[2].starts_with('['), port(words[2]), port(words[3]));
        assert_eq!(found.insert(ends, sent), None, "{line}");
    }
    found
}

/// Every end of 250 connections, with what it sent in the end.
fn all_are_heard(namespace: &Namespace) {
    let events = join(ROOM);
    let mut pairs = pairs(250);
    for (number, [client, server]) in (1..).zip(&mut pairs) {
        client.write_all(&vec![1; number * 100]).unwrap();
        let mut question = vec![0; number * 100];
        server.read_exact(&mut question).unwrap();
        server.write_all(&question[..number * 7]).unwrap();
        client.read_exact(&mut question[..number * 7]).unwrap();
    }
    let expected = sent_by_ss(namespace);
    assert_eq!(expected.len(), 500);
    // By hand: what was written above.
    let total = (1..=250).sum::<u64>() * 107;
    assert_eq!(expected.values().sum::<u64>(), total);
    drop(pairs);
    let (datagrams, found) = heard(&events, 502);
    let sent: BTreeMap<_, _> = found
        .iter()
        .map(|closed| {
            let sent = closed.info.bytes_sent.unwrap() - closed.info.bytes_retrans.unwrap();
            ((closed.address.is_ipv6(), closed.port, closed.peer_port), sent)
        })
        .collect();
    assert_eq!(sent, expected);
    // The two listeners closed before.
    assert_eq!((found.len(), datagrams, events.lost().unwrap()), (500, 502, 0));
    let six = found.iter().filter(|closed| closed.address == Ipv6Addr::LOCALHOST).count();
    let four = found.iter().filter(|closed| closed.peer_address == Ipv4Addr::LOCALHOST).count();
    assert_eq!((six, four), (250, 250));
}

#[test]
fn every_close_is_heard_with_its_final_bytes() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.inside(|| all_are_heard(&namespace));
}

/// On this thread alone; the namespace is joined before.
#[test]
fn an_ordinary_user_hears_the_same() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.inside(|| {
        // `ss` is run by another thread, which may enter the namespace.
        let (nobody, nogroup) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(nogroup, nogroup, nogroup).unwrap();
        set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let events = join(ROOM);
        drop(pairs(100));
        let (_, found) = heard(&events, 202);
        assert_eq!((found.len(), events.lost().unwrap()), (200, 0));
    });
}

#[test]
fn what_finds_no_room_is_counted_exactly() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.inside(|| {
        let events = join(4096);
        drop(pairs(300));
        let lost =
            eventually("the kernel sends them", || Some(events.lost().unwrap()).filter(|lost| *lost > 500));
        let (datagrams, _) = heard(&events, 0);
        assert_eq!(datagrams as u64 + events.lost().unwrap(), 602, "{lost}");
        assert!(datagrams > 0);

        // There is room again: nobody has to be told of the loss first.
        let before = events.lost().unwrap();
        drop(pairs(1));
        let (datagrams, found) = heard(&events, 4);
        assert_eq!((datagrams, found.len(), events.lost().unwrap()), (4, 2, before));

        // Those who left are told nothing and lose nothing.
        events.leave().unwrap();
        drop(pairs(50));
        assert_eq!((heard(&events, 0).0, events.lost().unwrap()), (0, before));
        events.rejoin().unwrap();
        drop(pairs(1));
        assert_eq!(heard(&events, 4).1.len(), 2);
    });
}

/// The kernel has forgotten by then what such a connection sent.
#[test]
fn a_connection_that_we_reset_tells_nothing() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.inside(|| {
        let events = join(ROOM);
        let mut pairs = pairs(2);
        for [client, server] in &mut pairs {
            client.write_all(&[1; 1000]).unwrap();
            server.read_exact(&mut [0; 1000]).unwrap();
            rustix::net::sockopt::set_socket_linger(&*client, Some(Duration::ZERO)).unwrap();
        }
        drop(pairs);
        let (datagrams, found) = heard(&events, 6);
        assert_eq!(datagrams, 2 + 4);
        // The peers' ends do.
        assert_eq!(found.iter().map(|closed| closed.port).collect::<Vec<_>>(), [9001, 9001]);
    });
}
