//! What other network namespaces cost: CPU under the default budget, how old their
//! figures are, memory, threads and descriptors.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::exporter::Exporter;
use crate::holder::Holder;

/// What the table of connections takes of each, kB.
const TABLED: f64 = 0.064;
/// Namespaces that come and go at the end, so many at a time.
const CHURN: usize = 100;
const AT_ONCE: usize = 10;
/// A namespace is read from the second scan on, and let go by the next.
const NOTICED: Duration = Duration::from_secs(6);

pub(crate) fn table(minutes: u64, namespaces: usize, sockets: usize) {
    let alone = {
        let exporter = Exporter::start(&[]);
        exporter.page_after(2.0);
        exporter.anonymous()
    };
    println!(
        "| namespaces | sockets | minutes | CPU of sampling | of it other namespaces | in the last minute | read | with all sockets | age, median | age, most | of connections, median | of connections, most | memory of a namespace |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for sockets in [0, sockets] {
        let connections = sockets / namespaces / 2;
        let _held: Vec<_> = (0..namespaces).map(|number| Holder::start_apart(number, connections)).collect();
        let exporter = Exporter::start(&["--netns=all"]);
        let (started, mut last) = (Instant::now(), (0.0, 0.0));
        for minute in 1..=minutes {
            sleep((started + Duration::from_secs(60 * minute)).saturating_duration_since(Instant::now()));
            let (page, at) = (exporter.page(), started.elapsed().as_secs_f64());
            let elsewhere = page.figure("nettune_netns_cpu_seconds_total");
            let cpu = page.cpu() + elsewhere;
            let percent = |cpu: f64, seconds: f64| format!("{:.2} %", cpu / seconds * 100.0);
            let [ages, of_connections] =
                ["", "connections_"].map(|of| sorted(page.values(&format!("nettune_netns_{of}age_seconds"))));
            let seen = page.values("nettune_tcp_connections");
            let seen = sorted(seen.filter(|(labels, _)| {
                ["netns=", "established", "client"].iter().all(|word| labels.contains(word))
            }));
            // Half of the sockets are those of clients.
            let tables = 2.0 * seen.iter().sum::<f64>() * TABLED;
            let of_a_namespace = (exporter.anonymous() - alone - tables) / namespaces as f64;
            println!(
                "| {namespaces} | {} | {minute} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {of_a_namespace:.0} kB |",
                2 * connections * namespaces,
                percent(cpu, at),
                percent(elsewhere, at),
                percent(cpu - last.0, at - last.1),
                ages.len(),
                seen.iter().filter(|count| **count >= connections.max(1) as f64).count(),
                middle(&ages),
                most(&ages),
                middle(&of_connections),
                most(&of_connections),
            );
            last = (cpu, at);
        }
    }
    churn();
}

fn sorted<'v>(values: impl Iterator<Item = (&'v str, f64)>) -> Vec<f64> {
    let mut values: Vec<_> = values.map(|(_, value)| value).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(ages: &[f64]) -> String {
    age(ages.get(ages.len() / 2))
}

fn most(ages: &[f64]) -> String {
    age(ages.last())
}

fn age(seconds: Option<&f64>) -> String {
    seconds.map_or("".to_owned(), |seconds| format!("{seconds:.0} s"))
}

/// Threads, and descriptors, before, while and after namespaces come and go.
fn churn() {
    println!("| | threads | descriptors |");
    println!("|---|---|---|");
    let exporter = Exporter::start(&["--netns=all"]);
    let show = |when: &str| {
        sleep(NOTICED);
        let page = exporter.page();
        println!("| {when} | {} | {} |", page.figure("process_threads"), page.figure("process_open_fds"));
    };
    show("before");
    for round in 1..=CHURN / AT_ONCE {
        let held: Vec<_> = (0..AT_ONCE).map(|number| Holder::start_apart(number, 10)).collect();
        if round == CHURN / AT_ONCE {
            show("with the last of them");
        } else {
            sleep(NOTICED / 2);
        }
        drop(held);
    }
    show("after");
}
