//! Where the time of connections goes and what it is put down to, on real paths,
//! beside what `ss` prints of the same sockets.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::exposition::{Samples, samples};
use crate::lab::{Direction, Lab, Printed, Transfer, congestion, turn};
use crate::recommended;
use crate::support::{Exporter, Scratch, eventually};

pub(crate) const MEGABIT: f64 = 1e6 / 8.0;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Algorithm of senders whose send buffer is to limit them. The kernel counts that
/// only when a send empties the queue while the program waits for room
/// (net/ipv4/tcp_output.c:tcp_cwnd_validate). Cubic, which does not pace, was seen
/// without any such time in one run and with 60 % in another, and with several
/// times more in its buffer than fits.
pub(crate) const PACED: &str = "bbr";

const FAR: &str = "
paths:
  - name: far
    bandwidth: 500Mbit/s
    rtt: 100ms
    peers: [198.51.100.2/32]
";

/// One way of the path that is declared as `far`; its queue holds as much as is
/// on the way both ways.
fn far() -> Direction {
    Direction::new(500.0 * MEGABIT, Duration::from_millis(50), 6_250_000)
}

/// An exporter at the near end. Between two of its passes are enough round trips to
/// tell a cause, with the queues of these paths full.
fn watch(lab: &Lab, configuration: &str) -> Exporter {
    let scratch = Scratch::new();
    let file = scratch.file("nettune.yaml", configuration);
    let file = format!("--config.file={}", file.display());
    // The file is read once, before the exporter is ready.
    lab.near.exporter(&["--sockets.interval=5s", "--sockets.cpu-budget=100%", &file])
}

/// A sender with cubic once it is as far as the test needs it, and an exporter that
/// has seen it from its start. Packets that a busy machine delivers late end slow
/// start too early (net/ipv4/tcp_cubic.c:hystart_update), and it would take a
/// minute to make up for that: then another one is tried.
fn warmed_up(lab: &Lab, configuration: &str, good: impl Fn(&Printed) -> bool) -> (Exporter, Transfer) {
    let mut last = None;
    for _ in 0..4 {
        let exporter = watch(lab, configuration);
        let transfer = Transfer::start(lab.connect_many(1, congestion("cubic")));
        for _ in 0..60 {
            sleep(Duration::from_millis(100));
            last = Printed::of(&lab.near).pop();
            if last.as_ref().is_some_and(&good) {
                return (exporter, transfer);
            }
        }
    }
    panic!("no connection got there: {last:?}");
}

fn scrape(exporter: &Exporter) -> Samples {
    samples(exporter.get("/metrics?collect[]=connection", &[]).text())
}

fn passes(found: &Samples) -> f64 {
    found.get("nettune_sockets_passes_total").copied().unwrap_or_default()
}

/// What is told of what `ss` shows now: after a pass that began later.
pub(crate) fn scrape_after_a_pass(exporter: &Exporter) -> Samples {
    // One that is under way has ended by then.
    sleep(Duration::from_millis(200));
    let before = passes(&scrape(exporter));
    eventually("no passes", || Some(scrape(exporter)).filter(|found| passes(found) > before))
}

/// Sum of the series of a metric that have all of these labels.
pub(crate) fn sum(found: &Samples, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let of_metric = found.range(format!("{metric}{{")..format!("{metric}|"));
    of_metric.filter(|(series, _)| labels.iter().all(|label| series.contains(label))).map(|(_, v)| v).sum()
}

fn limited(found: &Samples, labels: &[(&str, &str)]) -> f64 {
    sum(found, "nettune_tcp_limited_seconds_total", labels)
}

/// What came to it between two scrapes.
fn rise(before: &Samples, after: &Samples, labels: &[(&str, &str)]) -> f64 {
    limited(after, labels) - limited(before, labels)
}

/// Which part of the busy time was spent at a limit.
fn share(found: &Samples, limit: &str) -> f64 {
    limited(found, &[("limit", limit)]) / sum(found, "nettune_tcp_busy_seconds_total", &[])
}

