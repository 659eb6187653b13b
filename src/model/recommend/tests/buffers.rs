//! Buffers of sockets, and memory of all of them.

use std::collections::BTreeMap;

use super::*;
use crate::model::Followed;
use crate::model::connections::Sums;
use crate::model::connections::limits::{Cause, Limit};
use crate::model::connections::paths::{Declared, PathId};
use crate::model::connections::receiving::ReceiveCause;
use crate::model::connections::sums::Totals;
use crate::model::connections::troubles::Troubles;
use crate::model::udp;

const WMEM: &str = "net.ipv4.tcp_wmem";
const RMEM: &str = "net.ipv4.tcp_rmem";
const LONG: PathId = 2;
/// The first that is declared.
const DECLARED: PathId = 3;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What connections did: with an algorithm, so many seconds of a hundred were limited.
fn limited(limit: Limit, cause: Cause, path: PathId, algorithm: u8, time: u64, paths: &Paths) -> Followed {
    let mut sums = Sums::default();
    sums.totals.insert((path, algorithm), Totals { busy: seconds(100), ..Totals::default() });
    sums.limited.insert((limit, cause, path, algorithm), seconds(time));
    Followed {
        sums,
        algorithms: ["unknown", "cubic", "bbr"].map(str::to_owned).to_vec(),
        paths: Arc::new(paths.clone()),
        ..Followed::default()
    }
}

fn received(cause: ReceiveCause, path: PathId, time: u64, paths: &Paths) -> Followed {
    let mut sums = Sums::default();
    sums.receiving.insert(path, seconds(100));
    sums.receive_limited.insert((cause, path), seconds(time));
    Followed { sums, paths: Arc::new(paths.clone()), ..Followed::default() }
}

fn followed(found: Followed) -> Snapshot {
    connections(Connections { followed: Some(found), ..Connections::default() })
}

/// 500 Mbit/s and 100 ms: 6.25 MB in flight.
fn declared() -> Paths {
    let path = Declared {
        name: "cdn-eu".into(),
        bandwidth: 62_500_000,
        rtt: Duration::from_millis(100),
        peers: Vec::new(),
    };
    Paths(vec![path])
}

/// What is recommended for the last number; TCP may have 1 GiB at pressure.
fn max(bench: &Bench, name: &str) -> Option<(i64, Basis)> {
    let (numbers, basis) = bench.found(name)?;
    assert_eq!(numbers[..2], [4096, 16384]);
    Some((numbers[2], basis))
}

const MEM: (&str, &[i64]) = ("net.ipv4.tcp_mem", &[196_608, 262_144, 393_216]);

fn bench(name: &str, running: i64, paths: Paths) -> Bench {
    let mut bench = Bench::new(&[(name, &[4096, 16384, running]), MEM]);
    bench.paths = paths;
    bench
}

#[test]
fn a_send_buffer_that_limits_grows_fourfold() {
    let after = |running, time, path, cause| {
        let mut bench = bench(WMEM, running, Paths::default());
        bench.see(0, followed(limited(Limit::SendBuffer, cause, path, 1, time, &bench.paths.clone())));
        max(&bench, WMEM)
    };
    // 4 * 4194304 is a power of two; 4 * 5000000 = 20000000, up to 33554432.
    assert_eq!(after(4_194_304, 10, LONG, Cause::WmemMax), Some((16_777_216, Basis::Repeat)));
    assert_eq!(after(5_000_000, 10, LONG, Cause::WmemMax), Some((33_554_432, Basis::Repeat)));
    // Less than a tenth of the time, or for another cause.
    assert_eq!(after(4_194_304, 9, LONG, Cause::WmemMax), None);
    assert_eq!(after(4_194_304, 90, LONG, Cause::StandingQueue), None);
    // Half of 1 GiB is all that one may have.
    assert_eq!(after(150_000_000, 10, LONG, Cause::WmemMax), Some((536_870_912, Basis::Memory)));
}

#[test]
fn a_declared_path_says_how_much() {
    let after = |running, path, algorithm| {
        let mut bench = bench(WMEM, running, declared());
        let paths = bench.paths.clone();
        bench.see(0, followed(limited(Limit::SendBuffer, Cause::WmemMax, path, algorithm, 50, &paths)));
        max(&bench, WMEM)
    };
    // 2 * 6250000 = 12500000, up to 16777216; for bbr 18750000, up to 33554432.
    assert_eq!(after(4_194_304, DECLARED, 1), Some((16_777_216, Basis::Declared)));
    assert_eq!(after(4_194_304, DECLARED, 2), Some((33_554_432, Basis::Declared)));
    // It limits all the same: four times as much.
    assert_eq!(after(16_777_216, DECLARED, 1), Some((67_108_864, Basis::Repeat)));
    // Not of that path, which fits.
    assert_eq!(after(16_777_216, LONG, 1), Some((67_108_864, Basis::Repeat)));
}

