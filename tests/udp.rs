//! UDP sockets whose reader sleeps, on the running kernel, beside what `ss` prints.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Instant;

use rustix::net::sockopt;

use crate::exposition::{Samples, samples};
use crate::namespace::Namespace;
use crate::support::{Exporter, eventually};

/// A socket of 127.0.0.1; SO_RCVBUF where a size is given.
pub(crate) fn open(port: u16, size: Option<usize>) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    if let Some(size) = size {
        sockopt::set_socket_recv_buffer_size(&socket, size).unwrap();
    }
    socket
}

/// Sends to a port of 127.0.0.1; over loopback each has arrived when this returns.
pub(crate) fn send(from: &UdpSocket, port: u16, datagrams: usize) {
    for _ in 0..datagrams {
        assert_eq!(from.send_to(&[7; 1000], (Ipv4Addr::LOCALHOST, port)).unwrap(), 1000);
    }
}

pub(crate) fn of(metric: &str, port: u16) -> String {
    format!("nettune_udp_{metric}{{address=\"127.0.0.1\",port=\"{port}\"}}")
}

pub(crate) fn cause(port: u16, cause: &str) -> String {
    format!("nettune_udp_socket_buffer_set_by{{address=\"127.0.0.1\",port=\"{port}\",cause=\"{cause}\"}}")
}

/// Sockets, drops, buffer and fill of every UDP socket with a port of its own, as
/// `ss` prints them.
pub(crate) fn printed_by_ss(namespace: &Namespace) -> Samples {
    let mut expected = Samples::new();
    for line in namespace.run("ss -uamnHO").lines() {
        let address = line.split_whitespace().nth(3).unwrap();
        let (address, port) = address.rsplit_once(':').unwrap();
        let address = address.trim_matches(['[', ']']).replace('*', "::");
        let memory = line.split_once("skmem:(").unwrap().1.split(')').next().unwrap();
        let figure = |letter: &str| -> f64 {
            let found = memory.split(',').find_map(|field| field.strip_prefix(letter)?.parse().ok());
            found.unwrap_or_else(|| panic!("{letter}: {line}"))
        };
        for (metric, value) in [
            ("sockets", 1.0),
            ("socket_drops_total", figure("d")),
            ("socket_receive_buffer_bytes", figure("rb")),
            ("socket_receive_buffer_fill_ratio", figure("r") / figure("rb")),
        ] {
            let series = format!("nettune_udp_{metric}{{address=\"{address}\",port=\"{port}\"}}");
            assert_eq!(expected.insert(series, value), None, "one socket a port: {line}");
        }
    }
    expected
}

/// Scrapes until `good` of the samples; they lag behind by a second.
fn until(exporter: &Exporter, good: impl Fn(&Samples) -> bool) -> Samples {
    eventually("samples are as expected", || {
        let found = samples(exporter.get("/metrics?collect[]=udp&collect[]=snmp", &[]).text());
        good(&found).then_some(found)
    })
}

/// A kernel parameter as the namespace shows it.
fn parameter(namespace: &Namespace, name: &str) -> usize {
    namespace.run(&format!("sysctl -n {name}")).trim().parse().unwrap()
}