/// The same of one socket by `ss`.
fn shown_share(shown: &Printed, name: &str) -> f64 {
    shown.seconds(name) / shown.seconds("busy")
}

/// Which part of the time at a limit is put down to a cause.
fn blamed(found: &Samples, limit: &str, cause: &str) -> f64 {
    limited(found, &[("limit", limit), ("cause", cause)]) / limited(found, &[("limit", limit)])
}

/// Mean of cwnd/BDP on a basis, of what was observed between two scrapes.
fn mean_ratio(before: &Samples, after: &Samples, basis: &str, path: &str) -> f64 {
    let rise = |suffix: &str| {
        let metric = format!("nettune_tcp_cwnd_bdp_ratio_{suffix}");
        let of = |found: &Samples| sum(found, &metric, &[("basis", basis), ("path", path)]);
        of(after) - of(before)
    };
    rise("sum") / rise("count")
}

#[test]
fn a_send_buffer_too_short_for_the_path_is_told() {
    let _turn = turn();
    let Some(lab) = Lab::new(far(), far()) else { return };
    lab.set_buffers(512 * KIB, 32 * MIB);
    let exporter = watch(&lab, FAR);
    let mut transfer = Transfer::start(lab.connect_many(1, congestion(PACED)));
    // Long enough for a pass while it sends.
    sleep(Duration::from_secs(6));
    let shown = &transfer.settle(&lab.near)[0];
    let shown_share = shown_share(shown, "sndbuf_limited");
    assert!(shown_share > 0.2, "{shown:?}");
    let found = scrape_after_a_pass(&exporter);
    assert!(sum(&found, "nettune_tcp_busy_seconds_total", &[("path", "far"), ("congestion", PACED)]) > 0.0);
    assert!((share(&found, "send_buffer") - shown_share).abs() < 0.03, "{found:#?} {shown:?}");
    assert!(blamed(&found, "send_buffer", "wmem_max") > 0.5, "{found:#?}");
    assert!(mean_ratio(&Samples::new(), &found, "declared", "far") < 0.5, "{found:#?}");
    // 3 * 500 Mbit/s * 100 ms = 18750000, up to a power of two, since they use bbr.
    let most = |found: &Samples| recommended::value(found, "net.ipv4.tcp_wmem", "max");
    let found = samples(exporter.get("/metrics", &[]).text());
    assert_eq!(most(&found), Some(33_554_432.0));
    assert!(recommended::rests_on(&found, "net.ipv4.tcp_wmem", "declared"));
    lab.near.sysctl("net.ipv4.tcp_wmem", "4096 16384 33554432");
    assert_eq!(most(&samples(exporter.get("/metrics", &[]).text())), None, "applied");
}

#[test]
fn buffers_that_are_long_enough_fill_the_path() {
    let _turn = turn();
    let Some(lab) = Lab::new(far(), far()) else { return };
    lab.set_buffers(32 * MIB, 32 * MIB);
    let bdp = 500.0 * MEGABIT * 0.1;
    let full = |shown: &Printed| shown.number("cwnd") * shown.number("mss") > bdp;
    let (exporter, transfer) = warmed_up(&lab, FAR, full);
    let before = scrape_after_a_pass(&exporter);
    let after = scrape_after_a_pass(&exporter);
    let ratio = mean_ratio(&before, &after, "declared", "far");
    assert!(ratio >= 0.9, "{ratio} {:?}", Printed::of(&lab.near));
    drop(transfer);
}