#[test]
fn a_declared_path_that_does_not_fit_needs_no_limit() {
    // Of 6.25 MB in flight half a buffer is to hold one.
    assert_eq!(max(&bench(WMEM, 12_499_999, declared()), WMEM), Some((16_777_216, Basis::Declared)));
    assert_eq!(max(&bench(WMEM, 12_500_000, declared()), WMEM), None);
    let bbr = bench(WMEM, 12_499_999, declared()).with_text("net.ipv4.tcp_congestion_control", "bbr");
    assert_eq!(max(&bbr, WMEM), Some((33_554_432, Basis::Declared)));
    let bbr = bench(WMEM, 12_500_000, declared()).with_text("net.ipv4.tcp_congestion_control", "bbr");
    assert_eq!(max(&bbr, WMEM), None);
    assert_eq!(max(&bench(RMEM, 12_499_999, declared()), RMEM), Some((16_777_216, Basis::Declared)));
    // With tcp_adv_win_scale 2 the window is 3/4 of it: 4/3 * 6250000 = 8333333.
    let mut scaled = bench(RMEM, 8_333_332, declared());
    scaled.set("net.ipv4.tcp_adv_win_scale", Value::Numbers(vec![2]));
    assert_eq!(max(&scaled, RMEM), Some((8_388_608, Basis::Declared)));
    // With -1 it is half of it again, and from 6.6 on nobody asks.
    scaled.set("net.ipv4.tcp_adv_win_scale", Value::Numbers(vec![-1]));
    assert_eq!(max(&scaled, RMEM), Some((16_777_216, Basis::Declared)));
}

#[test]
fn a_path_that_was_seen_to_carry_more_says_how_much() {
    let after = |bytes, running| {
        let mut bench = bench(WMEM, running, Paths::default());
        let found = limited(Limit::SendBuffer, Cause::WmemMax, LONG, 1, 50, &bench.paths.clone());
        bench.see(0, followed(Followed { witnessed_in_flight: BTreeMap::from([(LONG, bytes)]), ..found }));
        max(&bench, WMEM)
    };
    // 2 * 10 MB, up to 33554432; 2 * 2 MB are no more than limits already.
    assert_eq!(after(10_000_000.0, 4_194_304), Some((33_554_432, Basis::Witnessed)));
    assert_eq!(after(2_000_000.0, 4_194_304), Some((16_777_216, Basis::Repeat)));
}

#[test]
fn a_receive_buffer_that_limits_grows_likewise() {
    let after = |running, time, cause| {
        let mut bench = bench(RMEM, running, Paths::default());
        bench.see(0, followed(received(cause, LONG, time, &bench.paths.clone())));
        max(&bench, RMEM)
    };
    assert_eq!(after(6_291_456, 10, ReceiveCause::RmemMax), Some((33_554_432, Basis::Repeat)));
    assert_eq!(after(6_291_456, 9, ReceiveCause::RmemMax), None);
    assert_eq!(after(6_291_456, 90, ReceiveCause::Unread), None);
}

#[test]
fn many_connections_share_what_memory_carries() {
    let mut bench = bench(WMEM, 4_194_304, Paths::default());
    let troubles = Troubles { send_buffer_at_maximum: 60, ..Troubles::default() };
    bench.see(0, pass(Pass { troubles, ..Pass::default() }));
    let found = limited(Limit::SendBuffer, Cause::WmemMax, LONG, 1, 50, &bench.paths.clone());
    bench.see(1, followed(found));
    // 512 MiB / 60 = 8947848, down to 8388608.
    assert_eq!(max(&bench, WMEM), Some((8_388_608, Basis::Memory)));
}

#[test]
fn buffers_of_which_few_take_everything_are_dangerous() {
    let found = |running| max(&bench(WMEM, running, Paths::default()), WMEM);
    // TCP may have 393216 pages, 1.5 GiB: an eighth of that is 201326592. 6.1 has 4 MiB.
    assert_eq!(found(201_326_592), None);
    assert_eq!(found(201_326_593), Some((4_194_304, Basis::Dangerous)));
    // Where tcp_mem was lowered the kernel's own counts, 196608 pages: 100663296 bytes.
    let lowered = ("net.ipv4.tcp_mem", &[100, 200, 300][..]);
    let mut bench = Bench::new(&[(WMEM, &[4096, 16384, 100_663_296]), lowered]);
    assert_eq!(max(&bench, WMEM), None);
    bench.set(WMEM, Value::Numbers(vec![4096, 16384, 100_663_297]));
    assert_eq!(max(&bench, WMEM), Some((4_194_304, Basis::Dangerous)));
}

