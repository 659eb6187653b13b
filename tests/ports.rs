//! Local ports that run out on the running kernel: what is published of them, and
//! how many connections the kernel then still lets a program make.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::exposition::Samples;
use crate::listeners::{listen, until};
use crate::namespace::Namespace;

const PORT: u16 = 9001;

fn of(metric: &str) -> String {
    format!("nettune_ephemeral_ports_{metric}{{destination_port=\"{PORT}\"}}")
}

fn alone(metric: &str) -> String {
    format!("nettune_ephemeral_ports_{metric}")
}

/// As many connections as the kernel has ports for.
fn exhaust(target: SocketAddr) -> Vec<TcpStream> {
    let mut held = Vec::new();
    loop {
        match TcpStream::connect(target) {
            Ok(stream) => held.push(stream),
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => return held,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Connections that the client ends first, so that their ports are in TIME_WAIT.
fn leave_in_time_wait(listener: &TcpListener, target: SocketAddr, count: usize, pause: Duration) {
    for _ in 0..count {
        let client = TcpStream::connect(target).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        drop(client);
        // Not before the client's FIN has come.
        io::copy(&mut server, &mut io::sink()).unwrap();
        std::thread::sleep(pause);
    }
}

fn time_wait_by_ss(namespace: &Namespace) -> usize {
    namespace.run(&format!("ss -tanH state time-wait dport = :{PORT}")).lines().count()
}

#[test]
fn ports_run_out_toward_one_destination() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.run("sysctl -qw net.ipv4.ip_local_port_range='40000 40099'");
    let exporter = namespace.exporter(&["--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let (_listener, mut held) = namespace.inside(|| (listen(target, 200), exhaust(target)));
    assert_eq!(held.len(), 100);
    let found = until(&exporter, |found| found.get(&of("used_ratio")) == Some(&1.0));
    assert_eq!((found[&alone("available")], found[&of("in_use")]), (100.0, 100.0));
    // They are all to one destination.
    assert_eq!(found[&alone("bound_ratio")], 0.0);
    // The listening end takes up none, and another destination is free.
    let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), PORT));
    let (_second, more) = namespace.inside(|| (listen(other, 200), exhaust(other)));
    assert_eq!(more.len(), 100);
    held.truncate(30);
    drop(more);
    // Those to the second stay in FIN_WAIT2, which no program holds.
    until(&exporter, |found| found[&of("in_use")] == 100.0 && found[&of("used_ratio")] == 1.0);
}

/// Leaves 60 in TIME_WAIT, then checks each setting by what is published, and at
/// last by what the kernel does.
fn time_wait_counts(near: &Namespace, far: &Namespace, address: Ipv4Addr, loopback: bool) {
    for line in ["ip_local_port_range='40000 40099'", "ip_local_reserved_ports=40090-40099", "tcp_tw_reuse=0"]
    {
        near.run(&format!("sysctl -qw net.ipv4.{line}"));
    }
    let exporter = near.exporter(&["--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let target = SocketAddr::from((address, PORT));
    let listener = far.inside(|| listen(target, 200));
    near.inside(|| leave_in_time_wait(&listener, target, 60, Duration::ZERO));
    assert_eq!(time_wait_by_ss(near), 60);
    let all_count = |found: &Samples| {
        found.get(&of("unreusable_time_wait")) == Some(&60.0)
            && found[&of("in_use")] == 60.0
            && found[&of("used_ratio")] == 60.0 / 90.0
            && found[&alone("available")] == 90.0
    };
    let none_counts =
        |found: &Samples| found.contains_key(&alone("available")) && !found.contains_key(&of("in_use"));
    let set = |reuse: u8| near.run(&format!("sysctl -qw net.ipv4.tcp_tw_reuse={reuse}"));
    until(&exporter, all_count);
    set(1);
    until(&exporter, none_counts);
    near.run("sysctl -qw net.ipv4.tcp_timestamps=0");
    until(&exporter, all_count);
    near.run("sysctl -qw net.ipv4.tcp_timestamps=1");
    set(2);
    let free = if loopback {
        until(&exporter, none_counts);
        90
    } else {
        until(&exporter, all_count);
        30
    };
    assert_eq!(near.inside(|| exhaust(target)).len(), free);
    set(0);
    assert!(time_wait_by_ss(near) == if loopback { 0 } else { 60 });
}

#[test]
fn time_wait_counts_over_loopback_where_it_may_not_be_reused() {
    let Some(namespace) = Namespace::new() else { return };
    time_wait_counts(&namespace, &namespace, Ipv4Addr::LOCALHOST, true);
}

#[test]
fn time_wait_counts_between_hosts_where_it_may_not_be_reused() {
    let (Some(near), Some(far)) = (Namespace::new(), Namespace::new()) else { return };
    near.run(&format!("ip link add eth7 type veth peer name eth7 netns {}", far.name()));
    for (namespace, last) in [(&near, 1), (&far, 2)] {
        namespace.run(&format!("ip addr add 198.51.100.{last}/24 dev eth7 && ip link set eth7 up"));
    }
    time_wait_counts(&near, &far, Ipv4Addr::new(198, 51, 100, 2), false);
}

/// The range is full of TIME_WAIT, and no connection fails.
#[test]
fn ports_that_are_used_again_are_not_used_up() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.run("sysctl -qw net.ipv4.ip_local_port_range='40000 40099' net.ipv4.tcp_tw_reuse=1");
    let exporter = namespace.exporter(&["--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let listener = namespace.inside(|| listen(target, 200));
    namespace.inside(|| leave_in_time_wait(&listener, target, 95, Duration::ZERO));
    std::thread::sleep(Duration::from_secs(1));
    let started = Instant::now();
    namespace.inside(|| leave_in_time_wait(&listener, target, 100, Duration::from_millis(30)));
    let rate = 100.0 / started.elapsed().as_secs_f64();
    assert!(time_wait_by_ss(&namespace) >= 90);
    // What is younger than a second may not be used again.
    let found = until(&exporter, |found| found.contains_key(&alone("available")));
    let share = found.get(&of("used_ratio")).copied().unwrap_or(0.0);
    assert!(share <= (rate + 5.0) / 100.0, "{share} at {rate} a second");
    until(&exporter, |found| !found.contains_key(&of("used_ratio")));
}

/// A socket that is bound before it connects, or not.
fn connect(bind: Option<Ipv4Addr>, target: SocketAddr) -> OwnedFd {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .unwrap();
    if let Some(address) = bind {
        rustix::net::bind(&socket, &SocketAddr::from((address, 0))).unwrap();
    }
    rustix::net::connect(&socket, &target).unwrap();
    socket
}

/// 96 sockets to as many destinations, until the process is killed.
fn connect_with_the_option(namespace: &Namespace) -> Child {
    let program = format!(
        "import socket, time\n\
         held = []\n\
         for last in range(101, 197):\n    \
             one = socket.socket()\n    \
             one.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT\n    \
             one.bind(('127.0.0.1', 0))\n    \
             one.connect((f'127.0.2.{{last}}', {PORT}))\n    \
             held.append(one)\n\
         time.sleep(60)"
    );
    namespace.command("python3").args(["-c", &program]).spawn().expect("`make tools` installs python3")
}

#[test]
fn ports_that_programs_bind_are_told_from_those_that_connect_chooses() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.run("sysctl -qw net.ipv4.ip_local_port_range='40000 40099'");
    let exporter = namespace.exporter(&["--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let own = Ipv4Addr::LOCALHOST;
    let _listener = namespace.inside(|| listen((Ipv4Addr::UNSPECIFIED, PORT).into(), 400));
    let open = |bind: Option<Ipv4Addr>| -> Vec<_> {
        let targets = (1..=96).map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 1, last), PORT)));
        namespace.inside(|| targets.map(|target| connect(bind, target)).collect())
    };
    let ratio = |found: &Samples| found.get(&alone("bound_ratio")).copied();
    let all_are_there =
        |found: &Samples| found["nettune_tcp_connections{state=\"established\",role=\"client\"}"] == 96.0;
    let ports_by_ss = || {
        let printed = namespace.run(&format!("ss -tanH state established dport = :{PORT}"));
        let local = printed.lines().map(|line| line.split_whitespace().nth(2).unwrap());
        local.map(|local| local.rsplit_once(':').unwrap().1.to_owned()).collect::<BTreeSet<_>>().len()
    };

    // 96 destinations, a port each.
    let held = open(Some(own));
    let found = until(&exporter, all_are_there);
    assert_eq!((ratio(&found), found[&of("in_use")], ports_by_ss()), (Some(0.96), 1.0, 96));
    drop(held);
    // What is left of them are no sockets.
    until(&exporter, |found| ratio(found) == Some(0.0));

    // Bound likewise, to a port that is chosen when they connect.
    let mut held = connect_with_the_option(&namespace);
    let found = until(&exporter, all_are_there);
    assert_eq!(ratio(&found), Some(0.0));
    held.kill().unwrap();
    held.wait().unwrap();

    // Not bound: the kernel gives some ports to several.
    let held = open(None);
    let found = until(&exporter, all_are_there);
    assert_eq!(ratio(&found), Some(0.0));
    assert!(ports_by_ss() < 90, "{}", ports_by_ss());
    drop(held);
}
