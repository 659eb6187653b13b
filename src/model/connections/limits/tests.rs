use super::*;
use crate::kernel::sock_diag::BbrInfo;
use crate::model::connections::tests::connection;
use crate::read::connections::State;

const MSS: u32 = 1000;
const MIB: u32 = 1 << 20;

/// Ten seconds busy at 1 MB/s over 100 ms: 100 KB in flight.
fn change(receive_window: u64, send_buffer: u64) -> Counters {
    Counters { sent: 10_000_000, busy: 10_000_000, receive_window, send_buffer, ..Counters::default() }
}

fn info() -> TcpInfo {
    TcpInfo {
        rtt: Some(100_000),
        min_rtt: Some(100_000),
        snd_mss: MSS,
        snd_cwnd: 200,
        unacked: 100,
        options: TcpInfo::WSCALE,
        snd_wnd: Some(110_000),
        notsent_bytes: Some(0),
        ..TcpInfo::default()
    }
}

fn limits() -> TcpLimits {
    TcpLimits {
        wmem_max: Some(4 << 20),
        core_wmem_max: Some(1 << 18),
        mem_low: Some(1000),
        mem: Some(10),
        ..TcpLimits::default()
    }
}

struct Case {
    connection: Connection,
    known: Known,
    ground: Ground,
}

impl Case {
    fn new(change: Counters) -> Self {
        Self {
            connection: connection(State::Established, 1),
            known: Known { change, before: Notes::default() },
            ground: Ground {
                limits: limits(),
                least_rtt: Some(100_000),
                rate: 1e6,
                bdp: None,
                is_crowded: false,
            },
        }
    }

    /// A send buffer of this size, full to nine tenths; before it was of that size.
    fn with_sndbuf(mut self, now: u32, before: u32) -> Self {
        let memory = Memory { sndbuf: now, wmem_queued: now / 10 * 9, ..Memory::default() };
        self.connection.attributes.memory = Some(memory);
        self.known.before.sndbuf = folded(before);
        self
    }

    fn decide(&self, info: &TcpInfo) -> (Limit, Cause) {
        let found = verdict(&self.connection, info, &self.known, &self.ground);
        (found.limit, found.causes[found.limit as usize])
    }
}

#[test]
fn the_limit_is_what_took_most_and_more_than_a_tenth() {
    for (window, buffer, expected) in [
        (0, 0, Limit::Network),
        (1_000_000, 1_000_000, Limit::Network),
        (1_000_001, 0, Limit::ReceiveWindow),
        (0, 1_000_001, Limit::SendBuffer),
        (1_100_000, 5_000_000, Limit::SendBuffer),
        (5_000_000, 5_000_000, Limit::ReceiveWindow),
    ] {
        assert_eq!(binding(&change(window, buffer)), expected, "{window} {buffer}");
    }
    assert_eq!(times(&change(1_000_000, 3_000_000)), [1_000_000, 3_000_000, 6_000_000]);
    // Counters of different moments may not add up.
    assert_eq!(times(&change(9_000_000, 3_000_000)), [9_000_000, 3_000_000, 0]);
}