#[test]
fn a_short_receive_buffer_of_the_peer_is_the_peers() {
    let _turn = turn();
    let Some(lab) = Lab::new(far(), far()) else { return };
    lab.set_buffers(32 * MIB, MIB);
    let (exporter, mut transfer) = warmed_up(&lab, FAR, |shown| shown_share(shown, "rwnd_limited") > 0.6);
    // The first pass does not tell a window that stands still from one that grows.
    let before = scrape_after_a_pass(&exporter);
    sleep(Duration::from_secs(4));
    let shown = &transfer.settle(&lab.near)[0];
    let shown_share = shown_share(shown, "rwnd_limited");
    assert!(shown_share > 0.5, "{shown:?}");
    let found = scrape_after_a_pass(&exporter);
    assert!((share(&found, "receive_window") - shown_share).abs() < 0.03, "{found:#?} {shown:?}");
    let rise = |labels: &[(&str, &str)]| limited(&found, labels) - limited(&before, labels);
    let by_window = ("limit", "receive_window");
    assert!(rise(&[by_window, ("cause", "peer_window")]) > 0.5 * rise(&[by_window]), "{found:#?}");
}

#[test]
fn loss_without_a_queue_is_put_down_to_the_path() {
    let clean = Direction::new(200.0 * MEGABIT, Duration::from_millis(40), 2_000_000);
    let Some(lab) = Lab::new(Direction { loss: 0.01, ..clean }, clean) else { return };
    lab.set_buffers(32 * MIB, 32 * MIB);
    let exporter = watch(&lab, &FAR.replace("500Mbit/s", "200Mbit/s").replace("100ms", "80ms"));
    let transfer = Transfer::start(lab.connect_many(1, congestion("cubic")));
    sleep(Duration::from_secs(8));
    let shown = &Printed::of(&lab.near)[0];
    assert!(shown.number("rtt") < 1.25 * shown.number("minrtt"), "{shown:?}");
    assert!(shown.number("bytes_retrans") > 0.001 * shown.number("bytes_sent"), "{shown:?}");
    let found = scrape_after_a_pass(&exporter);
    let by_loss = limited(&found, &[("limit", "network"), ("cause", "path_loss")]);
    assert!(by_loss > 0.5 * limited(&found, &[]), "{found:#?}");
    assert!(mean_ratio(&Samples::new(), &found, "declared", "far") < 0.5, "{found:#?}");
    drop(transfer);
}

#[test]
fn parallel_connections_bear_witness_of_their_path() {
    let _turn = turn();
    let Some(lab) = Lab::new(far(), far()) else { return };
    lab.set_buffers(512 * KIB, 32 * MIB);
    let exporter = watch(&lab, "");
    let transfer = Transfer::start(lab.connect_many(8, congestion(PACED)));
    // By then each has as much as its buffer lets it have.
    sleep(Duration::from_secs(2));
    // A machine that halts carries less for a while, and bears witness of that.
    let mut ratio = f64::INFINITY;
    let mut shown = Vec::new();
    for _ in 0..3 {
        let before = scrape_after_a_pass(&exporter);
        sleep(Duration::from_secs(3));
        shown = Printed::of(&lab.near);
        ratio = mean_ratio(&before, &scrape_after_a_pass(&exporter), "witnessed", "long");
        if ratio < 0.5 {
            break;
        }
    }
    assert!(shown.iter().all(|shown| shown_share(shown, "sndbuf_limited") > 0.2), "{shown:?}");
    assert!(ratio < 0.5, "{ratio} {shown:?}");
    drop(transfer);
}

/// A link of 50 Mbit/s and 40 ms behind a queue of more than a second: more of
/// any buffer would fill the queue and nothing else.
fn full_link(send_buffer: usize, receive_buffer: usize, limited_by_it: impl Fn(&Printed) -> bool) {
    let direction = Direction::new(50.0 * MEGABIT, Duration::from_millis(20), 8_000_000);
    let Some(lab) = Lab::new(direction, direction) else { return };
    lab.set_buffers(send_buffer, receive_buffer);
    let standing = |shown: &Printed| shown.number("rtt") > 1.5 * shown.number("minrtt");
    let at_limit = |shown: &Printed| standing(shown) && limited_by_it(shown);
    let (exporter, transfer) = warmed_up(&lab, "", at_limit);
    let before = scrape_after_a_pass(&exporter);
    sleep(Duration::from_secs(3));
    let shown = &Printed::of(&lab.near)[0];
    assert!(at_limit(shown), "{shown:?}");
    let after = scrape_after_a_pass(&exporter);
    let queued = rise(&before, &after, &[("cause", "standing_queue")]);
    assert!(queued > 0.8 * rise(&before, &after, &[]), "{before:#?} {after:#?}");
    drop(transfer);
}

