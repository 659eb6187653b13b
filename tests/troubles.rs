//! Connections that stand still, receive too slowly or wait for somebody, on real
//! paths: that each is told, and its look-alike is not.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_keepalive, set_socket_send_buffer_size};

use crate::exposition::Samples;
use crate::lab::{Direction, Lab, Transfer, congestion};
use crate::support::Exporter;
use crate::throughput::{MEGABIT, PACED, scrape_after_a_pass, sum};

/// Passes come often: what is looked for stands still, or moves fast enough.
const FLAGS: [&str; 2] = ["--sockets.interval=2s", "--sockets.cpu-budget=100%"];

/// 50 Mbit/s and 40 ms there and back; the queue holds twice what is on the way.
fn path() -> Direction {
    Direction::new(50.0 * MEGABIT, Duration::from_millis(20), 500_000)
}

/// What comes to a metric while two passes go by.
fn rise(exporter: &Exporter, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let before = scrape_after_a_pass(exporter);
    let after = scrape_after_a_pass(exporter);
    sum(&after, metric, labels) - sum(&before, metric, labels)
}

fn of(found: &Samples, metric: &str) -> f64 {
    sum(found, metric, &[]) + found.get(metric).copied().unwrap_or_default()
}

const RECEIVING: &str = "nettune_tcp_receiving_seconds_total";
const RECEIVE_LIMITED: &str = "nettune_tcp_receive_limited_seconds_total";

/// A bulk transfer to an exporter's host, whose receive buffers are of this size at most.
fn received_into(most: usize, direction: Direction) -> Option<(f64, f64)> {
    let lab = Lab::new(direction, path())?;
    lab.set_buffers(16 << 20, most);
    let exporter = lab.far.exporter(&FLAGS);
    let transfer = Transfer::start(lab.connect_many(1, congestion(PACED)));
    sleep(Duration::from_secs(2));
    let before = scrape_after_a_pass(&exporter);
    let after = scrape_after_a_pass(&exporter);
    let rise =
        |metric: &str, labels: &[(&str, &str)]| sum(&after, metric, labels) - sum(&before, metric, labels);
    let found = (rise(RECEIVING, &[]), rise(RECEIVE_LIMITED, &[("cause", "rmem_max"), ("path", "long")]));
    assert_eq!(rise(RECEIVE_LIMITED, &[]), found.1, "nothing else is blamed: {after:#?}");
    drop(transfer);
    Some(found)
}

#[test]
fn a_receive_buffer_too_short_for_the_path_is_told() {
    // A window of some 100 KB where 250 KB are on the way.
    let Some((receiving, limited)) = received_into(160_000, path()) else { return };
    assert!(receiving >= 1.9 && limited >= 0.9 * receiving, "{limited} of {receiving}");
}

#[test]
fn a_receive_buffer_that_is_long_enough_is_not_to_blame() {
    let Some((receiving, limited)) = received_into(16 << 20, path()) else { return };
    assert!(receiving >= 1.9 && limited == 0.0, "{limited} of {receiving}");
}

#[test]
fn a_receive_buffer_before_a_full_link_is_not_to_blame() {
    // Two megabytes of queue: more buffer would only lie there.
    let deep = Direction::new(50.0 * MEGABIT, Duration::from_millis(20), 4_000_000);
    let Some((receiving, limited)) = received_into(1_500_000, deep) else { return };
    assert!(receiving >= 1.9 && limited == 0.0, "{limited} of {receiving}");
}

#[test]
fn a_program_that_does_not_read_is_told() {
    let Some(lab) = Lab::new(path(), path()) else { return };
    let exporter = lab.far.exporter(&FLAGS);
    let (client, mut server) = lab.connect();
    client.set_nonblocking(true).unwrap();
    let fill = || while (&client).write(&[0; 65_536]).is_ok() {};
    for _ in 0..20 {
        fill();
        sleep(Duration::from_millis(50));
    }
    let unread = [("cause", "unread")];
    assert!(rise(&exporter, RECEIVE_LIMITED, &unread) >= 1.9);
    let found = scrape_after_a_pass(&exporter);
    assert_eq!(of(&found, "nettune_tcp_receive_buffers_unread"), 1.0);
    assert_eq!(of(&found, "nettune_tcp_receive_buffers_full"), 1.0);
    // Once it reads, nobody is held back.
    while server.read(&mut vec![0; 1 << 20]).unwrap() == 1 << 20 {}
    server.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    while server.read(&mut vec![0; 1 << 20]).is_ok_and(|size| size > 0) {}
    let found = scrape_after_a_pass(&exporter);
    assert_eq!(of(&found, "nettune_tcp_receive_buffers_unread"), 0.0);
    assert_eq!(rise(&exporter, RECEIVE_LIMITED, &[]), 0.0);
}

