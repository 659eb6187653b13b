//! A path between two network namespaces, with the rate, delay, loss, order and
//! queue of a long one.

mod link;
mod printed;
mod relay;
mod transfer;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::namespace::Namespace;
pub(crate) use link::Direction;
pub(crate) use printed::Printed;
use relay::{FAR, Relay};
pub(crate) use transfer::Transfer;

/// Two hosts with a path between them, until the end of the test.
pub(crate) struct Lab {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
    /// Ends when the lab does.
    _relay: Relay,
}

impl Lab {
    /// `None`, loudly, without the privilege or the tools.
    pub(crate) fn new(forth: Direction, back: Direction) -> Option<Self> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        let relay = Relay::new(&near, &far, forth, back);
        Some(Self { near, far, _relay: relay })
    }

    /// Sets the largest send buffer of near and the largest receive buffer of far
    /// for connections to come.
    pub(crate) fn set_buffers(&self, send: usize, receive: usize) {
        self.near.sysctl("net.ipv4.tcp_wmem", &format!("4096 16384 {send}"));
        self.far.sysctl("net.ipv4.tcp_rmem", &format!("4096 131072 {receive}"));
    }

    /// A connection from near to far: the client's end and the server's.
    pub(crate) fn connect(&self) -> (TcpStream, TcpStream) {
        self.connect_many(1, |_| {}).remove(0)
    }

    /// As [`Lab::connect`], several; `prepare` is given each client before it
    /// connects.
    pub(crate) fn connect_many(
        &self,
        count: usize,
        prepare: impl Fn(&OwnedFd) + Sync,
    ) -> Vec<(TcpStream, TcpStream)> {
        let listener = self.far.inside(|| TcpListener::bind((FAR, 0)).unwrap());
        let target: SocketAddr = listener.local_addr().unwrap();
        let client = |_| {
            // A program that another test starts is not to hold it too.
            let flags = SocketFlags::CLOEXEC;
            let socket =
                rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            prepare(&socket);
            rustix::net::connect(&socket, &target).unwrap();
            TcpStream::from(socket)
        };
        let clients: Vec<_> = self.near.inside(|| (0..count).map(client).collect());
        clients.into_iter().map(|client| (client, listener.accept().unwrap().0)).collect()
    }
}

/// Has a client use an algorithm, whatever the host's own is.
pub(crate) fn congestion(name: &str) -> impl Fn(&OwnedFd) + Sync {
    move |socket| sockopt::set_tcp_congestion(socket, name).expect("the kernel has it")
}

/// Held by a test that keeps the machine busy, so that no two do at a time.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
