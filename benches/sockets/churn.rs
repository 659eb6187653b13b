//! What it costs to be told of connections that close, on both sides of the system
//! call.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use rustix::time::{ClockId, clock_gettime};

use crate::exporter::Exporter;

/// Sockets closed a second, two a connection.
const RATE: u32 = 10_000;
const SECONDS: u32 = 30;

pub(crate) fn table() {
    println!(
        "| notifications | budget | closes a second | closing program | kernel workers | exporter | of it sampling | member of the groups | lost |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (heard, budget) in [(false, "1%"), (true, "1%"), (false, "100%"), (true, "100%")] {
        let budget_flag = format!("--sockets.cpu-budget={budget}");
        let switch = if heard { "--sockets.close-notifications" } else { "--no-sockets.close-notifications" };
        let row = run(&[&budget_flag, switch]);
        println!("| {} | {budget} | {row} |", if heard { "on" } else { "off" });
    }
}

fn run(flags: &[&str]) -> String {
    let exporter = Exporter::start(flags);
    let before = exporter.page_after(1.0);
    let (kernel, ours, started) = (workers(), exporter.server.cpu(), Instant::now());
    let closer =
        Command::new(std::env::current_exe().unwrap()).arg("close").stdout(Stdio::piped()).spawn().unwrap();
    let (mut told, mut looks) = (0.0, 0u32);
    while started.elapsed() < Duration::from_secs(SECONDS.into()) {
        sleep(Duration::from_millis(200));
        told += exporter.page().figure("nettune_sockets_close_notifications");
        looks += 1;
    }
    let printed = String::from_utf8(closer.wait_with_output().unwrap().stdout).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let (kernel, ours) = (worked_since(&kernel), exporter.server.cpu() - ours);
    let after = exporter.page();
    let lost = "nettune_netlink_lost_events_total";
    let figures: Vec<f64> = printed.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [closed, cpu] = figures[..] else { panic!("{printed}") };
    let percent = |cpu: f64| format!("{:.2} %", cpu / seconds * 100.0);
    format!(
        "{:.0} | {} | {} | {} | {} | {:.0} % of the time | {:.0}",
        closed / seconds,
        percent(cpu),
        percent(kernel),
        percent(ours),
        percent(after.cpu() - before.cpu()),
        told / f64::from(looks) * 100.0,
        after.figure(lost) - before.figure(lost),
    )
}

/// CPU time of each worker of the kernel, seconds, by its number.
fn workers() -> BTreeMap<u32, f64> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let times = processes.filter_map(|process| {
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let fields: Vec<_> = rest.split_whitespace().collect();
        let ticks = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
        let number = name.split(' ').next()?.parse().ok()?;
        name.contains("(kworker/").then_some((number, ticks / 100.0))
    });
    times.collect()
}

/// What those that are there now have taken since; what ended takes its time with it.
fn worked_since(before: &BTreeMap<u32, f64>) -> f64 {
    let now = workers().into_iter();
    now.map(|(number, time)| time - before.get(&number).copied().unwrap_or(0.0)).sum()
}

/// The work of the closing program: says how many it closed, and the CPU time it took.
pub(crate) fn close() {
    const BATCH: u32 = 50;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let started = Instant::now();
    let mut closed = 0;
    while started.elapsed() < Duration::from_secs(SECONDS.into()) {
        (0..BATCH).for_each(|_| come_and_go(&listener));
        closed += 2 * BATCH;
        let due = Duration::from_secs_f64(f64::from(closed) / f64::from(RATE));
        sleep(due.saturating_sub(started.elapsed()));
    }
    let time = clock_gettime(ClockId::ProcessCPUTime);
    println!("{closed} {}", time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
}

/// One end closes, then the other resets, so that nothing stays in TIME_WAIT and ports
/// do not run out.
fn come_and_go(listener: &TcpListener) {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
    drop(client);
}
