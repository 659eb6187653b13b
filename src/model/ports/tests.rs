use super::*;
use crate::kernel::sock_diag::Attributes;

fn parameters(tw_reuse: u64) -> Parameters {
    Parameters {
        range: Some([40_000, 40_099]),
        reserved: vec![[40_010, 40_019], [39_000, 40_000], [50_000, 50_000]],
        tw_reuse: Some(tw_reuse),
        tw_reuse_delay: Some(2_000),
        timestamps: Some(1),
    }
}

fn connection(address: &str, port: u16, peer: (&str, u16)) -> Connection {
    Connection {
        state: State::Established,
        timer: None,
        address: address.parse().unwrap(),
        port,
        peer_address: peer.0.parse().unwrap(),
        peer_port: peer.1,
        cookie: 1,
        has_owner: true,
        receive_queue: 0,
        send_queue: 0,
        attributes: Attributes { bind_address_no_port: Some(false), ..Attributes::default() },
    }
}

fn time_wait(address: &str, port: u16, peer: (&str, u16), left: u32) -> Connection {
    Connection {
        state: State::TimeWait,
        timer: Some((Timer::TimeWait, left)),
        attributes: Attributes::default(),
        ..connection(address, port, peer)
    }
}

fn of(port: u16, in_use: u64, unreusable_time_wait: Option<u64>) -> Destination {
    Destination { port, in_use, unreusable_time_wait }
}

#[test]
fn the_worst_pair_of_addresses_stands_for_its_port() {
    let mut ports = Ports::default();
    // 100 less 40,000 and ten more.
    assert_eq!(ports.begin(&parameters(1)), 89);
    for port in 40_001..=40_005 {
        ports.observe(&connection("192.0.2.1", port, ("192.0.2.9", 443)), false);
        // The same as an IPv6 socket has it.
        ports.observe(&connection("::ffff:192.0.2.1", port + 20, ("::ffff:192.0.2.9", 443)), false);
        ports.observe(&connection("192.0.2.1", port, ("192.0.2.8", 443)), false);
    }
    ports.observe(&connection("192.0.2.1", 40_050, ("192.0.2.9", 80)), false);
    // Not ours, reserved, outside.
    ports.observe(&connection("192.0.2.1", 40_051, ("192.0.2.9", 80)), true);
    ports.observe(&connection("192.0.2.1", 40_015, ("192.0.2.9", 80)), false);
    ports.observe(&connection("192.0.2.1", 40_100, ("192.0.2.9", 80)), false);
    let usage = ports.usage(1).unwrap();
    assert_eq!((usage.available, usage.bound), (89, Bound { ratio: 0.0, is_decided: true }));
    assert_eq!(usage.destinations, [of(443, 10, None), of(80, 1, None)]);
    assert_eq!(ports.usage(3).unwrap().destinations, [of(443, 30, None), of(80, 3, None)]);
}

#[test]
fn only_the_first_five_destination_ports_are_shown() {
    let mut ports = Ports::default();
    ports.begin(&parameters(1));
    for peer in 1..=9 {
        ports.observe(&connection("192.0.2.1", 40_001, ("192.0.2.9", peer)), false);
    }
    ports.observe(&connection("192.0.2.1", 40_002, ("192.0.2.9", 7)), false);
    let shown: Vec<_> = ports.usage(1).unwrap().destinations.iter().map(|found| found.port).collect();
    assert_eq!(shown, [7, 1, 2, 3, 4]);
}

#[test]
fn time_wait_counts_where_it_may_not_be_reused() {
    let (near, far) = (("127.0.0.1", 9), ("192.0.2.9", 9));
    let off = Parameters { timestamps: Some(0), ..parameters(1) };
    let old = Parameters { tw_reuse_delay: None, ..parameters(1) };
    for (parameters, peer, left, counts) in [
        (&parameters(0), near, 10_000, true),
        (&parameters(1), near, 10_000, false),
        (&parameters(1), far, 10_000, false),
        (&parameters(2), near, 10_000, false),
        (&parameters(2), far, 10_000, true),
        (&parameters(2), ("::1", 9), 10_000, false),
        (&parameters(2), ("::ffff:127.0.0.2", 9), 10_000, false),
        (&off, far, 10_000, true),
        // 1.5 s old: before 2 s, and after the 1 s of old kernels.
        (&parameters(1), far, 58_500, true),
        (&old, far, 58_500, false),
        (&old, far, 59_500, true),
    ] {
        let mut ports = Ports::default();
        ports.begin(parameters);
        ports.expect_time_wait(parameters);
        ports.observe(&time_wait("192.0.2.1", 40_001, peer, left), false);
        let expected: &[_] = if counts { &[of(9, 1, Some(1))] } else { &[] };
        assert_eq!(ports.usage(1).unwrap().destinations, expected, "{parameters:?} {peer:?} {left}");
    }
    // Looked at or not, unknown is not none.
    let unknown = Parameters { tw_reuse: None, ..parameters(0) };
    for parameters in [&parameters(0), &unknown] {
        let mut ports = Ports::default();
        ports.begin(parameters);
        if *parameters == unknown {
            ports.expect_time_wait(parameters);
        }
        ports.observe(&time_wait("192.0.2.1", 40_001, far, 10_000), false);
        ports.observe(&connection("192.0.2.1", 40_002, far), false);
        assert_eq!(ports.usage(1).unwrap().destinations, [of(9, 1, None)]);
    }
}