#[test]
fn a_send_buffer_is_at_its_maximum_or_set_or_growing_or_starved() {
    let send = change(0, 5_000_000);
    let decide = |now, before| Case::new(send).with_sndbuf(now, before).decide(&info());
    assert_eq!(decide(4 * MIB, 4 * MIB), (Limit::SendBuffer, Cause::WmemMax));
    assert_eq!(decide(4 * MIB, 2 * MIB), (Limit::SendBuffer, Cause::WmemMax));
    assert_eq!(decide(MIB, MIB), (Limit::SendBuffer, Cause::SndbufFixed));
    assert_eq!(decide(8 * MIB, 8 * MIB), (Limit::SendBuffer, Cause::SndbufFixed));
    assert_eq!(decide(MIB / 2, MIB / 2), (Limit::SendBuffer, Cause::SndbufClamped));
    assert_eq!(decide(MIB, MIB / 2), (Limit::SendBuffer, Cause::Growing));
    let mut starved = Case::new(send).with_sndbuf(MIB, MIB);
    starved.ground.limits.mem = Some(1000);
    assert_eq!(starved.decide(&info()).1, Cause::Memory);
    // Where the low mark cannot be compared, nobody is blamed.
    starved.ground.limits.mem = None;
    assert_eq!(starved.decide(&info()).1, Cause::Unknown);
    // Seen for the first time: it may be growing.
    let mut first = Case::new(send).with_sndbuf(MIB, MIB);
    first.known.before.sndbuf = 0;
    assert_eq!(first.decide(&info()).1, Cause::Unknown);
    // Not half full: something else keeps the program from writing.
    let mut low = Case::new(send).with_sndbuf(4 * MIB, 4 * MIB);
    low.connection.attributes.memory.as_mut().unwrap().wmem_queued = MIB;
    assert_eq!(low.decide(&info()).1, Cause::NotsentLowat);
    // It wrote all it had, a quarter of a round trip ago and more.
    assert_eq!(low.decide(&TcpInfo { last_data_sent: 26, ..info() }).1, Cause::Unknown);
    // A kernel that does not send sizes.
    assert_eq!(Case::new(send).decide(&info()).1, Cause::Unknown);
}

#[test]
fn a_standing_queue_decides_before_any_buffer() {
    let full = TcpInfo { rtt: Some(150_000), ..info() };
    let nearly = TcpInfo { rtt: Some(149_999), ..info() };
    let case = Case::new(change(0, 5_000_000)).with_sndbuf(4 * MIB, 4 * MIB);
    assert_eq!(case.decide(&full), (Limit::SendBuffer, Cause::StandingQueue));
    assert_eq!(case.decide(&nearly), (Limit::SendBuffer, Cause::WmemMax));
    assert_eq!(Case::new(change(5_000_000, 0)).decide(&full), (Limit::ReceiveWindow, Cause::StandingQueue));
}

#[test]
fn a_window_in_use_is_the_peer_s_and_one_that_is_not_is_closed_at_times() {
    let mut case = Case::new(change(5_000_000, 0));
    case.known.before.window = octave(110_000);
    assert_eq!(case.decide(&info()), (Limit::ReceiveWindow, Cause::PeerWindow));
    case.known.before.window = octave(55_000);
    assert_eq!(case.decide(&info()).1, Cause::Growing);
    case.known.before.window = 0;
    assert_eq!(case.decide(&info()).1, Cause::Unknown);
    case.known.before.window = octave(110_000);
    // 100 KB in a round trip are hardly a quarter of this window.
    let wide = TcpInfo { snd_wnd: Some(400_001), ..info() };
    assert_eq!(case.decide(&wide).1, Cause::PeerClosed);
    let shut = TcpInfo { snd_wnd: Some(2 * MSS - 1), ..info() };
    assert_eq!(case.decide(&shut).1, Cause::PeerClosed);
    let unscaled = TcpInfo { options: 0, snd_wnd: Some(65_535), ..info() };
    assert_eq!(case.decide(&unscaled).1, Cause::NoScaling);
    case.connection.timer = Some((Timer::WindowProbe, 5));
    assert_eq!(case.decide(&info()).1, Cause::PeerClosed);
    // Nothing goes through a closed window, and an old round trip time tells of no queue.
    case.known.change = Counters { sent: 0, ..change(10_000_000, 0) };
    assert_eq!(case.decide(&TcpInfo { rtt: Some(150_000), ..info() }).1, Cause::PeerClosed);
    let untold = Case::new(change(5_000_000, 0)).decide(&TcpInfo { snd_wnd: None, ..info() });
    assert_eq!(untold.1, Cause::Unknown);
}