#[test]
fn a_send_buffer_that_fills_the_link_is_not_to_blame() {
    // Whether the kernel counts the time as limited is up to chance, see `PACED`.
    full_link(1_000_000, 32 * MIB, |_| true);
}

#[test]
fn a_receive_buffer_that_fills_the_link_is_not_to_blame() {
    full_link(32 * MIB, 1_000_000, |shown| shown_share(shown, "rwnd_limited") > 0.1);
}

#[test]
fn a_peer_that_does_not_read_has_closed_its_window() {
    let direction = Direction::new(50.0 * MEGABIT, Duration::from_millis(5), 1_000_000);
    let Some(lab) = Lab::new(direction, direction) else { return };
    let exporter = watch(&lab, "");
    let pairs = lab.connect_many(1, congestion("cubic"));
    let (mut client, _server) = (&pairs[0].0, &pairs[0].1);
    client.set_nonblocking(true).unwrap();
    for _ in 0..40 {
        while client.write(&[0; 65_536]).is_ok() {}
        sleep(Duration::from_millis(100));
    }
    let shown = &Printed::of(&lab.near)[0];
    assert!(shown_share(shown, "rwnd_limited") > 0.5, "{shown:?}");
    let found = scrape_after_a_pass(&exporter);
    assert!(share(&found, "receive_window") > 0.5, "{found:#?}");
    assert!(blamed(&found, "receive_window", "peer_closed") > 0.5, "{found:#?}");
}

/// Runs a sender that asks for a send buffer of its own, on a path that holds more
/// than any buffer it gets, and returns the size it got.
fn with_send_buffer(asked: usize, blamed_on: &str) -> Option<usize> {
    let _turn = turn();
    let direction = Direction::new(500.0 * MEGABIT, Duration::from_millis(60), 6_250_000);
    let lab = Lab::new(direction, direction)?;
    lab.set_buffers(32 * MIB, 32 * MIB);
    let exporter = watch(&lab, "");
    let transfer = Transfer::start(lab.connect_many(1, |socket| {
        congestion(PACED)(socket);
        set_socket_send_buffer_size(socket, asked).unwrap();
    }));
    // Whether a buffer grows is seen only when it is seen again.
    sleep(Duration::from_secs(2));
    let before = scrape_after_a_pass(&exporter);
    // A busy machine takes its time to come to where the buffer is what limits.
    let mut shown = Vec::new();
    for _ in 0..3 {
        sleep(Duration::from_secs(3));
        shown = Printed::of(&lab.near);
        if shown_share(&shown[0], "sndbuf_limited") > 0.1 {
            break;
        }
    }
    let shown = &shown[0];
    assert!(shown_share(shown, "sndbuf_limited") > 0.1, "{shown:?}");
    let after = scrape_after_a_pass(&exporter);
    let limit = ("limit", "send_buffer");
    let blamed = rise(&before, &after, &[limit, ("cause", blamed_on)]);
    assert!(blamed > 0.5 * rise(&before, &after, &[limit]), "{before:#?} {after:#?}");
    drop(transfer);
    Some(shown.send_buffer())
}

/// The most that a program may ask for; the kernel doubles what it grants.
fn most_to_ask_for() -> usize {
    std::fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap().trim().parse().unwrap()
}

#[test]
fn a_send_buffer_of_the_programs_choice_is_told() {
    let asked = most_to_ask_for() / 8;
    let Some(got) = with_send_buffer(asked, "sndbuf_fixed") else { return };
    assert_eq!(got, 2 * asked);
}

