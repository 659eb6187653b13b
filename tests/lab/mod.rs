//! A path between two network namespaces, with the rate, delay, loss, order and
//! queue of a long one.

mod link;
mod relay;

use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::namespace::Namespace;
pub(crate) use link::Direction;
use relay::{FAR, Relay};

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

    /// A connection from near to far: the client's end and the server's.
    pub(crate) fn connect(&self) -> (TcpStream, TcpStream) {
        let listener = self.far.inside(|| TcpListener::bind((FAR, 9001)).unwrap());
        let target = SocketAddr::from((FAR, 9001));
        let client = self.near.inside(|| TcpStream::connect(target).unwrap());
        (client, listener.accept().unwrap().0)
    }
}