#[test]
fn loss_without_a_queue_is_the_path_s() {
    // A thousandth of what was sent.
    let lossy = Counters { retransmitted: 10_000, ..change(0, 0) };
    assert_eq!(Case::new(lossy).decide(&info()), (Limit::Network, Cause::PathLoss));
    // Ten segments of it came twice.
    let spurious = Counters { spurious: 10, ..lossy };
    assert_eq!(Case::new(spurious).decide(&info()).1, Cause::Unknown);
    let queued = TcpInfo { rtt: Some(125_000), ..info() };
    assert_eq!(Case::new(lossy).decide(&queued).1, Cause::Unknown);
    let full = TcpInfo { rtt: Some(150_000), ..info() };
    assert_eq!(Case::new(lossy).decide(&full).1, Cause::StandingQueue);
    let with = |change: fn(&mut Case)| {
        let mut case = Case::new(lossy);
        change(&mut case);
        case.decide(&info()).1
    };
    // 200 segments of 1,000 bytes fill a path of 200 KB.
    assert_eq!(with(|case| case.ground.bdp = Some(200_000.0)), Cause::Unknown);
    assert_eq!(with(|case| case.ground.bdp = Some(400_000.0)), Cause::PathLoss);
    // Others share the path, and its queue may be short.
    assert_eq!(with(|case| case.ground.is_crowded = true), Cause::Unknown);
    // Its own least round trip time was measured behind a queue.
    assert_eq!(with(|case| case.ground.least_rtt = Some(80_000)), Cause::Unknown);
    // A program that sends at its own pace uses less than half of the window.
    assert_eq!(with(|case| case.ground.rate = 0.9e6), Cause::Unknown);
    let paced = TcpInfo { app_limited: true, ..info() };
    assert_eq!(Case::new(lossy).decide(&paced).1, Cause::Unknown);
}

#[test]
fn bbr_uses_half_of_its_window() {
    let mut case = Case::new(Counters { retransmitted: 10_000, ..change(0, 0) });
    case.ground.rate = 0.6e6;
    assert_eq!(case.decide(&info()).1, Cause::Unknown);
    case.connection.attributes.bbr = Some(BbrInfo::default());
    assert_eq!(case.decide(&info()).1, Cause::PathLoss);
}

#[test]
fn delayed_acknowledgements_are_no_queue_in_the_network() {
    // Twice the least of 1 ms, and then of 2 ms.
    let near = |rtt, rttvar, least| {
        let mut case = Case::new(change(0, 0));
        case.ground = Ground { least_rtt: Some(least), rate: 1e8, ..case.ground };
        case.decide(&TcpInfo { rtt: Some(rtt), rttvar, ..info() }).1
    };
    assert_eq!(near(2_000, 0, 1_000), Cause::Unknown);
    assert_eq!(near(4_000, 2_000, 2_000), Cause::StandingQueue);
    // What scatters as much as that may be anything.
    assert_eq!(near(4_000, 2_001, 2_000), Cause::Unknown);
    assert_eq!(near(7_000, 7_000, 2_000), Cause::StandingQueue);
    // Ten segments are on the way: 10 KB in 4 ms.
    let mut case = Case::new(change(0, 0));
    case.ground = Ground { least_rtt: Some(2_000), rate: 2.5e6, ..case.ground };
    let slow = TcpInfo { rtt: Some(4_000), ..info() };
    assert_eq!(case.decide(&slow).1, Cause::StandingQueue);
    case.ground.rate = 2.4e6;
    assert_eq!(case.decide(&slow).1, Cause::Unknown);
    // Before a buffer is blamed any sign of a queue is enough.
    let mut case = Case::new(change(0, 5_000_000)).with_sndbuf(4 * MIB, 4 * MIB);
    case.ground.least_rtt = Some(1_000);
    assert_eq!(case.decide(&TcpInfo { rtt: Some(1_500), ..info() }).1, Cause::StandingQueue);
}

#[test]
fn who_gets_no_answer_has_no_cause_from_before() {
    let before = Verdict { limit: Limit::Network, causes: [Cause::StandingQueue; 3] };
    let mut case = Case::new(Counters { sent: 1_000, retransmitted: 1_000, ..change(0, 0) });
    case.known.before.verdict = before.note();
    assert_eq!(case.decide(&info()).1, Cause::StandingQueue);
    assert_eq!(case.decide(&TcpInfo { backoff: 1, ..info() }).1, Cause::Unknown);
    case.known.change.sent = 0;
    assert_eq!(case.decide(&info()).1, Cause::Unknown);
}

