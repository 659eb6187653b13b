//! What the server answers, byte by byte.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;

use crate::exposition::{protobuf, protobuf_samples};
use crate::support::{Address, Exporter, Scratch, nettune};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0,\
    application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// Names and labels, without values, which differ from scrape to scrape.
fn series(exposition: &str) -> Vec<&str> {
    let lines = exposition.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').expect("a sample has a value").0).collect()
}

#[test]
fn pages_answer() {
    let exporter = Exporter::start(&[]);
    for (path, content_type, beginning) in [
        ("/", "text/html; charset=utf-8", "<!DOCTYPE html>"),
        ("/metrics", TEXT, "# HELP "),
        ("/changes", "text/plain; charset=utf-8", "no changes\n"),
        ("/changes?format=text", "text/plain; charset=utf-8", "no changes\n"),
        ("/changes?format=json", "application/json", "{\"version\":1,\"changes\":[]}\n"),
        ("/-/healthy", "text/plain; charset=utf-8", "healthy\n"),
        ("/-/ready", "text/plain; charset=utf-8", "ready\n"),
        ("/-/ready?x=1", "text/plain; charset=utf-8", "ready\n"),
    ] {
        let response = exporter.get(path, &[]);
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("content-type"), Some(content_type), "{path}");
        assert!(response.text().starts_with(beginning), "{path}: {}", response.text());
    }
}

#[test]
fn the_page_shows_every_source() {
    let exporter = Exporter::start(&[]);
    let page = exporter.get("/", &[]);
    for source in nettune::collect::SOURCES {
        assert!(page.text().contains(&format!("<code>{}</code>", source.name)), "{}", source.name);
    }
    assert!(page.text().contains(env!("CARGO_PKG_VERSION")));
    assert!(page.text().contains("href=\"/metrics\""));
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let exporter = Exporter::start(&[]);
    for path in ["/", "/metrics", "/-/healthy", "/-/ready", "/nosuch"] {
        let (get, head) = (exporter.get(path, &[]), exporter.address().request("HEAD", path, &[]));
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert!(head.header("content-length").is_some(), "{path}");
    }
    let mut connection = exporter.address().connect().unwrap();
    connection.send("HEAD", "/-/healthy", &[("Connection", "close")]).unwrap();
    let bytes = connection.rest().unwrap();
    assert!(bytes.ends_with(b"\r\n\r\n"), "{}", String::from_utf8_lossy(&bytes));
}

#[test]
fn other_methods_are_refused_and_bodies_not_read() {
    let exporter = Exporter::start(&[]);
    for path in ["/", "/metrics", "/changes", "/-/healthy", "/-/ready"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"] {
            let response = exporter.address().request(method, path, &[("Content-Length", "1000000000")]);
            assert_eq!(response.status, 405, "{method} {path}");
            assert_eq!(response.header("allow"), Some("GET, HEAD"), "{method} {path}");
        }
    }
}

#[test]
fn unknown_paths_are_not_found() {
    let exporter = Exporter::start(&["--web.telemetry-path=/scrape"]);
    for path in ["/nosuch", "/metrics", "/-/", "/scrape/", "//", "/-/ready/x", "/Scrape", "*"] {
        let response = exporter.get(path, &[]);
        assert_eq!(response.status, 404, "{path}");
        assert!(response.text().len() < 100);
    }
    assert_eq!(exporter.address().request("POST", "/nosuch", &[]).status, 404);
    assert_eq!(exporter.get("/scrape", &[]).status, 200);
    assert!(exporter.get("/", &[]).text().contains("href=\"/scrape\""));
}

#[test]
fn the_format_is_the_one_the_client_prefers() {
    let exporter = Exporter::start(&[]);
    for (accept, expected) in [
        (None, TEXT),
        (Some(PROMETHEUS), OPEN_METRICS),
        (Some("*/*"), TEXT),
        (Some("application/openmetrics-text"), OPEN_METRICS),
        (Some("application/openmetrics-text;version=0.0.1"), TEXT),
        (Some("application/openmetrics-text;q=0.3,text/plain;q=0.7"), TEXT),
        (Some("application/openmetrics-text;q=0.7,text/plain;q=0.3"), OPEN_METRICS),
        (Some("application/openmetrics-text;q=0"), TEXT),
        (Some(PROTOBUF), PROTOBUF),
        (Some(&format!("{PROTOBUF},{PROMETHEUS}")), OPEN_METRICS),
        (Some(&format!("{PROTOBUF},application/openmetrics-text;q=0.9,*/*;q=0.1")), PROTOBUF),
        (Some(&format!("{PROTOBUF};q=0.3,text/plain;q=0.7")), TEXT),
        (Some("text/html,application/xhtml+xml,*/*;q=0.8"), TEXT),
        (Some("nonsense"), TEXT),
    ] {
        let headers: Vec<_> = accept.iter().map(|accept| ("Accept", *accept)).collect();
        let response = exporter.get("/metrics", &headers);
        assert_eq!(response.header("content-type"), Some(expected), "{accept:?}");
        let ending = response.body.ends_with(b"# EOF\n");
        assert_eq!(ending, expected == OPEN_METRICS, "{accept:?}");
    }
}

