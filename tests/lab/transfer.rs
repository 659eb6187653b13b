//! Programs that send all they can to others that read all there is.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

use super::Printed;
use crate::namespace::Namespace;

/// Connections in use, closed at the end of the test.
pub(crate) struct Transfer {
    sending: Arc<AtomicBool>,
    ends: Vec<Arc<TcpStream>>,
    senders: Vec<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

impl Transfer {
    /// From the first of each pair to the second.
    pub(crate) fn start(pairs: Vec<(TcpStream, TcpStream)>) -> Self {
        let sending = Arc::new(AtomicBool::new(true));
        let mut transfer = Self {
            sending: Arc::clone(&sending),
            ends: Vec::new(),
            senders: Vec::new(),
            readers: Vec::new(),
        };
        for (client, server) in pairs {
            let (client, server) = (Arc::new(client), Arc::new(server));
            transfer.ends.extend([Arc::clone(&client), Arc::clone(&server)]);
            let sending = Arc::clone(&sending);
            transfer.senders.push(spawn(move || {
                let bytes = vec![0; 65_536];
                while sending.load(Ordering::Relaxed) && (&*client).write(&bytes).is_ok() {}
            }));
            transfer.readers.push(spawn(move || {
                let mut bytes = vec![0; 262_144];
                while (&*server).read(&mut bytes).is_ok_and(|size| size > 0) {}
            }));
        }
        transfer
    }

    /// Sends no more, and waits until all has arrived from the senders' namespace.
    pub(crate) fn settle(&mut self, namespace: &Namespace) -> Vec<Printed> {
        self.sending.store(false, Ordering::Relaxed);
        for sender in self.senders.drain(..) {
            sender.join().unwrap();
        }
        Printed::settled(namespace)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.sending.store(false, Ordering::Relaxed);
        for end in &self.ends {
            // Ends calls that wait; the peer may have done it already.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.senders.drain(..).chain(self.readers.drain(..)) {
            let _ = thread.join();
        }
    }
}