#[test]
fn full_segments_that_vanish_are_told_from_a_peer_that_is_gone() {
    let stalled = |direction: Direction, before: usize, bytes: usize, is_gone: bool| {
        let lab = Lab::new(direction, path())?;
        let exporter = lab.near.exporter(&FLAGS);
        let (mut client, mut server) = lab.connect();
        client.write_all(&vec![0; before]).unwrap();
        server.read_exact(&mut vec![0; before]).unwrap();
        if is_gone {
            lab.far.run("nft add table ip t && nft 'add chain ip t c { type filter hook input priority 0; policy drop; }'");
        }
        client.write_all(&vec![0; bytes]).unwrap();
        sleep(Duration::from_millis(2500));
        let found = scrape_after_a_pass(&exporter);
        let size = |name: &str| sum(&found, "nettune_tcp_stalled_connections", &[("segments", name)]);
        assert_eq!(of(&found, "nettune_tcp_backoff_connections"), 1.0);
        Some(["full_size", "delivered_before", "small"].map(size))
    };
    // Small ones pass.
    let black_hole = Direction { size_limit: 1400, ..path() };
    assert!([None, Some([1.0, 0.0, 0.0])].contains(&stalled(black_hole, 5, 20_000, false)));
    assert!([None, Some([0.0, 1.0, 0.0])].contains(&stalled(path(), 100_000, 20_000, true)));
    assert!([None, Some([0.0, 0.0, 1.0])].contains(&stalled(path(), 5, 100, true)));
}

#[test]
fn a_window_that_idleness_made_smaller_is_told() {
    let restarts = |setting: &str| {
        let lab = Lab::new(path(), path())?;
        lab.near.sysctl("net.ipv4.tcp_slow_start_after_idle", setting);
        let exporter = lab.near.exporter(&FLAGS);
        let (mut client, mut server) = lab.connect_many(1, congestion("cubic")).remove(0);
        let mut send = |size: usize| {
            client.write_all(&vec![0; size]).unwrap();
            server.read_exact(&mut vec![0; size]).unwrap();
        };
        send(150_000);
        sleep(Duration::from_secs(2));
        // A pass sees it idle, the next one that it sent again.
        scrape_after_a_pass(&exporter);
        send(50_000);
        let found = scrape_after_a_pass(&exporter);
        Some(of(&found, "nettune_tcp_idle_restarts_total"))
    };
    assert!([None, Some(1.0)].contains(&restarts("1")));
    assert!([None, Some(0.0)].contains(&restarts("0")));
}

#[test]
fn a_slow_connection_beside_a_fast_one_is_told() {
    // Of 6 MB/s the fast one takes some 3, so that no queue stands.
    let below = |buffers: [usize; 2]| {
        let lab = Lab::new(path(), path())?;
        let exporter = lab.near.exporter(&FLAGS);
        let transfers = buffers.map(|size| {
            Transfer::start(lab.connect_many(1, |socket| {
                congestion(PACED)(socket);
                set_socket_send_buffer_size(socket, size).unwrap();
            }))
        });
        sleep(Duration::from_secs(4));
        let labels = [("limit", "send_buffer"), ("cause", "sndbuf_fixed"), ("path", "long")];
        let found = rise(&exporter, "nettune_tcp_below_witness_seconds_total", &labels);
        let all = rise(&exporter, "nettune_tcp_below_witness_seconds_total", &[]);
        drop(transfers);
        Some((found, all))
    };
    if let Some((found, _)) = below([100_000, 8_192]) {
        assert!(found >= 1.9, "{found}");
    }
    // Two that share a link have half of it each.
    assert!(below([4 << 20, 4 << 20]).is_none_or(|(_, all)| all == 0.0));
}

#[test]
fn who_waits_for_what_is_told() {
    let Some(lab) = Lab::new(path(), path()) else { return };
    let exporter = lab.near.exporter(&FLAGS);
    let pairs = lab.connect_many(2, |socket| set_socket_keepalive(socket, true).unwrap());
    let (gone, _kept): (Vec<TcpStream>, Vec<TcpStream>) = pairs.into_iter().unzip();
    let found = scrape_after_a_pass(&exporter);
    assert_eq!(of(&found, "nettune_tcp_keepalive_connections"), 2.0);
    assert_eq!(of(&found, "nettune_tcp_orphaned_fin_wait2_connections"), 0.0);
    drop(gone);
    sleep(Duration::from_millis(300));
    let found = scrape_after_a_pass(&exporter);
    assert_eq!(of(&found, "nettune_tcp_keepalive_connections"), 0.0);
    assert_eq!(of(&found, "nettune_tcp_orphaned_fin_wait2_connections"), 2.0);
}
