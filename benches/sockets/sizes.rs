//! What a pass over so many sockets costs, beside others that list them.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Server, scrape};
use crate::dump::Dump;
use crate::exporter::{ALWAYS, Exporter};
use crate::holder::Crowd;

/// Passes that a figure is the mean of.
const PASSES: u32 = 5;
/// Scrapes while passes go on.
const SCRAPES: usize = 400;

pub(crate) fn table(sizes: &[usize]) {
    println!(
        "| sockets | bare dump | nettune | `ss -tinH` | tcpstat | nettune / dump | nettune / ss | nettune / tcpstat | scrape, median | scrape, p99 | resident | resident, tcpstat |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut crowd = Crowd::default();
    for size in sizes {
        crowd.grow(*size, 0);
        let (dump, pass) = passes();
        let (median, p99, resident) = scrapes();
        let listed = ss();
        let (counted, theirs) = tcpstat(*size);
        let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        println!(
            "| {size} | {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {} | {} | {resident:.1} MiB | {theirs:.1} MiB |",
            milliseconds(dump),
            milliseconds(pass),
            milliseconds(listed),
            milliseconds(counted),
            pass / dump,
            pass / listed,
            pass / counted,
            milliseconds(median),
            milliseconds(p99),
        );
    }
}

/// CPU time of a bare dump and of a pass, seconds. They take turns: each dump has the
/// time between two passes to itself. What else walks sockets is off.
fn passes() -> (f64, f64) {
    let exporter = Exporter::start(&[
        "--sockets.interval=3s",
        "--sockets.cpu-budget=100%",
        "--no-collector.listener",
        "--no-collector.udp",
    ]);
    let mut dump = Dump::prepare();
    dump.run();
    // The first pass meets every connection for the first time.
    let first = exporter.page_after(2.0);
    let (rounds, before) = (first.figure("nettune_sockets_passes_total"), first.cpu());
    let mut dumps = 0.0;
    for turn in 1..=PASSES {
        dumps += dump.run();
        exporter.page_after(rounds + f64::from(turn));
    }
    let last = exporter.page();
    let turns = last.figure("nettune_sockets_passes_total") - rounds;
    (dumps / f64::from(PASSES), (last.cpu() - before) / turns)
}

/// Median and 99th percentile of the time of a scrape while passes follow each other,
/// seconds, and resident memory, MiB.
fn scrapes() -> (f64, f64, f64) {
    let mut exporter = Exporter::start(&ALWAYS);
    exporter.page_after(2.0);
    let mut times: Vec<_> = (0..SCRAPES)
        .map(|_| {
            sleep(Duration::from_millis(10));
            exporter.time()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[SCRAPES / 2], times[SCRAPES * 99 / 100], exporter.resident())
}

/// CPU time of `ss`, seconds.
fn ss() -> f64 {
    let script = format!("for i in $(seq {PASSES}); do ss -tinH >/dev/null; done; times");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    let printed = String::from_utf8(output.stdout).unwrap();
    // The second line is that of the children: user and system time.
    printed.lines().nth(1).unwrap().split_whitespace().map(seconds).sum::<f64>() / f64::from(PASSES)
}

/// CPU time of one scrape of node_exporter's count of states, seconds, and its resident
/// memory after some, MiB.
fn tcpstat(sockets: usize) -> (f64, f64) {
    let flags = ["--collector.disable-defaults", "--collector.tcpstat"].map(str::to_owned);
    let server = Server::start("prometheus-node-exporter", &flags);
    let mut connection = server.connect();
    scrape(&mut connection, "gzip");
    // CPU time of a process is told in hundredths of a second.
    let (before, deadline) = (server.cpu(), Instant::now() + Duration::from_secs(2));
    let mut count = 0;
    while count < PASSES || sockets < 100_000 && Instant::now() < deadline {
        scrape(&mut connection, "gzip");
        count += 1;
    }
    ((server.cpu() - before) / f64::from(count), server.memory().0 as f64 / 1024.0)
}
