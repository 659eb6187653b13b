use super::*;
use crate::kernel::sock_diag::{Attributes, Memory};
use crate::model::connections::paths::Declared;
use crate::model::connections::sums::Totals;
use crate::model::connections::tests::connection;
use crate::model::histogram::Histogram;
use crate::read::connections::State;

const MS: u32 = 1000;

struct Row {
    flows: Flows,
    start: Instant,
}

impl Row {
    fn new(paths: Paths, most: usize) -> Self {
        let start = Instant::now();
        Self { flows: Flows::new(start, Arc::new(paths), most), start }
    }

    /// A pass over everything, so many seconds after the start.
    fn pass(&mut self, seconds: u64, connections: &[Connection]) {
        self.slice(seconds, connections, 1, true);
    }

    fn slice(&mut self, seconds: u64, connections: &[Connection], weight: u64, round: bool) {
        let started = self.start + Duration::from_secs(seconds);
        let limits = TcpLimits { wmem_max: Some(1 << 20), ..TcpLimits::default() };
        self.flows.begin(Turn { started, since: Duration::from_secs(10), weight, limits });
        for connection in connections {
            self.flows.observe(connection);
        }
        self.flows.finish(started, round);
    }

    fn total(&self) -> Totals {
        let mut sum = Totals::default();
        for totals in self.flows.sums().totals.values() {
            sum.busy += totals.busy;
            sum.sent += totals.sent;
            sum.retransmitted += totals.retransmitted;
            sum.spurious += totals.spurious;
        }
        sum
    }

    fn limited(&self) -> Vec<(&'static str, &'static str, u64)> {
        let sums = self.flows.sums().limited.iter();
        sums.map(|((limit, cause, ..), time)| (limit.name(), cause.name(), time.as_millis() as u64)).collect()
    }
}

/// A connection that has sent so much and been busy for so many seconds.
fn flow(cookie: u64, sent: u64, busy: u64) -> Connection {
    let info = TcpInfo {
        rtt: Some(100 * MS),
        min_rtt: Some(100 * MS),
        snd_mss: 1000,
        snd_cwnd: 100,
        bytes_sent: Some(sent),
        bytes_retrans: Some(0),
        dsack_dups: Some(0),
        busy_time: Some(busy * 1_000_000),
        rwnd_limited: Some(0),
        sndbuf_limited: Some(0),
        ..TcpInfo::default()
    };
    Connection {
        cookie,
        attributes: Attributes { info: Some(info), ..Attributes::default() },
        ..connection(State::Established, 40_000)
    }
}

fn with(connection: &Connection, change: impl FnOnce(&mut TcpInfo)) -> Connection {
    let mut changed = connection.clone();
    changed.attributes.info.as_mut().map(change);
    changed
}

fn closed(connection: &Connection) -> Closed {
    Closed {
        address: connection.address,
        port: connection.port,
        peer_address: connection.peer_address,
        peer_port: connection.peer_port,
        cookie: connection.cookie,
        info: connection.attributes.info.unwrap(),
    }
}

#[test]
fn what_was_before_the_start_does_not_count_and_what_is_new_counts_whole() {
    let mut row = Row::new(Paths::default(), 10);
    row.pass(0, &[flow(1, 5_000, 3)]);
    assert_eq!(row.total(), Totals::default());
    row.pass(10, &[flow(1, 7_000, 4), flow(2, 300, 0)]);
    assert_eq!((row.total().sent, row.total().busy), (2_300, Duration::from_secs(1)));
    // A walk that gives one twice, as it is moved between its buckets.
    row.pass(20, &[flow(1, 7_100, 4), flow(1, 7_100, 4)]);
    assert_eq!(row.total().sent, 2_400);
    // Busy for longer than it can have lived: it was missed in the passes before.
    row.pass(30, &[flow(3, 1_000_000, 60)]);
    assert_eq!(row.total().sent, 2_400);
    row.pass(40, &[flow(3, 1_000_500, 60)]);
    assert_eq!(row.total().sent, 2_900);
}