#[test]
fn changes_are_json_for_those_who_prefer_it() {
    let exporter = Exporter::start(&[]);
    let json = exporter.get("/changes", &[("Accept", "application/json")]);
    assert_eq!(
        (json.header("content-type"), json.header("vary")),
        (Some("application/json"), Some("accept"))
    );
    let text = exporter.get("/changes?format=text", &[("Accept", "application/json")]);
    assert_eq!(text.text(), "no changes\n");
    let unknown = exporter.get("/changes?format=x%0Aml", &[]);
    assert_eq!((unknown.status, unknown.text()), (400, "unknown format \"x\\nml\", expected text or json\n"));
    assert!(exporter.get("/", &[]).text().contains("None was seen. They are kept in memory only."));
}

#[test]
fn a_compressed_answer_says_the_same() {
    let exporter = Exporter::start(&[]);
    for accept in [None, Some(PROMETHEUS)] {
        let mut headers: Vec<_> = accept.iter().map(|accept| ("Accept", *accept)).collect();
        let plain = exporter.get("/metrics", &headers);
        headers.push(("Accept-Encoding", "gzip"));
        let compressed = exporter.get("/metrics", &headers);
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(compressed.header("content-encoding"), Some("gzip"));
        assert_eq!(compressed.header("content-type"), plain.header("content-type"));
        assert_eq!(compressed.header("vary"), Some("accept, accept-encoding"));
        let mut decoded = String::new();
        GzDecoder::new(&compressed.body[..]).read_to_string(&mut decoded).unwrap();
        assert_eq!(series(&decoded), series(plain.text()));
        assert!(compressed.body.len() < plain.body.len());
    }
    let accept = [("Accept", PROTOBUF), ("Accept-Encoding", "gzip")];
    let compressed = exporter.get("/metrics", &accept);
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    assert_eq!(compressed.header("content-type"), Some(PROTOBUF));
    let mut decoded = Vec::new();
    GzDecoder::new(&compressed.body[..]).read_to_end(&mut decoded).unwrap();
    let plain = exporter.get("/metrics", &accept[..1]).body;
    let series = |bytes: &[u8]| protobuf_samples(&protobuf(bytes)).into_keys().collect::<Vec<_>>();
    assert_eq!(series(&decoded), series(&plain));
    assert!(compressed.body.len() < plain.len());
    for refused in ["gzip;q=0", "identity", "br", "*;q=0"] {
        let response = exporter.get("/metrics", &[("Accept-Encoding", refused)]);
        assert_eq!(response.header("content-encoding"), None, "{refused}");
    }
}

#[test]
fn a_scrape_can_ask_for_some_sources() {
    let exporter = Exporter::start(&[]);
    for (query, expected) in [
        ("collect[]=softnet", &["softnet"][..]),
        ("collect%5B%5D=softnet&collect%5B%5D=netstat", &["netstat", "softnet"]),
        ("collect[]=softnet&collect[]=softnet", &["softnet"]),
    ] {
        let response = exporter.get(&format!("/metrics?{query}"), &[]);
        assert_eq!(response.status, 200, "{query}");
        let success =
            series(response.text()).into_iter().filter(|series| series.contains("_collector_success"));
        let expected: Vec<_> = expected
            .iter()
            .map(|name| format!("nettune_collector_success{{collector=\"{name}\"}}"))
            .collect();
        assert_eq!(success.collect::<Vec<_>>(), expected, "{query}");
    }
    for query in ["collect[]=nosuch", "collect[]=softnet&collect[]=nosuch", "collect%5B%5D=nosuch"] {
        let response = exporter.get(&format!("/metrics?{query}"), &[]);
        assert_eq!(response.status, 400, "{query}");
        let text = response.text();
        assert!(text.starts_with("unknown collector \"nosuch\", expected one of "), "{text}");
        assert!(text.contains("softnet") && text.ends_with('\n'), "{text}");
    }
}

