//! What the tests share: the real program as a child, a raw HTTP client, and
//! folders of their own.

mod chain;
mod exporter;
mod http;
mod inside;
mod parsers;
mod scratch;

use std::io::Write;
use std::time::{Duration, Instant};

pub(crate) use chain::{Chain, Circumstances};
pub(crate) use exporter::{Exporter, nettune, run};
pub(crate) use http::{Address, Response};
pub(crate) use parsers::all_survive;
pub(crate) use scratch::Scratch;

/// How long anything may take before a test gives up on it. Far more than it
/// takes, so that a busy machine does not fail a test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Says, so that nobody overlooks it, that a test did not run.
pub(crate) fn skip(why: &str) {
    // Not by a macro: what those print is kept back when a test passes.
    let _ = writeln!(std::io::stderr(), "\n!!!! SKIPPED: {why}\n");
}