#[test]
fn what_closes_brings_its_remainder_once() {
    let mut row = Row::new(Paths::default(), 10);
    // Before everything was seen once its age cannot be told.
    row.flows.close(&closed(&flow(9, 1_000_000, 1)));
    row.pass(0, &[flow(1, 5_000, 3)]);
    row.flows.close(&closed(&flow(1, 6_000, 4)));
    assert_eq!((row.total().sent, row.total().busy), (1_000, Duration::from_secs(1)));
    // Came and went between two passes.
    row.flows.close(&closed(&flow(2, 70, 0)));
    assert_eq!(row.total().sent, 1_070);
    assert_eq!(row.flows.followed(), 0);
    assert_eq!(row.limited(), [("network", "unknown", 1_000)]);
}

#[test]
fn the_end_of_a_connection_has_the_cause_last_seen() {
    let mut row = Row::new(Paths::default(), 10);
    let limited = |sent, busy, limited: u64| {
        let mut flow = with(&flow(1, sent, busy), |info| info.sndbuf_limited = Some(limited * 1_000_000));
        let memory = Memory { sndbuf: 1 << 20, wmem_queued: 1 << 20, ..Memory::default() };
        flow.attributes.memory = Some(memory);
        flow
    };
    row.pass(0, &[limited(0, 0, 0)]);
    row.pass(10, &[limited(5_000_000, 10, 6)]);
    row.flows.close(&closed(&limited(5_100_000, 11, 7)));
    assert_eq!(row.limited(), [("send_buffer", "wmem_max", 7_000), ("network", "unknown", 4_000)]);
}

#[test]
fn a_closed_one_that_nobody_told_of_goes_after_two_rounds() {
    let mut row = Row::new(Paths::default(), 10);
    row.pass(0, &[flow(1, 1, 0), flow(2, 1, 0)]);
    row.pass(10, &[flow(1, 1, 0)]);
    // A walk beside others that come and go may miss one that is alive.
    assert_eq!(row.flows.followed(), 2);
    row.pass(20, &[flow(1, 1, 0), flow(2, 5, 0)]);
    assert_eq!(row.total().sent, 4);
    row.pass(30, &[flow(1, 1, 0)]);
    row.pass(40, &[flow(1, 1, 0)]);
    assert_eq!(row.flows.followed(), 1);
}

#[test]
fn a_slice_at_a_time_counts_each_whole_and_observes_for_the_others() {
    let mut row = Row::new(Paths::default(), 10);
    row.pass(0, &[flow(1, 0, 0), flow(2, 0, 0)]);
    let heard = |cookie, sent| with(&flow(cookie, sent, 0), |info| info.last_ack_recv = 0);
    row.slice(10, &[heard(1, 100)], 2, false);
    assert_eq!((row.total().sent, row.flows.followed()), (100, 2));
    row.slice(20, &[heard(2, 700)], 2, true);
    assert_eq!((row.total().sent, row.flows.followed()), (800, 2));
    // The first pass is one observation of each, then each stands for two.
    let times: Vec<u64> = row.flows.sums().rtt.values().map(Histogram::count).collect();
    assert_eq!(times, [0, 0, 6]);
}

#[test]
fn without_room_a_connection_is_told_of_and_not_counted() {
    let mut row = Row::new(Paths::default(), 1);
    row.pass(0, &[flow(1, 0, 0)]);
    row.pass(10, &[flow(1, 5, 0), flow(2, 1_000, 0)]);
    assert_eq!((row.total().sent, row.flows.sums().not_followed), (5, 1));
    // Once there is room it counts, as what is new does.
    row.flows.close(&closed(&flow(1, 5, 0)));
    row.pass(20, &[flow(2, 1_100, 0)]);
    assert_eq!(row.total().sent, 1_105);
}

fn declared() -> Paths {
    Paths(vec![Declared {
        name: "far".into(),
        bandwidth: 10_000_000,
        rtt: Duration::from_millis(100),
        peers: vec!["192.0.2.0/24".parse().unwrap()],
    }])
}