#[test]
fn what_programs_may_ask_for_is_half_of_that() {
    let limit = "net.core.wmem_max";
    let after = |running: i64, path, paths: Paths| {
        let mut bench = Bench::new(&[(limit, &[running]), MEM]);
        bench.paths = paths.clone();
        bench.see(0, followed(limited(Limit::SendBuffer, Cause::SndbufClamped, path, 1, 10, &paths)));
        bench.found(limit)
    };
    // 4 * 212992 = 851968, up to 1048576; half of 2 * 6250000, up to 8388608.
    assert_eq!(after(212_992, LONG, Paths::default()), Some((vec![1_048_576], Basis::Repeat)));
    assert_eq!(after(212_992, DECLARED, declared()), Some((vec![8_388_608], Basis::Declared)));
    let limit = "net.core.rmem_max";
    let mut bench = Bench::new(&[(limit, &[212_992]), MEM]);
    bench.see(0, followed(received(ReceiveCause::RcvbufClamped, LONG, 10, &Paths::default())));
    assert_eq!(bench.found(limit), Some((vec![1_048_576], Basis::Repeat)));
}

/// UDP sockets at one port: so many of the default size, and cut ones.
fn datagrams(default: u64, rmem_max: u64, drops: u64) -> Snapshot {
    let group = udp::Group {
        address: "::".into(),
        port: "53".into(),
        sockets: 1,
        fill: 0.0,
        buffer: 212_992,
        set_by: Some(udp::Causes { default, rmem_max, application: 0 }),
        full: Duration::ZERO,
        drops: Some(drops),
    };
    Snapshot { udp_sockets: Some(Arc::new(vec![group])), ..Snapshot::default() }
}

#[test]
fn datagrams_that_are_dropped_call_for_the_buffer_that_binds() {
    let (default, limit) = ("net.core.rmem_default", "net.core.rmem_max");
    let after = |sockets: [u64; 2], drops| {
        let udp_mem = ("net.ipv4.udp_mem", &[196_608, 262_144, 393_216][..]);
        let mut bench = Bench::new(&[(default, &[212_992]), (limit, &[212_992]), MEM, udp_mem]);
        bench.see(0, datagrams(sockets[0], sockets[1], 5));
        bench.see(15, datagrams(sockets[0], sockets[1], drops));
        (bench.found(default), bench.found(limit))
    };
    let more = |basis| Some((vec![1_048_576], basis));
    assert_eq!(after([1, 0], 6), (more(Basis::Repeat), None));
    assert_eq!(after([0, 1], 6), (None, more(Basis::Repeat)));
    assert_eq!(after([1, 1], 5), (None, None));
    // Half of 1 GiB for 1000 of them: 536870, down to 524288.
    assert_eq!(after([1000, 0], 6).0, Some((vec![524_288], Basis::Memory)));
}

#[test]
fn memory_of_all_sockets_doubles_while_the_host_has_some_left() {
    let mem = "net.ipv4.tcp_mem";
    let pressures = |count| extended(&[("TCPMemoryPressures", count), ("TCPMemoryPressuresChrono", 0)]);
    let after = |available: u64, second: u64, count| {
        let mut bench = Bench::new(&[(mem, &[98_304, 131_072, 196_608])]);
        bench.facts.host.memory_available = Some(available);
        bench.see(0, pressures(1));
        bench.see(second, pressures(count));
        bench.found(mem)
    };
    // 2 * 196608 = 393216, up to 524288 pages, which are a fourth of 8 GiB; 2/3 of it is
    // 2 * 174762, half of it 262144.
    assert_eq!(after(8 << 30, 15, 2), Some((vec![262_144, 349_524, 524_288], Basis::Repeat)));
    assert_eq!(after(8 << 30, 15, 1), None);
    // Half of 3 GiB is 393216 pages, down to 262144.
    assert_eq!(after(3 << 30, 15, 2), Some((vec![131_072, 174_762, 262_144], Basis::Memory)));
    assert_eq!(after(1 << 30, 15, 2), None);
}

#[test]
fn marks_in_bytes_give_way_to_the_default() {
    let found = |name: &str, running: &[i64]| Bench::new(&[(name, running)]).found(name);
    // Half of 8 GiB is 1048576 pages.
    let default = |basis| Some((vec![196_608, 262_144, 393_216], basis));
    let (udp, bytes) = ("net.ipv4.udp_mem", [8_388_608, 12_582_912, 16_777_216]);
    assert_eq!(found(udp, &bytes), default(Basis::Dangerous));
    assert_eq!(found(udp, &[196_608, 262_144, 1_048_577]), default(Basis::Dangerous));
    assert_eq!(found(udp, &[196_608, 262_144, 1_048_576]), None);
}
