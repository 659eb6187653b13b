//! Whether the default budget holds, and what is counted meanwhile, beside an exporter
//! that passes over everything every time.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::exporter::{Exporter, Page};
use crate::holder::Crowd;

/// Connections of each holder that send, so that every slice has some.
const BUSY: usize = 50;

pub(crate) fn table(minutes: u64, sizes: &[usize]) {
    println!(
        "| sockets | CPU of sampling | interval | sampled ratio | bytes counted | with full passes | ratio | resident |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut crowd = Crowd::default();
    for size in sizes {
        crowd.grow(*size, BUSY);
        let thrifty = Exporter::start(&[]);
        let lavish = Exporter::start(&["--sockets.cpu-budget=100%"]);
        // The first pass is over everything; a round in slices follows.
        lavish.page_after(1.0);
        let (before, all_before) = (thrifty.page_after(2.0), lavish.page());
        let started = Instant::now();
        sleep(Duration::from_secs(60 * minutes));
        let (after, all_after) = (thrifty.page(), lavish.page());
        let share = (after.cpu() - before.cpu()) / started.elapsed().as_secs_f64();
        let sent = |page: &Page| page.figure("nettune_tcp_bytes_sent_total");
        let (counted, all) = (sent(&after) - sent(&before), sent(&all_after) - sent(&all_before));
        println!(
            "| {size} | {:.2} % | {:.1} s | {:.3} | {:.1} MB | {:.1} MB | {:.3} | {:.1} MiB |",
            share * 100.0,
            after.figure("nettune_sockets_pass_interval_seconds"),
            after.figure("nettune_sockets_sampled_ratio"),
            counted / 1e6,
            all / 1e6,
            counted / all,
            thrifty.resident(),
        );
    }
}