#[test]
fn the_window_is_compared_with_each_product() {
    let mut row = Row::new(declared(), 10);
    row.pass(0, &[flow(1, 0, 0), flow(2, 0, 0)]);
    row.pass(10, &[flow(1, 10_000_000, 10), flow(2, 10_000_000, 2)]);
    // Sums in thousandths.
    let ratios = |row: &Row| -> Vec<(&str, u64, f64)> {
        let found = row.flows.sums().ratios.iter();
        let sum = |histogram: &Histogram| (histogram.sum * 1e3).round();
        found.map(|((basis, ..), one)| (basis.name(), one.count(), sum(one))).collect()
    };
    // 100 segments of 1,000 bytes: 1 MB/s times 100 ms is as much, 10 MB/s ten times.
    // The second was busy for a fifth of the time, which is just enough, and at 5 MB/s.
    assert_eq!(ratios(&row), [("delivered", 2, 1200.0), ("declared", 2, 200.0)]);
    // Witnessed are 2 MB/s of both together.
    assert_eq!(row.flows.witnessed(), BTreeMap::from([(3, 2e6)]));
    row.pass(20, &[flow(1, 20_000_000, 20), flow(2, 20_000_000, 3)]);
    assert_eq!(ratios(&row), [("delivered", 3, 2200.0), ("witnessed", 1, 500.0), ("declared", 3, 300.0)]);
}

#[test]
fn what_the_application_limits_has_no_ratio() {
    let mut row = Row::new(declared(), 10);
    let lazy = |sent, busy| with(&flow(1, sent, busy), |info| info.app_limited = true);
    row.pass(0, &[lazy(0, 0)]);
    row.pass(10, &[lazy(10_000_000, 10)]);
    assert!(row.flows.sums().ratios.is_empty());
    // The flag is set on those that wait for send buffer too.
    row.pass(20, &[with(&lazy(20_000_000, 20), |info| info.sndbuf_limited = Some(2_000_000))]);
    assert_eq!(row.flows.sums().ratios.len(), 2);
}

#[test]
fn far_below_the_witness_is_a_quarter_and_a_shared_path_is_not_slow() {
    // 1 MB/s beside 4 MB/s, and then beside these.
    let below = |others: [u64; 2]| {
        let mut row = Row::new(Paths::default(), 10);
        row.pass(0, &[flow(1, 0, 0), flow(2, 0, 0)]);
        let mut other = 0;
        for (turn, rate) in (1..).zip([4_000_000, others[0], others[1]]) {
            other += 10 * rate;
            row.pass(10 * turn, &[flow(1, 10_000_000 * turn, 10 * turn), flow(2, other, 10 * turn)]);
        }
        let sums = row.flows.sums().below_witness.clone();
        sums.into_iter()
            .map(|((limit, cause, path), time)| (limit, cause, path, time.as_secs()))
            .collect::<Vec<_>>()
    };
    // It is slow in two passes, of which the second counts.
    assert_eq!(below([0, 0]), [(Limit::Network, Cause::Unknown, 2, 10)]);
    assert_eq!(below([0, 1_500_000]), [(Limit::Network, Cause::Unknown, 2, 10)]);
    // More than half of 5 MB/s is in use.
    assert_eq!(below([0, 1_600_000]), []);
    assert_eq!(below([0, 40_000_000]), []);
}

