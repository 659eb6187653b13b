//! What a pass over all TCP connections costs, beside a bare dump of the same
//! attributes that nobody reads and beside `ss -tinH`: prints the table of
//! docs/performance.md. `cargo bench --bench sockets -- 1000 500000` measures
//! these numbers of sockets, each pair of them a connection over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use netlink_packet_core::Emitable;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP, SOCK_DIAG_BY_FAMILY};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use rustix::time::{ClockId, clock_gettime};

const DEFAULT_SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// Passes that a figure is the mean of.
const PASSES: u32 = 5;
/// Connections of one holder: twice as many descriptors, below the usual limit.
const HELD: usize = 9_000;

/// A process that holds connections until its standard input ends.
struct Holder {
    child: Child,
    /// Its end ends the child too, should this process be killed.
    _input: ChildStdin,
}

impl Holder {
    fn start(number: usize, connections: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["hold", &number.to_string(), &connections.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n", "a holder of {connections} connections could not open them");
        Self { child, _input: input }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hold(number: usize, connections: usize) {
    // An address each: one has no more than 28,000 ports toward a listener.
    let address = Ipv4Addr::new(127, 1, (number / 250) as u8, (number % 250 + 1) as u8);
    let listener = TcpListener::bind((address, 0)).unwrap();
    let target = listener.local_addr().unwrap();
    let pairs: Vec<_> =
        (0..connections).map(|_| (TcpStream::connect(target).unwrap(), listener.accept().unwrap())).collect();
    println!("held");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(pairs);
}

/// CPU time of a dump that is received and not looked at, seconds.
fn bare_dump() -> f64 {
    const NLM_F_REQUEST_DUMP: u16 = 0x301;
    let states = StateFlags::all() - StateFlags::LISTEN - StateFlags::TIME_WAIT - StateFlags::CLOSE;
    let request = InetRequest {
        family: AF_INET,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states,
        socket_id: SocketId::new_v4(),
    };
    let mut payload = vec![0; request.buffer_len()];
    request.emit(&mut payload);
    let mut message = ((16 + payload.len()) as u32).to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(payload);
    let socket = Socket::new(NETLINK_SOCK_DIAG).unwrap();
    socket.connect(&SocketAddr::new(0, 0)).unwrap();
    let mut datagram = Vec::with_capacity(64 << 10);
    let before = clock_gettime(ClockId::ThreadCPUTime);
    for _ in 0..PASSES {
        socket.send(&message, 0).unwrap();
        loop {
            datagram.clear();
            socket.recv(&mut datagram, 0).unwrap();
            // NLMSG_DONE comes alone, or last.
            if datagram.len() < 64 && u16::from_ne_bytes([datagram[4], datagram[5]]) == 3 {
                break;
            }
        }
    }
    let after = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
    nanoseconds as f64 / 1e9 / f64::from(PASSES)
}

/// CPU time of `ss`, seconds.
fn ss() -> f64 {
    let script = format!("for i in $(seq {PASSES}); do ss -tinH >/dev/null; done; times");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    let printed = String::from_utf8(output.stdout).unwrap();
    // The second line is that of the children: user and system time.
    printed.lines().nth(1).unwrap().split_whitespace().map(seconds).sum::<f64>() / f64::from(PASSES)
}

/// What the exporter shows while it passes over the sockets all the time.
struct Sampling {
    /// CPU time of a pass, seconds.
    pass: f64,
    /// Resident memory, MiB.
    resident: f64,
    /// 99th percentile of the time of a whole scrape meanwhile, seconds.
    scrape: f64,
}

fn nettune() -> Sampling {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nettune"))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .args(["--sockets.interval=1s", "--sockets.cpu-budget=100%"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let scrape = || -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    let figure = |answer: &str, name: &str| -> f64 {
        answer.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0.0)
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut times = Vec::new();
    let mut reach = |wanted: f64| loop {
        let started = Instant::now();
        let answer = scrape().unwrap_or_default();
        times.push(started.elapsed().as_secs_f64());
        let passes = figure(&answer, "nettune_sockets_passes_total ");
        if passes >= wanted {
            return (passes, figure(&answer, "nettune_sockets_sample_cpu_seconds_total "), answer);
        }
        assert!(Instant::now() < deadline, "no {wanted} passes in two minutes");
        sleep(Duration::from_millis(10));
    };
    let (first, before, _) = reach(1.0);
    let (last, after, answer) = reach(first + f64::from(PASSES));
    child.kill().unwrap();
    child.wait().unwrap();
    times.sort_by(f64::total_cmp);
    Sampling {
        pass: (after - before) / (last - first),
        resident: figure(&answer, "process_resident_memory_bytes ") / f64::from(1 << 20),
        scrape: times[times.len() * 99 / 100],
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, number, connections] = &arguments[..]
        && word == "hold"
    {
        return hold(number.parse().unwrap(), connections.parse().unwrap());
    }
    let sizes: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { DEFAULT_SIZES.to_vec() } else { sizes };
    println!(
        "| sockets | bare dump | nettune | `ss -tinH` | nettune / dump | nettune / ss | resident | scrape, p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut holders = Vec::new();
    let mut connections = 0;
    for size in sizes {
        while connections < size / 2 {
            let more = HELD.min(size / 2 - connections);
            holders.push(Holder::start(holders.len(), more));
            connections += more;
        }
        let (dump, Sampling { pass, resident, scrape }, listed) = (bare_dump(), nettune(), ss());
        let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        println!(
            "| {size} | {} | {} | {} | {:.2} | {:.2} | {resident:.1} MiB | {} |",
            milliseconds(dump),
            milliseconds(pass),
            milliseconds(listed),
            pass / dump,
            pass / listed,
            milliseconds(scrape),
        );
    }
}
