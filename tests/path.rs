//! The paths that connections are put down to, on paths of known length.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::exposition::samples;
use crate::lab::{Direction, Lab, Printed, Transfer, congestion};

/// 8 Mbit/s with room for a quarter of a second.
fn path(delay: Duration) -> Direction {
    Direction::new(1e6, delay, 250_000)
}

#[test]
fn a_path_is_named_by_its_least_round_trip_time() {
    for (one_way, name, least) in [(3, "region", 0.006), (30, "long", 0.06)] {
        let direction = path(Duration::from_millis(one_way));
        let Some(lab) = Lab::new(direction, direction) else { return };
        let (mut client, mut server) = lab.connect();
        let mut byte = [0];
        for _ in 0..3 {
            client.write_all(&byte).unwrap();
            server.read_exact(&mut byte).unwrap();
            server.write_all(&byte).unwrap();
            client.read_exact(&mut byte).unwrap();
        }
        let exporter = lab.near.exporter(&["--sockets.interval=10m"]);
        let found = samples(exporter.get("/metrics?collect[]=connection", &[]).text());
        let of = |metric: &str| found[&format!("nettune_tcp_{metric}{{path=\"{name}\"}}")];
        assert_eq!((of("rtt_seconds_count"), of("min_rtt_seconds_count")), (1.0, 1.0), "{name}");
        // A packet is never early; how late it is depends on the machine.
        assert!(of("min_rtt_seconds_sum") >= least, "{}", of("min_rtt_seconds_sum"));
        assert!(of("rtt_seconds_sum") >= of("min_rtt_seconds_sum"));
        let printed = lab.near.run("ss -tinH");
        let least_of_ss = printed.split_whitespace().find_map(|word| word.strip_prefix("minrtt:")).unwrap();
        assert!((least_of_ss.parse::<f64>().unwrap() / 1e3 - of("min_rtt_seconds_sum")).abs() < 1e-6);
    }
}

#[test]
fn a_path_carries_its_rate_and_no_more() {
    let direction = path(Duration::from_millis(5));
    let Some(lab) = Lab::new(Direction { loss: 0.02, ..direction }, direction) else { return };
    let (mut client, mut server) = lab.connect();
    let started = Instant::now();
    let sender = std::thread::spawn(move || client.write_all(&vec![0; 500_000]).unwrap());
    server.read_exact(&mut vec![0; 500_000]).unwrap();
    // Half a second, and the queue of the sender's own device does not count.
    assert!(started.elapsed() >= Duration::from_millis(490), "{:?}", started.elapsed());
    sender.join().unwrap();
    let found = samples(lab.near.exporter(&[]).get("/metrics", &[]).text());
    assert!(found["nettune_tcp_segments_retransmitted_total"] > 0.0, "2 % of 350 packets were lost");
}

#[test]
fn what_a_path_does_to_packets_is_what_its_sender_sees() {
    let direction = path(Duration::from_millis(10));
    let reordering = Direction { reorder: 0.01, held: Duration::from_millis(5), ..direction };
    let black_hole = Direction { size_limit: 1400, ..direction };
    for (forth, seen) in [
        (direction, [false, false]),
        // Told from loss, for the most part, by what comes after all.
        (reordering, [true, false]),
        (black_hole, [false, true]),
    ] {
        let Some(lab) = Lab::new(forth, direction) else { return };
        lab.set_buffers(65_536, 1 << 20);
        let transfer = Transfer::start(lab.connect_many(1, congestion("cubic")));
        std::thread::sleep(Duration::from_secs(2));
        let shown = Printed::of(&lab.near).remove(0);
        assert_eq!([shown.number("reord_seen") > 0.0, shown.number("backoff") > 0.0], seen, "{shown:?}");
        assert_eq!(shown.number("bytes_acked") < 1e4, shown.number("backoff") > 0.0, "{shown:?}");
        drop(transfer);
    }
}
