//! What one client can hold, with limits short enough to be waited for. The
//! server runs in this process, since the program has no flags for them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nettune::cli::ListenAddress;
use nettune::collect::{Collector, DeviceFilter, Others, Selection, Settings};
use nettune::config::ReloadState;
use nettune::kernel::{Kernel, Roots};
use nettune::ledger::Ledger;
use nettune::serve::{App, Limits, Listeners, run};
use regex::Regex;
use tokio::sync::oneshot;

use crate::support::{Address, DEADLINE, Scratch, eventually};

/// A server in this process, stopped at the end of the test.
struct Server {
    address: Address,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    scratch: Scratch,
}

impl Server {
    /// On a unix socket, whose buffers are small, with an empty procfs.
    fn start(limits: Limits) -> Self {
        let scratch = Scratch::new();
        scratch.file("proc/net/nothing", "");
        Self::start_in(scratch, limits)
    }

    fn start_in(scratch: Scratch, limits: Limits) -> Self {
        let roots =
            Roots { proc: scratch.path("proc"), sys: scratch.path("sys"), host: scratch.path("root") };
        let socket = scratch.path("socket");
        let address = Address::Unix(socket.clone());
        let (stop, stopped) = oneshot::channel();
        let (listening, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let settings = Settings {
                    enabled: Selection::all(),
                    devices: DeviceFilter::Exclude(Regex::new("^$").unwrap()),
                    netstat_all: false,
                    sample_interval: Duration::from_secs(15),
                    sockets_interval: Duration::from_secs(15),
                    sockets_cpu_budget: 0.01,
                    close_notifications: true,
                    paths: Arc::default(),
                    declared: Arc::default(),
                    others: Others::None,
                };
                let collector = Collector::start(Kernel::live(roots), settings, Ledger::in_memory()).unwrap();
                let mut listeners = Listeners::default();
                listeners.bind(&ListenAddress::Unix(socket)).await.unwrap();
                let app = App::new(collector, "/metrics".into(), limits, Arc::new(ReloadState::started()));
                listening.send(()).unwrap();
                run(listeners, Arc::new(app), async { _ = stopped.await }).await;
            });
        });
        started.recv_timeout(DEADLINE).expect("the server starts");
        Self { address, stop: Some(stop), thread: Some(thread), scratch }
    }

    /// Asks it to end and waits until it has.
    fn stop(&mut self) -> Duration {
        let started = Instant::now();
        self.stop.take();
        let thread = self.thread.take().expect("it runs");
        eventually("the server does not end", || thread.is_finished().then_some(()));
        thread.join().expect("the server does not panic");
        started.elapsed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
    }
}

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_head_that_never_ends_is_cut_off_however_busy_it_looks() {
    let server = Server::start(Limits { head: SHORT, ..Limits::default() });
    let mut connection = server.address.connect().unwrap();
    connection.write(b"GET / HTTP/1.1\r\nX: ").unwrap();
    let started = Instant::now();
    let mut sent = 0;
    while connection.write(b"y").is_ok() {
        sent += 1;
        assert!(started.elapsed() < DEADLINE, "still open after {sent} bytes");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(started.elapsed() >= SHORT.mul_f32(0.9), "{:?}", started.elapsed());
    assert_eq!(server.address.get("/-/healthy", &[]).status, 200);
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let server = Server::start(Limits { head: SHORT, ..Limits::default() });
    let mut connection = server.address.connect().unwrap();
    assert_eq!(connection.rest().unwrap(), b"");
}

#[test]
fn a_connection_between_requests_is_closed_when_its_time_is_over_and_not_before() {
    let server = Server::start(Limits { head: Duration::from_millis(1), idle: SHORT, ..Limits::default() });
    // A head that arrives whole needs no time; one that is late would. The
    // answer does take some: between reading and answering, hyper waits.
    let mut connection = eventually("no request is fast enough", || {
        let mut connection = server.address.connect().ok()?;
        connection.send("GET", "/metrics", &[]).ok()?;
        connection.receive("GET").ok().map(|_| connection)
    });
    let started = Instant::now();
    assert_eq!(connection.rest().unwrap(), b"");
    assert!(started.elapsed() >= SHORT.mul_f32(0.9), "{:?}", started.elapsed());
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server = Server::start(Limits { connections: 2, answer: SHORT, ..Limits::default() });
    let mut deaf = server.address.connect().unwrap();
    let request = "GET / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(10);
    // Sooner or later the answers fill the socket, and the server gives up.
    let started = Instant::now();
    let error = eventually("it is never cut off", || deaf.write(request.as_bytes()).err());
    assert!(matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset), "{error}");
    assert!(started.elapsed() >= SHORT.mul_f32(0.9), "{:?}", started.elapsed());
    // Its place is free again: there are two.
    let mut holder = server.address.connect().unwrap();
    holder.write(b"GET / HTTP/1.1\r\n").unwrap();
    assert_eq!(server.address.get("/-/healthy", &[]).status, 200);
}

