//! A relay between two TUN devices, one in each of two namespaces.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use tun::{AbstractDevice, Device};

use super::link::{Direction, Link};
use crate::namespace::Namespace;

pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const MTU: u16 = 1500;
/// What waits for the relay itself, in packets. The path's queue is the one that
/// drops, however late the relay's threads are woken on a busy machine.
const BACKLOG: u32 = 20_000;

/// A packet and when it arrives.
type Packet = (Instant, Vec<u8>);

/// A path between two namespaces, until it is dropped.
pub(crate) struct Relay {
    running: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// `forth` is from near to far.
    pub(crate) fn new(near: &Namespace, far: &Namespace, forth: Direction, back: Direction) -> Self {
        let (near_end, far_end) = (end(near, NEAR), end(far, FAR));
        let running = Arc::new(AtomicBool::new(true));
        let mut threads = Vec::new();
        for (from, to, direction) in [(near_end.clone(), far_end.clone(), forth), (far_end, near_end, back)] {
            // Two queues, each in the order of arrival, spare a sorted one.
            let ((on_time, due), (held, late)) = (channel(), channel());
            let running = Arc::clone(&running);
            threads.push(spawn(move || admit(&from, Link::new(direction), &on_time, &held, &running)));
            for packets in [due, late] {
                let to = Arc::clone(&to);
                threads.push(spawn(move || deliver(&to, &packets)));
            }
        }
        Self { running, threads }
    }
}

impl Drop for Relay {
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
    namespace.run(&format!(
        "ip addr add {address}/24 dev path && ip link set path txqueuelen {BACKLOG} && ip link set path up"
    ));
    Arc::new(device)
}

/// Takes packets in and decides which arrive, and when.
fn admit(
    from: &Device,
    mut link: Link,
    on_time: &Sender<Packet>,
    held: &Sender<Packet>,
    running: &AtomicBool,
) {
    let mut buffer = [0; MTU as usize];
    while running.load(Ordering::Relaxed) {
        // The time limit is there to look at `running`.
        let Ok(size) = from.recv_timeout(&mut buffer, Duration::from_millis(50)) else { continue };
        if let Some(arrival) = link.admit(Instant::now(), size) {
            let lane = if arrival.held { held } else { on_time };
            // Whoever delivers lives until this thread ends.
            let _ = lane.send((arrival.due, buffer[..size].to_vec()));
        }
    }
}

fn deliver(to: &Device, packets: &Receiver<Packet>) {
    for (due, packet) in packets {
        sleep(due.saturating_duration_since(Instant::now()));
        // A device that is full or gone loses the packet, as any would.
        let _ = to.send(&packet);
    }
}
