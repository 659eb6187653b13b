//! Processes that hold connections over loopback: one alone may not open enough
//! descriptors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Connections of one holder: twice as many descriptors, below the usual limit.
const HELD: usize = 9_000;
/// Both ends of a connection.
type Pair = (TcpStream, TcpStream);

/// A process that holds connections until its standard input ends.
pub(crate) struct Holder {
    child: Child,
    /// Its end ends the child too, should this process be killed.
    _input: ChildStdin,
}

impl Holder {
    /// Holds so many connections; over `busy` of them it sends.
    pub(crate) fn start(number: usize, connections: usize, busy: usize) -> Self {
        Self::run(Command::new(std::env::current_exe().unwrap()), number, connections, busy)
    }

    /// Holds them in a network namespace of its own, which ends with it.
    pub(crate) fn start_apart(number: usize, connections: usize) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
        command.arg(std::env::current_exe().unwrap());
        Self::run(command, number, connections, 0)
    }

    fn run(mut command: Command, number: usize, connections: usize, busy: usize) -> Self {
        let words = ["hold".to_owned(), number.to_string(), connections.to_string(), busy.to_string()];
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
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

/// Sockets of as many holders as it takes.
#[derive(Default)]
pub(crate) struct Crowd {
    holders: Vec<Holder>,
    connections: usize,
}

impl Crowd {
    /// Grows to so many sockets, two a connection; each new holder sends over `busy`
    /// connections.
    pub(crate) fn grow(&mut self, sockets: usize, busy: usize) {
        while self.connections < sockets / 2 {
            let more = HELD.min(sockets / 2 - self.connections);
            self.holders.push(Holder::start(self.holders.len(), more, busy));
            self.connections += more;
        }
    }
}

/// The work of a holder.
pub(crate) fn hold(number: usize, connections: usize, busy: usize) {
    // An address each: one has no more than 28,000 ports toward a listener.
    let address = Ipv4Addr::new(127, 1, (number / 250) as u8, (number % 250 + 1) as u8);
    let listener = TcpListener::bind((address, 0)).unwrap();
    let pairs: Vec<_> = (0..connections).map(|_| connect(&listener)).collect();
    println!("held");
    let step = connections.checked_div(busy).unwrap_or(0).max(1);
    std::thread::scope(|scope| {
        if busy > 0 {
            scope.spawn(|| {
                loop {
                    pairs.iter().step_by(step).take(busy).for_each(send);
                    sleep(Duration::from_millis(500));
                }
            });
        }
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

/// A connection that leaves nothing in TIME_WAIT, where it would be in the way of the
/// next measurement.
fn connect(listener: &TcpListener) -> Pair {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        set_socket_linger(end, Some(Duration::ZERO)).unwrap();
    }
    (client, server)
}

fn send((client, server): &Pair) {
    let mut data = [0; 4096];
    let (mut client, mut server) = (client, server);
    client.write_all(&data).unwrap();
    server.read_exact(&mut data).unwrap();
}