#[test]
fn beyond_the_limit_connections_wait_their_turn() {
    let server = Server::start(Limits { connections: 2, ..Limits::default() });
    // In the middle of a request, so that they may stay.
    let mut holders: Vec<_> = (0..2).map(|_| server.address.connect().unwrap()).collect();
    for holder in &mut holders {
        holder.write(b"GET /-/healthy HTTP/1.1\r\n").unwrap();
    }
    let mut waiting = server.address.connect().unwrap();
    waiting.send("GET", "/-/healthy", &[]).unwrap();
    waiting.set_timeout(SHORT).unwrap();
    let error = waiting.receive("GET").expect_err("there is no place yet");
    assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");

    // Whoever is served while all places are taken is asked to leave.
    let mut first = holders.remove(0);
    first.write(b"\r\n").unwrap();
    let answer = first.receive("GET").unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert_eq!(first.rest().unwrap(), b"");
    waiting.set_timeout(DEADLINE).unwrap();
    assert_eq!(waiting.receive("GET").unwrap().text(), "healthy\n");
}

#[test]
fn idle_connections_make_room_for_others() {
    let server = Server::start(Limits { connections: 2, idle: DEADLINE * 10, ..Limits::default() });
    for _ in 0..5 {
        let mut idle = server.address.connect().unwrap();
        idle.send("GET", "/-/healthy", &[]).unwrap();
        assert_eq!(idle.receive("GET").unwrap().status, 200);
        // In the middle of a request, so that it stays.
        let mut holder = server.address.connect().unwrap();
        holder.write(b"GET / HTTP/1.1\r\n").unwrap();
        assert_eq!(server.address.get("/-/healthy", &[]).status, 200);
        assert_eq!(idle.rest().unwrap(), b"");
    }
}

#[test]
fn the_end_does_not_wait_for_idle_connections_and_not_for_ever_for_others() {
    let mut server = Server::start(Limits { drain: DEADLINE * 10, ..Limits::default() });
    let mut idle = server.address.connect().unwrap();
    idle.send("GET", "/-/healthy", &[]).unwrap();
    assert_eq!(idle.receive("GET").unwrap().status, 200);
    assert!(server.stop() < DEADLINE);
    assert_eq!(idle.rest().unwrap(), b"");
    assert!(!server.scratch.path("socket").exists(), "the socket's file is removed");

    let scratch = Scratch::new();
    let (_, _gate) = scratch.gated_procfs();
    let mut server = Server::start_in(scratch, Limits { drain: SHORT, ..Limits::default() });
    let mut stuck = server.address.connect().unwrap();
    stuck.send("GET", "/metrics", &[]).unwrap();
    // A second request on another connection is answered after the first began.
    assert_eq!(server.address.get("/-/healthy", &[]).status, 200);
    let took = server.stop();
    assert!(took >= SHORT.mul_f32(0.9), "{took:?}");
    assert!(stuck.receive("GET").is_err());
}
