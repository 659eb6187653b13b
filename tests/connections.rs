//! Connections of the running kernel, beside what `ss` prints of them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use crate::exposition::Samples;
use crate::listeners::{connect, listen, until};
use crate::namespace::Namespace;

/// Connections by state and role as `ss` prints them; `listening` are the ports
/// of servers.
fn printed_by_ss(namespace: &Namespace, listening: &[u16]) -> Samples {
    let names = BTreeMap::from([
        ("ESTAB", "established"),
        ("SYN-SENT", "syn_sent"),
        ("SYN-RECV", "syn_recv"),
        ("FIN-WAIT-1", "fin_wait1"),
        ("FIN-WAIT-2", "fin_wait2"),
        ("CLOSE-WAIT", "close_wait"),
        ("LAST-ACK", "last_ack"),
        ("CLOSING", "closing"),
    ]);
    let series =
        |state: &str, role: &str| format!("nettune_tcp_connections{{state=\"{state}\",role=\"{role}\"}}");
    let all = names.values().flat_map(|state| [series(state, "server"), series(state, "client")]);
    let mut expected: Samples = all.map(|series| (series, 0.0)).collect();
    for line in namespace.run("ss -tanH").lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let Some(state) = names.get(fields[0]) else { continue };
        let port: u16 = fields[3].rsplit_once(':').unwrap().1.parse().unwrap();
        let role = if listening.contains(&port) { "server" } else { "client" };
        *expected.get_mut(&series(state, role)).unwrap() += 1.0;
    }
    expected
}

/// Milliseconds that `ss` prints after `name`, one for each connection.
fn times(printed: &str, name: &str) -> Vec<f64> {
    let found = printed.split_whitespace().filter_map(|word| word.strip_prefix(name));
    found.map(|rest| rest.split('/').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn connections_are_those_of_ss() {
    let Some(namespace) = Namespace::new() else { return };
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for line in [
        "nft add table ip t && nft 'add chain ip t c { type filter hook output priority 0; }'",
        // No SYN reaches 9002; no answer of 9003 and 9004 reaches its client.
        "nft add rule ip t c tcp dport 9002 drop",
        "nft add rule ip t c tcp sport '{ 9003, 9004 }' drop",
    ] {
        namespace.run(line);
    }
    let ((established, halves), held) = namespace.inside(|| {
        let server = listen(at(9001), 64);
        let quiet = listen(at(9003), 64);
        let dual = listen((Ipv6Addr::UNSPECIFIED, 9004).into(), 64);
        let six = listen((Ipv6Addr::LOCALHOST, 9005).into(), 64);
        let mut pairs: Vec<_> =
            (0..7).map(|_| (TcpStream::connect(at(9001)).unwrap(), server.accept().unwrap().0)).collect();
        let over_six = TcpStream::connect((Ipv6Addr::LOCALHOST, 9005)).unwrap();
        let halves = pairs.split_off(5);
        for (client, _) in &halves {
            client.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let clients = [connect(9002, 2), connect(9003, 3), connect(9004, 4)];
        ((pairs, halves), (server, quiet, dual, six, over_six, clients))
    });
    let exporter = namespace.exporter(&["--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let listening = [9001, 9003, 9004, 9005];
    let found = until(&exporter, |found| {
        let expected = printed_by_ss(&namespace, &listening);
        expected.iter().all(|(series, value)| found.get(series) == Some(value))
            && found.get("nettune_listener_syn_recv{address=\"127.0.0.1\",port=\"9003\"}") == Some(&3.0)
    });
    let count = |state: &str, role: &str| {
        found[&format!("nettune_tcp_connections{{state=\"{state}\",role=\"{role}\"}}")]
    };
    // One pair more by IPv6, whose server end nobody accepted yet.
    assert_eq!((count("established", "server"), count("established", "client")), (6.0, 6.0));
    assert_eq!((count("close_wait", "server"), count("fin_wait2", "client")), (2.0, 2.0));
    assert_eq!((count("syn_sent", "client"), count("syn_recv", "server")), (9.0, 7.0));
    // A client over IPv4 is that of the listener for all addresses of both.
    assert_eq!(found["nettune_listener_syn_recv{address=\"::\",port=\"9004\"}"], 4.0);
    assert_eq!(found["nettune_listener_syn_recv{address=\"127.0.0.1\",port=\"9001\"}"], 0.0);
    assert!(found["nettune_sockets_passes_total"] >= 1.0);

    // What nobody accepts grows old; what was accepted does not.
    let oldest = |address: &str, port: u16| {
        format!("nettune_listener_oldest_unaccepted_seconds{{address=\"{address}\",port=\"{port}\"}}")
    };
    let aged = until(&exporter, |found| found[&oldest("::1", 9005)] >= 2.0);
    assert_eq!((aged[&oldest("127.0.0.1", 9001)], aged[&oldest("::", 9004)]), (0.0, 0.0));
    let accepted = held.3.accept().unwrap();
    until(&exporter, |found| found[&oldest("::1", 9005)] == 0.0);
    drop((established, halves, held, accepted));
}

/// The first pass takes in what was heard during one interval: here everything.
#[test]
fn times_are_those_of_ss() {
    let Some(namespace) = Namespace::new() else { return };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9001));
    let held = namespace.inside(|| {
        let server = listen(address, 64);
        (0..20).map(|_| (TcpStream::connect(address).unwrap(), server.accept().unwrap())).collect::<Vec<_>>()
    });
    let exporter = namespace.exporter(&["--sockets.interval=10m"]);
    let found = until(&exporter, |found| found.get("nettune_sockets_passes_total") == Some(&1.0));
    let printed = namespace.run("ss -tinH");
    for (metric, name) in [("rtt", "rtt:"), ("min_rtt", "minrtt:")] {
        let expected = times(&printed, name);
        assert_eq!(expected.len(), 40, "{printed}");
        let sum = found[&format!("nettune_tcp_{metric}_seconds_sum{{path=\"local\"}}")];
        // ss prints milliseconds with six digits.
        assert!((sum - expected.iter().sum::<f64>() / 1e3).abs() < 1e-6, "{metric}: {sum}, {expected:?}");
        assert_eq!(found[&format!("nettune_tcp_{metric}_seconds_count{{path=\"local\"}}")], 40.0);
        for bound in [0.0001, 0.001, 0.5] {
            let below = expected.iter().filter(|time| **time / 1e3 <= bound).count();
            let series = format!("nettune_tcp_{metric}_seconds_bucket{{path=\"local\",le=\"{bound}\"}}");
            assert_eq!(found[&series], below as f64, "{series}");
        }
    }
    drop(held);
}

/// A pass that costs more than its share comes more rarely.
#[test]
fn a_small_budget_stretches_the_interval() {
    let Some(namespace) = Namespace::new() else { return };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9001));
    let held = namespace.inside(|| {
        let server = listen(address, 4096);
        (0..2000)
            .map(|_| (TcpStream::connect(address).unwrap(), server.accept().unwrap()))
            .collect::<Vec<_>>()
    });
    let stretched = |budget: &str| {
        let exporter = namespace.exporter(&["--sockets.interval=1s", budget]);
        until(&exporter, |found| found.contains_key("nettune_sockets_pass_interval_seconds"))["nettune_sockets_pass_interval_seconds"]
    };
    assert_eq!(stretched("--sockets.cpu-budget=100%"), 1.0);
    // 4,000 sockets take more than a millisecond, a thousandth of a CPU for a second.
    assert!(stretched("--sockets.cpu-budget=0.1%") > 1.0);
    drop(held);
}
