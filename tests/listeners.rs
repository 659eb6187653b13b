//! Accept queues that overflow on the running kernel, beside what `ss` prints.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::exposition::{Samples, samples};
use crate::namespace::Namespace;
use crate::support::Exporter;

/// listen() with a backlog of the test's choice, which std does not offer.
pub(crate) fn listen(address: SocketAddr, backlog: i32) -> TcpListener {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    // Not for programs that other tests start meanwhile.
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, backlog).unwrap();
    socket.into()
}

/// Connections that nobody waits for.
pub(crate) fn connect(port: u16, count: usize) -> Vec<OwnedFd> {
    let start = |_| {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        // In progress is what is wanted.
        let _ = rustix::net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        socket
    };
    (0..count).map(start).collect()
}

fn of(metric: &str, port: u16) -> String {
    format!("nettune_listener_{metric}{{address=\"127.0.0.1\",port=\"{port}\"}}")
}

fn cause(port: u16, cause: &str) -> String {
    format!("nettune_listener_limited_by{{address=\"127.0.0.1\",port=\"{port}\",cause=\"{cause}\"}}")
}

/// Queue, limit, sockets and drops by address and port, as `ss` prints them.
fn printed_by_ss(namespace: &Namespace) -> Samples {
    let mut expected = BTreeMap::new();
    for line in namespace.run("ss -ltnmHO").lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (address, port) = fields[3].rsplit_once(':').unwrap();
        let address = address.trim_matches(['[', ']']).replace('*', "::");
        let drops = line.rsplit_once(",d").unwrap().1.split(')').next().unwrap();
        for (metric, value) in [
            ("accept_queue", fields[1]),
            ("accept_queue_limit", fields[2]),
            ("drops_total", drops),
            ("sockets", "1"),
        ] {
            let series = format!("nettune_listener_{metric}{{address=\"{address}\",port=\"{port}\"}}");
            *expected.entry(series).or_default() += value.parse::<f64>().unwrap();
        }
    }
    expected
}

/// Scrapes until `good` of the samples; they lag behind by a second.
pub(crate) fn until(exporter: &Exporter, good: impl Fn(&Samples) -> bool) -> Samples {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = samples(exporter.get("/metrics?collect[]=connection&collect[]=listener", &[]).text());
        if good(&found) {
            return found;
        }
        let shown: Vec<_> = found.iter().filter(|(_, value)| **value > 0.0).collect();
        assert!(Instant::now() < deadline, "{shown:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn queues_that_nobody_empties_are_those_of_ss() {
    let Some(namespace) = Namespace::new() else { return };
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    namespace.run("sysctl -qw net.core.somaxconn=64");
    let older = namespace.inside(|| listen(at(9003), 4096));
    namespace.run("sysctl -qw net.core.somaxconn=16");
    let listeners = namespace.inside(|| {
        let everywhere = listen((Ipv6Addr::UNSPECIFIED, 9004).into(), 8);
        [listen(at(9001), 8), listen(at(9002), 4096), listen(at(9005), 8), listen(at(9005), 4), everywhere]
    });
    let exporter = namespace.exporter(&[]);
    let clients = namespace.inside(|| [connect(9001, 30), connect(9002, 3), connect(9005, 3)]);

    let found = until(&exporter, |found| {
        let expected = printed_by_ss(&namespace);
        assert_eq!(expected.len(), 5 * 4);
        found[&of("accept_queue", 9001)] == 9.0
            && expected.iter().all(|(series, value)| found.get(series) == Some(value))
    });
    // 30 attempts, 8 + 1 of them in the queue.
    assert!(found[&of("drops_total", 9001)] >= 21.0);
    assert_eq!(found[&of("accept_queue_fill_ratio", 9001)], 1.0);
    assert_eq!(found[&of("accept_queue_fill_ratio", 9002)], 3.0 / 17.0);
    assert_eq!((found[&of("sockets", 9005)], found[&of("accept_queue_limit", 9005)]), (2.0, 12.0));
    for (port, expected) in
        [(9001, "application"), (9002, "somaxconn"), (9003, "above_somaxconn"), (9005, "application")]
    {
        let causes = ["application", "somaxconn", "older_somaxconn", "above_somaxconn"];
        let given: Vec<_> =
            causes.into_iter().filter(|name| found.contains_key(&cause(port, name))).collect();
        assert_eq!(given, [expected], "{port}");
    }

    // The usual repair, without a restart of the program: it did not ask for 16.
    namespace.run("sysctl -qw net.core.somaxconn=4096");
    let raised = until(&exporter, |found| !found.contains_key(&cause(9002, "somaxconn")));
    assert!(raised.contains_key(&cause(9002, "older_somaxconn")));
    assert!(raised.contains_key(&cause(9001, "application")));

    // Full time passes as the clock does, and stops when somebody accepts.
    let full = of("full_seconds_total", 9001);
    let started = Instant::now();
    let first = raised[&full];
    let later = until(&exporter, |found| found[&full] >= first + 2.0);
    let wall = started.elapsed().as_secs_f64();
    assert!(later[&full] - first <= wall + 1.5, "{} s full within {wall} s", later[&full] - first);
    let accepted: Vec<TcpStream> = (0..9).map(|_| listeners[0].accept().unwrap().0).collect();
    drop(clients);
    let emptied = until(&exporter, |found| found[&of("accept_queue", 9001)] < 9.0);
    // The longest queue is remembered.
    assert_eq!(emptied[&of("accept_queue_peak", 9001)], 9.0);
    assert!(emptied[&of("drops_total", 9001)] >= found[&of("drops_total", 9001)]);
    assert_eq!(found[&of("full_seconds_total", 9002)], 0.0);
    drop((older, accepted));
}

#[test]
fn listeners_beyond_the_named_ones_are_summed_up() {
    let Some(namespace) = Namespace::new() else { return };
    let open = |port: u16| listen((Ipv4Addr::LOCALHOST, port).into(), 4);
    let listeners: Vec<_> = namespace.inside(|| (9001..=9040).map(open).collect());
    let exporter = namespace.exporter(&[]);
    let other = "nettune_listener_sockets{address=\"other\",port=\"other\"}";
    let found = until(&exporter, |found| found.get(other) == Some(&8.0));
    assert!(found.contains_key(&of("sockets", 9032)) && !found.contains_key(&of("sockets", 9033)));
    // One in trouble takes the place of one that is not.
    let clients = namespace.inside(|| connect(9040, 12));
    until(&exporter, |found| found.get(&of("drops_total", 9040)).is_some_and(|drops| *drops >= 7.0));
    drop((listeners, clients));
}

/// A parameter of the namespace decides whether a port may be given away.
#[test]
fn a_reserved_port_is_not_given_away() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.run("sysctl -qw net.ipv4.ip_local_port_range='9001 9010'");
    let open = |port: u16| listen((Ipv4Addr::LOCALHOST, port).into(), 4);
    // The last one's port is of the range, and the kernel's choice.
    let listeners = namespace.inside(|| [open(9005), open(9011), open(0)]);
    let chosen = listeners[2].local_addr().unwrap().port();
    assert!((9001..=9010).contains(&chosen));
    let exporter = namespace.exporter(&[]);
    let found = until(&exporter, |found| found.contains_key(&of("in_port_range", 9005)));
    let given = [9005, 9011, chosen].map(|port| found[&of("in_port_range", port)]);
    assert_eq!(given, [1.0, 0.0, 0.0]);
    namespace.run("sysctl -qw net.ipv4.ip_local_reserved_ports=9004-9006");
    until(&exporter, |found| found[&of("in_port_range", 9005)] == 0.0);
    drop(listeners);
}