#[test]
fn many_scrapes_at_once_are_all_answered() {
    let exporter = Exporter::start(&[]);
    let address = exporter.address();
    let expected = series(address.get("/metrics", &[]).text()).len();
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let response = address.get("/metrics", &[]);
                    assert_eq!(response.status, 200);
                    // A device may come or go meanwhile; half an answer is another matter.
                    assert!(series(response.text()).len() * 10 > expected * 9);
                }
            });
        }
    });
}

#[test]
fn one_connection_serves_many_requests_also_when_they_come_at_once() {
    let exporter = Exporter::start(&[]);
    let mut connection = exporter.address().connect().unwrap();
    for _ in 0..3 {
        connection.send("GET", "/metrics", &[]).unwrap();
        assert_eq!(connection.receive("GET").unwrap().status, 200);
    }
    let request = "GET /-/healthy HTTP/1.1\r\nHost: test\r\n\r\n".repeat(20);
    connection.write(request.as_bytes()).unwrap();
    for _ in 0..20 {
        assert_eq!(connection.receive("GET").unwrap().text(), "healthy\n");
    }
}

#[test]
fn bytes_that_are_no_request_do_no_harm() {
    let exporter = Exporter::start(&[]);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let wide = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(5_000));
    for (bytes, expected) in [
        (&b"nonsense\r\n\r\n"[..], "HTTP/1.1 400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello", "HTTP/1.1 400 "),
        (b"GET / HTTP/9.9\r\n\r\n", "HTTP/1.1 "),
        (b"GET / HTTP/1.1\r\nX y\r\n\r\n", "HTTP/1.1 400 "),
        (long.as_bytes(), "HTTP/1.1 4"),
        (wide.as_bytes(), "HTTP/1.1 431 "),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 "),
    ] {
        let mut connection = exporter.address().connect().unwrap();
        // The exporter may close before it has read everything.
        let _ = connection.write(bytes);
        let answer = connection.rest().unwrap_or_default();
        let (sent, answer) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&answer));
        // Bytes left unread make the kernel drop the answer, now and then.
        assert!(answer.is_empty() || answer.starts_with(expected), "{sent:.60}: {answer}");
    }
    let mut connection = exporter.address().connect().unwrap();
    connection.write(b"GET /-/healthy HTTP/1.0\r\n\r\n").unwrap();
    let answer = connection.rest().unwrap();
    assert!(answer.starts_with(b"HTTP/1.0 200 ") && answer.ends_with(b"\r\n\r\nhealthy\n"));
    assert_eq!(exporter.get("/metrics", &[]).status, 200);
}

#[test]
fn it_is_ready_after_the_first_collection_and_names_what_a_scrape_waits_for() {
    let scratch = Scratch::new();
    let (procfs, gate) = scratch.gated_procfs();
    let procfs = format!("--path.procfs={}", procfs.display());
    let exporter = Exporter::launch(nettune(&["--web.listen-address=127.0.0.1:0", &procfs]));

    assert_eq!(exporter.get("/-/healthy", &[]).status, 200);
    assert_eq!(exporter.get("/-/ready", &[]).status, 503);

    let started = Instant::now();
    let late = exporter.get("/metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "1")]);
    let took = started.elapsed();
    assert_eq!(late.status, 503);
    assert_eq!(late.text(), "gave up after 0.8 s while reading softnet\n");
    assert!(took >= Duration::from_millis(800), "{took:?}");

    let _open = gate.open();
    exporter.wait_until_ready();
    for garbage in ["", "0", "-1", "NaN", "inf", "soon", "1e99"] {
        let headers = [("X-Prometheus-Scrape-Timeout-Seconds", garbage)];
        assert_eq!(exporter.get("/metrics", &headers).status, 200, "{garbage:?}");
    }
}

/// The clock behind ratios reads a source too, before any scrape.
#[test]
fn what_the_ticker_waits_for_is_named_as_well() {
    let scratch = Scratch::new();
    let (procfs, gate) = scratch.gated_procfs_at("net/snmp");
    let procfs = format!("--path.procfs={}", procfs.display());
    let exporter = Exporter::launch(nettune(&["--web.listen-address=127.0.0.1:0", &procfs]));
    let late = exporter.get("/metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "1")]);
    assert_eq!((late.status, late.text()), (503, "gave up after 0.8 s while reading snmp\n"));
    let _open = gate.open();
    exporter.wait_until_ready();
}

/// As `nc -N` does: no more requests, but an answer is waited for.
#[test]
fn a_client_that_will_ask_no_more_is_answered() {
    let exporter = Exporter::start(&[]);
    let Address::Tcp(address) = exporter.address() else { panic!("it listens on TCP") };
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("nettune_collector_success{"),
        "{answer:.200}"
    );
}