#[test]
fn full_buffers_are_those_of_ss() {
    let Some(namespace) = Namespace::new() else { return };
    let max = parameter(&namespace, "net.core.rmem_max");
    let default = parameter(&namespace, "net.core.rmem_default");
    let sockets = namespace.inside(|| {
        let sockets = [
            open(9001, None),
            open(9002, Some(50_000)),
            open(9003, Some(max.saturating_mul(4))),
            UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 9004)).unwrap(),
        ];
        send(&sockets[2], 9001, 2000);
        send(&sockets[2], 9002, 60);
        send(&sockets[2], 9003, 10);
        sockets
    });
    let exporter = namespace.exporter(&["--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let found = until(&exporter, |found| {
        let expected = printed_by_ss(&namespace);
        assert_eq!(expected.len(), 4 * 4);
        expected.iter().all(|(series, value)| found.get(series) == Some(value))
    });

    // Two sockets were sent more than they hold; the kernel counts both together.
    let [one, two] = [9001, 9002].map(|port| found[&of("socket_drops_total", port)]);
    assert!(one > 1000.0 && two > 0.0, "{one}, {two}");
    assert_eq!(one + two, found["nettune_udp_receive_buffer_errors_total{family=\"ipv4\"}"]);
    assert_eq!(found[&of("socket_drops_total", 9003)], 0.0);
    for (port, full) in [(9001, true), (9002, true), (9003, false)] {
        assert_eq!(found[&of("socket_receive_buffer_fill_ratio", port)] >= 0.9, full, "{port}");
    }
    for (port, expected, bytes) in
        [(9001, "default", default), (9002, "application", 100_000), (9003, "rmem_max", 2 * max)]
    {
        let causes = ["default", "rmem_max", "application"];
        let given: Vec<_> =
            causes.into_iter().filter(|name| found.contains_key(&cause(port, name))).collect();
        assert_eq!(given, [expected], "{port}");
        assert_eq!(found[&of("socket_receive_buffer_bytes", port)], bytes as f64);
    }

    // Full time passes as the clock does, and stops when somebody reads.
    let full = of("socket_full_seconds_total", 9001);
    let (started, first) = (Instant::now(), found[&full]);
    let later = until(&exporter, |found| found[&full] >= first + 2.0);
    let wall = started.elapsed().as_secs_f64();
    assert!(later[&full] - first <= wall + 1.5, "{} s full within {wall} s", later[&full] - first);
    assert_eq!(later[&of("socket_full_seconds_total", 9003)], 0.0);
    sockets[0].set_nonblocking(true).unwrap();
    while sockets[0].recv(&mut [0; 1000]).is_ok() {}
    let drained = until(&exporter, |found| found[&of("socket_receive_buffer_fill_ratio", 9001)] < 0.9);
    assert_eq!(drained[&of("socket_drops_total", 9001)], one);
    drop(sockets);
}

/// Clients with a port that the kernel chose have no series of their own until one
/// of them drops.
#[test]
fn clients_are_summed_up() {
    let Some(namespace) = Namespace::new() else { return };
    let (server, mut clients) = namespace.inside(|| {
        let server = open(9001, None);
        let client = |_| {
            let socket = open(0, Some(4096));
            socket.connect((Ipv4Addr::LOCALHOST, 9001)).unwrap();
            socket
        };
        (server, (0..30).map(client).collect::<Vec<_>>())
    });
    let exporter = namespace.exporter(&["--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let other = |metric: &str| format!("nettune_udp_{metric}{{address=\"other\",port=\"other\"}}");
    let named = |found: &Samples| found.keys().filter(|key| key.starts_with("nettune_udp_sockets{")).count();
    let found = until(&exporter, |found| found.get(&other("sockets")) == Some(&30.0));
    assert_eq!((named(&found), found[&other("socket_drops_total")]), (2, 0.0));

    let port = clients[0].local_addr().unwrap().port();
    send(&server, port, 50);
    let line = namespace.run(&format!("ss -uamnHO sport = :{port}"));
    let drops: f64 = line.rsplit_once(",d").unwrap().1.split(')').next().unwrap().parse().unwrap();
    assert!(drops >= 10.0, "{line}");
    let found = until(&exporter, |found| found.get(&of("socket_drops_total", port)) == Some(&drops));
    assert_eq!((found[&of("sockets", port)], found[&other("sockets")]), (1.0, 29.0));
    assert_eq!(found[&other("socket_drops_total")], 0.0);

    // It goes, and its name with it.
    clients.remove(0);
    let found = until(&exporter, |found| !found.contains_key(&of("sockets", port)));
    assert_eq!((named(&found), found[&other("sockets")]), (2, 29.0));
}

/// Where nothing is in use nothing is asked for, and the source is not absent.
#[test]
fn no_socket_is_no_sample() {
    let Some(namespace) = Namespace::new() else { return };
    let exporter = namespace.exporter(&[]);
    let found =
        until(&exporter, |found| found.get("nettune_collector_success{collector=\"udp\"}") == Some(&1.0));
    assert_eq!(found["nettune_collector_absent{collector=\"udp\"}"], 0.0);
    assert!(!found.keys().any(|series| series.starts_with("nettune_udp_socket")));
}