#[test]
fn the_worst_is_found_among_more_than_can_be_counted() {
    let wide = Parameters { range: Some([1, 65_535]), reserved: Vec::new(), ..parameters(1) };
    let mut ports = Ports::default();
    ports.begin(&wide);
    let mut seen = 0;
    for number in 0..3 * TUPLES as u32 {
        let peer = std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
        ports.observe(&connection("192.0.2.1", (number % 60_000) as u16 + 1, (&peer, 80)), false);
        seen += 1;
        if number % 16 == 0 {
            ports.observe(&connection("192.0.2.1", (number / 16) as u16 + 1, ("192.0.2.9", 443)), false);
            seen += 1;
        }
    }
    assert!(ports.tuples.len() <= TUPLES);
    let [worst, ..] = ports.usage(1).unwrap().destinations[..] else { panic!("nothing") };
    let (truth, most) = (3 * TUPLES as u64 / 16, seen / TUPLES as u64);
    assert_eq!(worst.port, 443);
    assert!((truth - most..=truth).contains(&worst.in_use), "{} of {truth}", worst.in_use);
}

#[test]
fn ports_that_are_never_used_twice_were_bound() {
    let ratio = |sockets: &[(u16, &str, Option<bool>)], weight| {
        let mut ports = Ports::default();
        ports.begin(&Parameters { reserved: Vec::new(), ..parameters(1) });
        for (port, peer, flag) in sockets {
            let mut one = connection("192.0.2.1", *port, (peer, 443));
            one.attributes.bind_address_no_port = *flag;
            ports.observe(&one, false);
        }
        let bound = ports.usage(weight).unwrap().bound;
        (bound.ratio, bound.is_decided)
    };
    let peers: Vec<_> = (1..=200).map(|number| format!("192.0.2.{number}")).collect();
    let flagged = |flag| -> Vec<_> {
        (0..96).map(|number| (40_000 + number, peers[usize::from(number)].as_str(), flag)).collect()
    };
    // (96² - 96) / 2 / 100 = 45 expected to meet.
    assert_eq!(ratio(&flagged(Some(false)), 1), (0.96, true));
    assert_eq!(ratio(&flagged(Some(true)), 1), (0.0, true));
    assert_eq!(ratio(&flagged(None), 1), (0.96, false));
    // One that the kernel does not tell of leaves it open.
    let mut some = flagged(Some(false));
    some[0].2 = None;
    assert_eq!(ratio(&some, 1), (0.96, false));
    // Chosen by connect(): some meet.
    let mut met = flagged(Some(false));
    for (place, one) in met.iter_mut().enumerate().take(10) {
        one.0 = 40_050 + place as u16;
    }
    assert_eq!(ratio(&met, 1), (0.0, true));
    // All to one destination: none can meet.
    let mut alone = flagged(Some(false));
    for one in &mut alone {
        one.1 = "192.0.2.1";
    }
    assert_eq!(ratio(&alone, 1), (0.0, true));
    // Too few to tell: 60² / 2 / 100 = 18.
    assert_eq!(ratio(&flagged(Some(false))[..60], 1), (0.0, true));
    // Half of the ports: (48² - 48) / 2 / 50 = 22.
    let seen: Vec<_> = flagged(Some(false)).into_iter().step_by(2).collect();
    assert_eq!(ratio(&seen, 2), (0.96, true));
}

#[test]
fn a_port_that_takes_up_less_than_one_in_a_hundred_is_not_shown() {
    let mut ports = Ports::default();
    let wide = Parameters { range: Some([40_000, 40_199]), reserved: Vec::new(), ..parameters(1) };
    ports.begin(&wide);
    ports.observe(&connection("192.0.2.1", 40_001, ("192.0.2.9", 443)), false);
    assert_eq!(ports.usage(1).unwrap().destinations, []);
    assert_eq!(ports.usage(2).unwrap().destinations, [of(443, 2, None)]);
    ports.observe(&connection("192.0.2.1", 40_002, ("192.0.2.9", 443)), false);
    assert_eq!(ports.usage(1).unwrap().destinations, [of(443, 2, None)]);
}

#[test]
fn without_a_range_nothing_is_known() {
    let mut ports = Ports::default();
    assert_eq!(ports.begin(&Parameters { range: None, ..parameters(1) }), 0);
    ports.observe(&connection("192.0.2.1", 40_001, ("192.0.2.9", 443)), false);
    assert_eq!(ports.usage(1), None);
}

#[test]
fn time_wait_matters_from_half_of_the_ports_on() {
    assert!(!time_wait_matters(0, 1_000_000, 100));
    assert!(!time_wait_matters(10, 39, 100));
    assert!(time_wait_matters(10, 40, 100));
}