#[test]
fn a_full_congestion_window_without_loss_grows() {
    let growing = TcpInfo { unacked: 199, notsent_bytes: Some(1), ..info() };
    assert_eq!(Case::new(change(0, 0)).decide(&growing), (Limit::Network, Cause::Growing));
    let written = TcpInfo { notsent_bytes: Some(0), ..growing };
    assert_eq!(Case::new(change(0, 0)).decide(&written).1, Cause::Unknown);
    // 65 segments fit in a burst: 134 in flight are as good as 199, 133 not.
    let paced = TcpInfo { unacked: 134, ..growing };
    assert_eq!(Case::new(change(0, 0)).decide(&paced).1, Cause::Unknown);
    assert_eq!(Case::new(change(0, 0)).decide(&TcpInfo { unacked: 135, ..growing }).1, Cause::Growing);
    // Late packets made the window smaller: that is no growth.
    let late = Counters { retransmitted: 10_000, spurious: 10, ..change(0, 0) };
    assert_eq!(Case::new(late).decide(&growing).1, Cause::Unknown);
}

#[test]
fn without_evidence_only_what_was_seen_before_is_known() {
    // Less than two seconds are not twenty round trips of 100 ms, however long they are now.
    let short = Counters { busy: 1_999_999, send_buffer: 1_000_000, ..change(0, 0) };
    let mut case = Case::new(short).with_sndbuf(4 * MIB, 4 * MIB);
    assert_eq!(case.decide(&info()), (Limit::SendBuffer, Cause::Unknown));
    let before = Verdict { limit: Limit::SendBuffer, causes: [Cause::WmemMax; 3] };
    case.known.before.verdict = before.note();
    assert_eq!(case.decide(&info()), (Limit::SendBuffer, Cause::WmemMax));
    case.known.change = Counters { receive_window: 1_500_000, ..short };
    assert_eq!(case.decide(&info()), (Limit::ReceiveWindow, Cause::Unknown));
    // Nor is a busy minute in which next to nothing was sent.
    let little = Counters { sent: 19_999, ..change(0, 5_000_000) };
    assert_eq!(Case::new(little).with_sndbuf(4 * MIB, 4 * MIB).decide(&info()).1, Cause::Unknown);
}

#[test]
fn a_note_keeps_the_limit_and_its_cause() {
    for limit in Limit::ALL {
        for cause in Cause::ALL {
            let mut verdict = Verdict::undecided(limit);
            verdict.causes[limit as usize] = cause;
            assert_eq!(Verdict::from_note(verdict.note()), verdict);
        }
    }
    for (place, cause) in Cause::ALL.into_iter().enumerate() {
        assert_eq!(cause as usize, place, "{cause:?}");
    }
}

#[test]
fn figures_beyond_all_sense_break_nothing() {
    let most = TcpInfo {
        snd_mss: u32::MAX,
        snd_cwnd: u32::MAX,
        unacked: u32::MAX,
        sacked: u32::MAX,
        lost: u32::MAX,
        retrans: u32::MAX,
        min_rtt: Some(1),
        rtt: Some(1),
        ..info()
    };
    let change = Counters { sent: u64::MAX, busy: u64::MAX, ..Counters::default() };
    let limits = TcpLimits { wmem_max: Some(1), core_wmem_max: Some(u64::MAX), ..limits() };
    let case = Case::new(change).with_sndbuf(MIB, MIB);
    let ground =
        Ground { limits, least_rtt: Some(1), rate: f64::MAX, bdp: Some(f64::MAX), is_crowded: false };
    let verdict = verdict(&case.connection, &most, &case.known, &ground);
    assert_eq!(verdict.causes[Limit::SendBuffer as usize], Cause::SndbufFixed);
}
