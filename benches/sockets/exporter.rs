//! The exporter under measurement, and what its page says of itself.

use std::io::BufReader;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Server, scrape};

/// Passes over everything that follow each other as soon as a second is over.
pub(crate) const ALWAYS: [&str; 2] = ["--sockets.interval=1s", "--sockets.cpu-budget=100%"];

pub(crate) struct Exporter {
    pub(crate) server: Server,
    connection: BufReader<TcpStream>,
}

impl Exporter {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let server = Server::start(env!("CARGO_BIN_EXE_nettune"), &flags);
        let connection = server.connect();
        Self { server, connection }
    }

    /// Over a connection of its own: the kept one may have been idle for too long.
    pub(crate) fn page(&self) -> Page {
        Page(String::from_utf8(scrape(&mut self.server.connect(), "identity")).unwrap())
    }

    /// The page once so many rounds over all sockets are done.
    pub(crate) fn page_after(&self, rounds: f64) -> Page {
        let deadline = Instant::now() + Duration::from_secs(900);
        loop {
            let page = self.page();
            if page.figure("nettune_sockets_passes_total") >= rounds {
                return page;
            }
            assert!(Instant::now() < deadline, "no {rounds} rounds in fifteen minutes");
            sleep(Duration::from_millis(50));
        }
    }

    /// How long a scrape as Prometheus makes it takes, seconds.
    pub(crate) fn time(&mut self) -> f64 {
        let started = Instant::now();
        scrape(&mut self.connection, "gzip");
        started.elapsed().as_secs_f64()
    }

    /// Resident memory, MiB.
    pub(crate) fn resident(&self) -> f64 {
        self.server.memory().0 as f64 / 1024.0
    }

    /// Resident memory of its own, without code and files, kB.
    pub(crate) fn anonymous(&self) -> f64 {
        self.server.status("RssAnon:") as f64
    }
}

pub(crate) struct Page(String);

impl Page {
    /// Sum over all series of a name.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        self.values(name).map(|(_, value)| value).sum()
    }

    /// Series of a name, by what stands between it and the value.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
            let (labels, value) = rest.rsplit_once(' ')?;
            Some((labels, value.parse().ok()?))
        })
    }

    /// CPU time of everything that samples sockets, seconds.
    pub(crate) fn cpu(&self) -> f64 {
        self.figure("nettune_sockets_sample_cpu_seconds_total")
    }
}