#[test]
fn a_send_buffer_that_was_cut_is_told() {
    let Some(got) = with_send_buffer(4 * most_to_ask_for(), "sndbuf_clamped") else { return };
    assert_eq!(got, 2 * most_to_ask_for());
}

#[test]
fn what_came_and_went_between_two_passes_is_counted() {
    let direction = Direction::new(200.0 * MEGABIT, Duration::from_millis(2), 1_000_000);
    let Some(lab) = Lab::new(direction, direction) else { return };
    let exporter = lab.near.exporter(&["--sockets.interval=25s", "--sockets.cpu-budget=100%"]);
    eventually("no pass", || (passes(&scrape(&exporter)) == 1.0).then_some(()));
    let (mut bytes, mut busy) = (0.0, 0.0);
    for _ in 0..10 {
        let mut pairs = lab.connect_many(50, congestion("cubic"));
        for (client, _) in &mut pairs {
            client.write_all(&[0; 20_000]).unwrap();
        }
        for (_, server) in &mut pairs {
            server.read_exact(&mut [0; 20_000]).unwrap();
        }
        let shown = Printed::settled(&lab.near);
        assert_eq!(shown.len(), 50);
        drop(pairs);
        eventually("not closed", || Printed::of(&lab.near).is_empty().then_some(()));
        bytes += shown.iter().map(|shown| shown.number("bytes_sent")).sum::<f64>();
        busy += shown.iter().map(|shown| shown.seconds("busy")).sum::<f64>();
    }
    assert_eq!(passes(&scrape(&exporter)), 1.0, "all of it fell between two passes");
    let found = scrape_after_a_pass(&exporter);
    let told = |metric: &str| sum(&found, &format!("nettune_tcp_{metric}_total"), &[]);
    assert_eq!(told("bytes_sent"), bytes);
    // The end itself keeps each busy for a round trip, counted in jiffies.
    let at_the_end = 500.0 * 0.01;
    assert!((told("busy_seconds") - busy).abs() <= 0.05 * busy + at_the_end, "{busy} {found:#?}");
}

#[test]
fn sums_are_those_of_ss() {
    let direction = Direction::new(100.0 * MEGABIT, Duration::from_millis(10), 500_000);
    let Some(lab) = Lab::new(Direction { loss: 0.02, ..direction }, direction) else { return };
    let exporter = watch(&lab, "");
    let mut pairs = lab.connect_many(10, congestion("cubic"));
    pairs.extend(lab.connect_many(10, congestion("reno")));
    let mut transfer = Transfer::start(pairs);
    sleep(Duration::from_secs(3));
    let figures = |shown: &Printed| {
        let figures = [shown.number("bytes_sent"), shown.number("bytes_retrans"), shown.seconds("busy")];
        (shown.cookie(), figures)
    };
    let shown = transfer.settle(&lab.near);
    let found = scrape_after_a_pass(&exporter);
    let frozen: BTreeMap<_, _> = shown.iter().map(figures).collect();
    assert_eq!(frozen, Printed::of(&lab.near).iter().map(figures).collect(), "they stand still");
    for name in ["cubic", "reno"] {
        let of_name = || shown.iter().filter(|shown| shown.says(name)).map(|shown| figures(shown).1);
        assert_eq!(of_name().count(), 10);
        for (index, metric, exactly) in
            [(0, "bytes_sent", 0.0), (1, "bytes_retransmitted", 0.0), (2, "busy_seconds", 0.01)]
        {
            let expected: f64 = of_name().map(|figures| figures[index]).sum();
            let metric = format!("nettune_tcp_{metric}_total");
            let told = sum(&found, &metric, &[("path", "long"), ("congestion", name)]);
            // ss prints whole milliseconds, of each of ten.
            assert!((told - expected).abs() <= exactly, "{metric} {name}: {told}, {expected} by ss");
            assert!(expected > 0.0, "{metric} {name}");
        }
    }
}
