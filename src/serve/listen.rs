//! Sockets that listen.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};

use super::stream::Stream;
use crate::cli::ListenAddress;

/// Connections that may wait to be accepted; the kernel cuts it to
/// `net.core.somaxconn`.
const BACKLOG: u32 = 1024;

/// Sockets that listen; connections of all of them are accepted in one place.
#[derive(Debug, Default)]
pub struct Listeners {
    sockets: Vec<Socket>,
    /// The socket to ask first, so that a busy one does not hide the others.
    next: usize,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    /// The file is held when it is ours to remove.
    Unix {
        listener: UnixListener,
        _file: Option<SocketFile>,
    },
}

impl Listeners {
    /// Starts to listen on one more address.
    ///
    /// # Errors
    /// What the system answered.
    pub async fn bind(&mut self, address: &ListenAddress) -> io::Result<()> {
        let socket = match address {
            ListenAddress::Port(port) => Socket::Tcp(bind_port(*port)?),
            ListenAddress::Host { host, port } => Socket::Tcp(bind_host(host, *port)?),
            ListenAddress::Unix(path) => {
                let listener = bind_unix(path).await?;
                Socket::Unix { listener, _file: Some(SocketFile::new(path)?) }
            }
        };
        self.sockets.push(socket);
        Ok(())
    }

    /// Takes over the sockets that systemd passed.
    ///
    /// # Errors
    /// None was passed, or one is not a TCP or unix stream socket.
    pub fn inherit(mut passed: ListenFd) -> io::Result<Self> {
        let mut listeners = Self::default();
        for index in 0..passed.len() {
            let socket = if let Ok(Some(listener)) = passed.take_tcp_listener(index) {
                listener.set_nonblocking(true)?;
                Socket::Tcp(TcpListener::from_std(listener)?)
            } else if let Ok(Some(listener)) = passed.take_unix_listener(index) {
                listener.set_nonblocking(true)?;
                Socket::Unix { listener: UnixListener::from_std(listener)?, _file: None }
            } else {
                return Err(io::Error::other(format!(
                    "passed socket {} is neither a TCP nor a unix stream socket",
                    index + 1
                )));
            };
            listeners.sockets.push(socket);
        }
        if listeners.sockets.is_empty() {
            return Err(io::Error::other("no socket was passed; is the .socket unit active?"));
        }
        Ok(listeners)
    }

    /// Where a browser on this host finds the first TCP listener; empty without.
    pub fn url(&self) -> String {
        let address = self.sockets.iter().find_map(|socket| match socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix { .. } => None,
        });
        match address {
            Some(address) if address.ip().is_unspecified() => format!("http://localhost:{}/", address.port()),
            Some(address) => format!("http://{address}/"),
            None => String::new(),
        }
    }

    /// Addresses as the system has them, with the port it chose for port 0.
    pub fn addresses(&self) -> Vec<String> {
        let unknown = "unknown".to_owned();
        let address = |socket: &Socket| match socket {
            Socket::Tcp(listener) => {
                listener.local_addr().map_or(unknown.clone(), |address| address.to_string())
            }
            Socket::Unix { listener, .. } => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                path.map_or(unknown.clone(), |path| format!("unix:{}", path.display()))
            }
        };
        self.sockets.iter().map(address).collect()
    }

    /// The next connection, of whichever socket.
    ///
    /// # Errors
    /// As of accept(2); a later call may succeed.
    pub(super) async fn accept(&mut self) -> io::Result<Stream> {
        std::future::poll_fn(|cx| {
            for offset in 0..self.sockets.len() {
                let index = (self.next + offset) % self.sockets.len();
                if let Poll::Ready(accepted) = self.sockets[index].poll_accept(cx) {
                    self.next = index + 1;
                    return Poll::Ready(accepted);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl Socket {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(cx).map_ok(|(stream, _)| {
                // An answer is one write; waiting to fill a segment gains nothing.
                let _ = stream.set_nodelay(true);
                Stream::Tcp(stream)
            }),
            Self::Unix { listener, .. } => {
                listener.poll_accept(cx).map_ok(|(stream, _)| Stream::Unix(stream))
            }
        }
    }
}

/// IPv6 takes IPv4 connections too; where the kernel has no IPv6, IPv4 alone.
fn bind_port(port: u16) -> io::Result<TcpListener> {
    match bind_tcp((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
            bind_tcp((Ipv4Addr::UNSPECIFIED, port).into())
        }
        bound => bound,
    }
}

/// The first address of the name that can be bound.
fn bind_host(host: &str, port: u16) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    // `%eth0` is understood by the resolver, in the form without brackets.
    for address in (host, port).to_socket_addrs()? {
        match bind_tcp(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // net.ipv6.bindv6only of the host must not decide this.
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A socket file that nobody listens on is left over from a crash, and replaced.
async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        bound => return bound,
    }
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket is in the way",
        ));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        _ => Err(io::Error::from_raw_os_error(libc::EADDRINUSE)),
    }
}

/// A socket file that we made and remove, unless another has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}
