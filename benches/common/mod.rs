//! Servers under measurement, and scrapes of them as Prometheus makes them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What Prometheus 2.42 sends.
const ACCEPT: &str = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// A server under measurement, killed at the end.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start(program: &str, flags: &[String]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; `make tools` installs it"));
        let server = Self { child, port };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    pub(crate) fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(("127.0.0.1", self.port)).unwrap())
    }

    /// User and system time so far, seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }

    /// Resident memory, kB: now, and at its peak.
    pub(crate) fn memory(&self) -> (u64, u64) {
        (self.status("VmRSS:"), self.status("VmHWM:"))
    }

    /// A figure of `/proc/PID/status`.
    pub(crate) fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One scrape; its body.
pub(crate) fn scrape(connection: &mut BufReader<TcpStream>, encoding: &str) -> Vec<u8> {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: bench\r\nAccept: {ACCEPT}\r\nAccept-Encoding: {encoding}\r\n\r\n"
    );
    connection.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut length, mut chunked, mut line) = (0, false, String::new());
    loop {
        line.clear();
        connection.read_line(&mut line).unwrap();
        let header = line.trim_end().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        chunked |= header == "transfer-encoding: chunked";
        if header.is_empty() {
            break;
        }
    }
    let mut body = Vec::new();
    while chunked {
        line.clear();
        connection.read_line(&mut line).unwrap();
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let start = body.len();
        body.resize(start + size, 0);
        connection.read_exact(&mut body[start..]).unwrap();
        connection.read_line(&mut line).unwrap();
        chunked = size > 0;
    }
    if body.is_empty() {
        body.resize(length, 0);
        connection.read_exact(&mut body).unwrap();
    }
    body
}
