//! What following TCP connections costs: prints tables of docs/performance.md.
//!
//! `cargo bench --bench sockets -- …`
//! - `sizes 1000 500000`: a pass over so many sockets, beside others that list them;
//!   without words, of the three smaller sizes
//! - `budget 10 50000 500000`: ten minutes at each size under the default budget
//! - `churn`: 10,000 closes a second, told of and not
//! - `memory`: 50 rounds of connections that come and go
//! - `namespaces 10 50 200000`: ten minutes beside 50 other network namespaces, without
//!   sockets and with so many among them; as root

mod budget;
mod churn;
#[path = "../common/mod.rs"]
mod common;
mod dump;
mod exporter;
mod holder;
mod memory;
mod namespaces;
mod sizes;

const DEFAULT_SIZES: [usize; 3] = [1_000, 10_000, 100_000];

fn main() {
    // Cargo adds a flag of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    match (words.first().map(String::as_str), &numbers[..]) {
        (None, _) => sizes::table(&DEFAULT_SIZES),
        (Some("sizes"), sizes) => sizes::table(sizes),
        (Some("budget"), [minutes, sizes @ ..]) => budget::table(*minutes as u64, sizes),
        (Some("churn"), _) => churn::table(),
        (Some("memory"), _) => memory::table(),
        (Some("namespaces"), [minutes, count, sockets]) => {
            namespaces::table(*minutes as u64, *count, *sockets);
        }
        // What the bench starts itself.
        (Some("hold"), [number, connections, busy]) => holder::hold(*number, *connections, *busy),
        (Some("close"), _) => churn::close(),
        _ => panic!(
            "sizes NUMBER…, budget MINUTES NUMBER…, churn, memory or namespaces MINUTES NUMBER SOCKETS"
        ),
    }
}
