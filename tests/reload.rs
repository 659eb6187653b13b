//! Declared paths that change while connections run.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::exposition::{Samples, families, samples};
use crate::namespace::Namespace;
use crate::support::{Exporter, Scratch, eventually};

const ONE: &str = "paths:\n- {name: one, bandwidth: 1Gbit/s, rtt: 1ms, peers: [127.0.0.0/8]}\n";
const TWO: &str = "paths:\n- {name: two, bandwidth: 1Gbit/s, rtt: 1ms, peers: [127.0.0.0/8, '::1/128']}\n";

/// Opens and closes connections, each of which sends something.
fn churn(listener: &TcpListener, count: usize) {
    for _ in 0..count {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 100]).unwrap();
        drop(client);
        server.read_to_end(&mut Vec::new()).unwrap();
    }
}

/// Counters, and what histograms count.
fn counters(exporter: &Exporter) -> (Samples, Samples) {
    let text = exporter.get("/metrics", &[]).text().to_owned();
    let all = samples(&text);
    let gauges: Vec<String> =
        families(&text).into_iter().filter(|(_, kind)| kind == "gauge").map(|(name, _)| name).collect();
    let name = |series: &str| series.split('{').next().unwrap_or_default().to_owned();
    let counted = all.iter().filter(|(series, _)| !gauges.contains(&name(series)));
    (counted.map(|(series, value)| (series.clone(), *value)).collect(), all)
}

/// Sums by path begin anew with other paths: all of them at once, and nothing else.
#[test]
fn sums_begin_anew_together_and_no_other_counter_falls() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let file = scratch.file("paths.yaml", ONE);
    let flag = format!("--config.file={}", file.display());
    let flags = [flag.as_str(), "--sockets.interval=1s", "--sockets.cpu-budget=100%"];
    let exporter = namespace.exporter(&flags);
    let listener = namespace.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());

    let sent = |path: &str, found: &Samples| -> f64 {
        let prefix = format!("nettune_tcp_bytes_sent_total{{path=\"{path}\"");
        found.iter().filter(|(series, _)| series.starts_with(&prefix)).map(|(_, value)| value).sum()
    };
    for (before, path, after) in [("one", "two", TWO), ("two", "one", ONE), ("one", "two", TWO)] {
        // Hearing of so many takes more CPU time than the next pass.
        namespace.inside(|| churn(&listener, 5000));
        let mut seen = Samples::new();
        eventually("nothing was sent", || {
            namespace.inside(|| churn(&listener, 50));
            (seen, _) = counters(&exporter);
            (sent(before, &seen) > 0.0).then_some(())
        });
        scratch.file("paths.yaml", after);
        exporter.signal("HUP");
        let anew = eventually("the paths are as before", || {
            let (found, all) = counters(&exporter);
            // Until then nothing falls, and then nothing but what begins anew.
            let info = format!("nettune_path_info{{path=\"{path}\"");
            let is_new = all.keys().any(|series| series.starts_with(&info));
            for (series, value) in &found {
                let sums =
                    series.starts_with("nettune_tcp_") || series.starts_with("nettune_sockets_not_followed");
                // What the sampler tells of itself is read apart from them: a scrape
                // may fall between the two.
                let of_itself = series.starts_with("nettune_sockets_passes")
                    || series.starts_with("nettune_netlink_lost");
                let begins = of_itself || is_new && sums;
                let earlier = seen.get(series).copied().filter(|_| !begins);
                assert!(earlier.is_none_or(|earlier| *value >= earlier), "{series} {value} {earlier:?}");
            }
            seen = found.clone();
            is_new.then_some(all)
        });
        assert!(!anew.keys().any(|series| series.contains(&format!("path=\"{before}\""))));
        assert!(anew["nettune_sockets_passes_total"] <= 2.0, "{}", anew["nettune_sockets_passes_total"]);
    }
    let log = exporter.log();
    assert!(!log.contains("panicked") && !log.contains("bug"), "{log}");
}

/// A namespace lives as long as a process is in it, whatever becomes of its name.
#[test]
fn a_namespace_that_loses_its_name_is_read_on() {
    let Some(namespace) = Namespace::new() else { return };
    let exporter = namespace.exporter(&["--sockets.interval=1s", "--sockets.cpu-budget=100%"]);
    let _listener = namespace.inside(|| TcpListener::bind("127.0.0.1:7").unwrap());
    drop(namespace);
    eventually("its listener is not seen", || {
        let (_, all) = counters(&exporter);
        all.contains_key("nettune_listener_sockets{address=\"127.0.0.1\",port=\"7\"}").then_some(())
    });
    let passes = || counters(&exporter).1.get("nettune_sockets_passes_total").copied().unwrap_or(0.0);
    let before = passes();
    eventually("no further pass is made", || (passes() > before).then_some(()));
    let failed: Vec<_> = counters(&exporter)
        .1
        .into_iter()
        .filter(|(series, value)| series.starts_with("nettune_collector_success") && *value == 0.0)
        .collect();
    assert_eq!(failed, []);
}
