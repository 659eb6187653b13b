//! Whether memory stays flat while connections come and go.

use crate::exporter::{ALWAYS, Exporter};
use crate::holder::Holder;

const ROUNDS: usize = 50;
/// Connections of a round, in two holders.
const CONNECTIONS: usize = 10_000;
/// Rounds after which memory is shown.
const SHOWN: [usize; 3] = [5, 25, 50];

pub(crate) fn table() {
    println!("| rounds of {CONNECTIONS} connections | resident |");
    println!("|---|---|");
    let exporter = Exporter::start(&ALWAYS);
    for round in 1..=ROUNDS {
        let holders = [0, 1].map(|half| Holder::start(2 * round + half, CONNECTIONS / 2, 0));
        // The pass that goes on may have missed them, the one after has not.
        let passed = exporter.page().figure("nettune_sockets_passes_total");
        let followed = exporter.page_after(passed + 2.0).figure("nettune_sockets_followed");
        assert!(followed >= 2.0 * CONNECTIONS as f64, "{followed} are followed");
        drop(holders);
        if SHOWN.contains(&round) {
            println!("| {round} | {:.2} MiB |", exporter.resident());
        }
    }
}
