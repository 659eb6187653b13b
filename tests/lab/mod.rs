//! A path between two network namespaces, with the rate, delay, loss and queue of
//! a long one: a relay between two TUN devices.

mod link;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use tun::{AbstractDevice, Device};

use crate::namespace::Namespace;
pub(crate) use link::Direction;
use link::Link;

const NEAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const MTU: u16 = 1500;

/// Two hosts with a path between them, until the end of the test.
pub(crate) struct Lab {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
    running: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Lab {
    /// `None`, loudly, without the privilege or the tools.
    pub(crate) fn new(forth: Direction, back: Direction) -> Option<Self> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        let (near_end, far_end) = (end(&near, NEAR), end(&far, FAR));
        let running = Arc::new(AtomicBool::new(true));
        let mut threads = Vec::new();
        for (from, to, direction) in [(near_end.clone(), far_end.clone(), forth), (far_end, near_end, back)] {
            let (packets, due) = channel();
            let running = Arc::clone(&running);
            threads.push(spawn(move || admit(&from, Link::new(direction), &packets, &running)));
            threads.push(spawn(move || deliver(&to, &due)));
        }
        Some(Self { near, far, running, threads })
    }

    /// A connection from near to far: the client's end and the server's.
    pub(crate) fn connect(&self) -> (TcpStream, TcpStream) {
        let listener = self.far.inside(|| TcpListener::bind((FAR, 9001)).unwrap());
        let target = SocketAddr::from((FAR, 9001));
        let client = self.near.inside(|| TcpStream::connect(target).unwrap());
        (client, listener.accept().unwrap().0)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The namespace's end of the path.
fn end(namespace: &Namespace, address: Ipv4Addr) -> Arc<Device> {
    let mut configuration = tun::configure();
    configuration.tun_name("path").mtu(MTU);
    let device = namespace.inside(|| tun::create(&configuration).expect("/dev/net/tun gives a device"));
    assert_eq!(device.tun_name().unwrap(), "path");
    namespace.run(&format!("ip addr add {address}/24 dev path && ip link set path up"));
    Arc::new(device)
}

/// Takes packets in and decides which arrive, and when.
fn admit(from: &Device, mut link: Link, packets: &Sender<(Instant, Vec<u8>)>, running: &AtomicBool) {
    let mut buffer = [0; MTU as usize];
    while running.load(Ordering::Relaxed) {
        // The time limit is there to look at `running`.
        let Ok(size) = from.recv_timeout(&mut buffer, Duration::from_millis(50)) else { continue };
        if let Some(due) = link.admit(Instant::now(), size)
            && packets.send((due, buffer[..size].to_vec())).is_err()
        {
            return;
        }
    }
}

fn deliver(to: &Device, packets: &Receiver<(Instant, Vec<u8>)>) {
    for (due, packet) in packets {
        sleep(due.saturating_duration_since(Instant::now()));
        // A device that is full or gone loses the packet, as any would.
        let _ = to.send(&packet);
    }
}