#[test]
fn an_idle_restart_is_a_smaller_window_after_idleness_without_another_reason() {
    let idle = with(&flow(1, 1_000, 0), |info| (info.last_data_sent, info.rto) = (500, 300_000));
    let small = with(&flow(1, 11_001, 0), |info| info.snd_cwnd = 10);
    let restarts = |before: &Connection, after: &Connection| {
        let mut row = Row::new(Paths::default(), 10);
        row.pass(0, std::slice::from_ref(before));
        row.pass(10, std::slice::from_ref(after));
        row.flows.sums().idle_restarts.values().sum::<u64>()
    };
    assert_eq!(restarts(&idle, &small), 1);
    assert_eq!(restarts(&flow(1, 1_000, 0), &small), 0);
    assert_eq!(restarts(&idle, &flow(1, 11_001, 0)), 0);
    // Ten segments are sent at once after a restart too; twice that is as far as bursts of
    // ten open the window.
    assert_eq!(restarts(&with(&idle, |info| info.snd_cwnd = 20), &small), 0);
    for other in [
        with(&small, |info| info.bytes_retrans = Some(1)),
        with(&small, |info| info.ca_state = 2),
        with(&small, |info| info.options = TcpInfo::ECN),
        with(&small, |info| info.bytes_sent = Some(11_000)),
    ] {
        assert_eq!(restarts(&idle, &other), 0);
    }
}

#[test]
fn who_receives_is_held_back_by_a_program_that_does_not_read() {
    let receiver = |received, unread: bool| {
        let mut flow = with(&flow(1, 0, 0), |info| info.bytes_received = Some(received));
        let rmem_alloc = if unread { 600 } else { 0 };
        flow.receive_queue = rmem_alloc;
        flow.attributes.memory = Some(Memory { rmem_alloc, rcvbuf: 1_000, ..Memory::default() });
        flow
    };
    let mut row = Row::new(Paths::default(), 10);
    let seconds = |row: &Row| {
        let sums = row.flows.sums();
        let limited = sums.receive_limited.iter().map(|((cause, _), time)| (cause.name(), time.as_secs()));
        (sums.receiving.values().sum::<Duration>().as_secs(), limited.collect::<Vec<_>>())
    };
    row.pass(0, &[receiver(0, false)]);
    row.pass(10, &[receiver(1 << 20, true)]);
    assert_eq!(seconds(&row), (10, vec![]));
    // Nothing more fits, so that nothing comes.
    row.pass(20, &[receiver(1 << 20, true)]);
    assert_eq!(seconds(&row), (20, vec![("unread", 10)]));
    row.pass(30, &[receiver(1 << 20, false)]);
    assert_eq!(seconds(&row), (20, vec![("unread", 10)]));
}

#[test]
fn sums_are_by_path_and_algorithm() {
    let of = |cookie, algorithm: &[u8; 16]| {
        let mut flow = flow(cookie, 10, 0);
        flow.attributes.algorithm = Some(*algorithm);
        flow
    };
    let mut row = Row::new(Paths::default(), 10);
    row.pass(0, &[]);
    let near = with(&of(2, b"bbr\0\0\0\0\0\0\0\0\0\0\0\0\0"), |info| info.min_rtt = Some(999));
    row.pass(10, &[of(1, b"cubic\0\0\0\0\0\0\0\0\0\0\0"), near, of(3, b"cubic\0\0\0\0\0\0\0\0\0\0\0")]);
    let sent: Vec<_> = row.flows.sums().totals.iter().map(|(key, totals)| (*key, totals.sent)).collect();
    assert_eq!(sent, [((0, 2), 10), ((2, 1), 20)]);
    assert_eq!(row.flows.algorithms().collect::<Vec<_>>(), ["unknown", "cubic", "bbr"]);
}

#[test]
fn numbers_of_passes_go_over_their_end() {
    let mut row = Row::new(Paths::default(), 10);
    row.pass(0, &[flow(1, 0, 0), flow(2, 0, 0)]);
    let passes = u64::from(u16::MAX) + 100;
    for pass in 1..=passes {
        row.pass(10 * pass, &[flow(1, 100 * pass, 0)]);
    }
    assert_eq!((row.total().sent, row.flows.followed()), (100 * passes, 1));
}

/// It would be new in every pass, and add up without end.
#[test]
fn what_has_no_cookie_is_not_followed() {
    let mut row = Row::new(Paths::default(), 10);
    for pass in 0..3 {
        row.pass(10 * pass, &[flow(0, 1000, 1)]);
    }
    assert_eq!((row.total(), row.flows.followed()), (Totals::default(), 0));
}
