//! Two network namespaces with a path of a given rate, delay and queue between
//! them, until Ctrl-C or the end of standard input:
//!
//! `cargo run --example lab -- --rate 500mbit --delay 50ms --queue 8M`,
//! as root. `--help` lists what else a path may do to packets.

#[path = "../tests/lab/link.rs"]
mod link;
#[path = "../tests/namespace.rs"]
mod namespace;
#[path = "../tests/lab/relay.rs"]
mod relay;

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use link::Direction;
use namespace::Namespace;
use relay::{FAR, NEAR, Relay};

/// What a path may do, in which form it is told, and what it does untold.
const FLAGS: [(&str, &str, &str, &str); 6] = [
    ("rate", "RATE", "500mbit", "bits a second: kbit, mbit or gbit"),
    ("delay", "TIME", "50ms", "one way: us, ms or s"),
    ("queue", "BYTES", "8M", "most that waits, more is dropped: bytes, k or M of 1024"),
    ("loss", "SHARE", "0%", "packets that do not arrive"),
    ("reorder", "SHARE,TIME", "0%,0ms", "packets that are held back, and for how long"),
    ("size-limit", "BYTES", "65535", "larger packets vanish without a word"),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let matches = command().get_matches();
    let (forth, back) = (direction(&matches, "")?, direction(&matches, "back-")?);
    let (near, far) = (Namespace::create("lab-near".into())?, Namespace::create("lab-far".into())?);
    let _relay = Relay::new(&near, &far, forth, back);
    for (namespace, address) in [(&near, NEAR), (&far, FAR)] {
        println!("{address}: ip netns exec {} bash", namespace.name());
    }
    println!("Ctrl-C, or the end of input, takes it down.");
    Ok(wait()?)
}

fn command() -> clap::Command {
    let forth = FLAGS.map(|(name, value, default, help)| {
        Arg::new(name).long(name).value_name(value).default_value(default).help(help)
    });
    let back = FLAGS.map(|(name, value, ..)| {
        let name = format!("back-{name}");
        Arg::new(name.clone()).long(name).value_name(value).help("the same from far to near")
    });
    clap::Command::new("lab")
        .about("A path between two network namespaces, from near to far and back")
        .after_help("The way back is the same unless a flag says otherwise.")
        .args(forth)
        .args(back)
}

fn direction(matches: &ArgMatches, prefix: &str) -> Result<Direction, String> {
    let text = |name: &str| {
        let own = matches.get_one::<String>(&format!("{prefix}{name}"));
        own.or_else(|| matches.get_one(name)).expect("the way forth has defaults").as_str()
    };
    let (share, held) = text("reorder").split_once(',').ok_or("--reorder: a share, a comma and a time")?;
    let rate = quantity(text("rate"), &[("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)])? / 8.0;
    Ok(Direction {
        loss: quantity(text("loss"), &[("%", 0.01)])?,
        reorder: quantity(share, &[("%", 0.01)])?,
        held: time(held)?,
        size_limit: bytes(text("size-limit"))?,
        ..Direction::new(rate, time(text("delay"))?, bytes(text("queue"))?)
    })
}

fn time(text: &str) -> Result<Duration, String> {
    quantity(text, &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)]).map(Duration::from_secs_f64)
}

fn bytes(text: &str) -> Result<usize, String> {
    quantity(text, &[("", 1.0), ("k", 1024.0), ("M", 1_048_576.0)]).map(|bytes| bytes as usize)
}

/// A number with one of these units, times what the unit stands for.
fn quantity(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let digits = |character: char| character.is_ascii_digit() || character == '.';
    let (number, unit) = text.split_at(text.find(|character| !digits(character)).unwrap_or(text.len()));
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
    number.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor).ok_or_else(|| {
        let units: Vec<_> = units.iter().map(|(name, _)| format!("`{name}`")).collect();
        format!("{text}: not a number with the unit {}", units.join(" or "))
    })
}

/// Returns at the end of standard input, or when asked to end.
fn wait() -> io::Result<()> {
    let (closed, end) = oneshot::channel();
    // Not joined: a read of a terminal cannot be called off.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = closed.send(());
    });
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = end => {}
        }
        Ok(())
    })
}
