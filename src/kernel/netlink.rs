//! Netlink sockets, the dump loop, and borrowed walks over messages and
//! attributes.

mod attribute;

use std::io;

use ethtool::EthtoolMessage;
use netlink_packet_core::{Emitable, NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_NETFILTER};
use netlink_sys::{Socket, SocketAddr};

use super::request::{Request, zeroed};
use super::sock_diag::{self, Scope};
use super::{Error, Malformed, Result};

pub(super) use attribute::array_at;
pub use attribute::{Attribute, be32_at, u16_at, u32_at, u64_at};
use attribute::{attributes, i32_at};

const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_DUMP_INTR: u16 = 0x10;
/// Fixed id of the generic netlink controller (GENL_ID_CTRL).
const GENL_ID_CTRL: u16 = 16;

/// The kernel puts at most 32 KiB into one datagram of a dump
/// (net/netlink/af_netlink.c:netlink_dump); twice that leaves no doubt.
const DATAGRAM: usize = 64 << 10;

/// Adds the messages of one datagram to a value.
pub(super) type Fold<'f, T> = dyn FnMut(&mut T, &[u8]) -> std::result::Result<(), Malformed> + 'f;

/// One long-lived socket a netlink protocol, opened at first use. A socket stays in
/// the network namespace it was opened in, and keeps that from going away.
#[derive(Debug, Default)]
pub struct Open(Vec<(isize, Connection)>);

impl Open {
    fn connection(&mut self, protocol: isize) -> io::Result<&mut Connection> {
        let position = match self.0.iter().position(|(known, _)| *known == protocol) {
            Some(position) => position,
            None => {
                self.0.push((protocol, Connection::open(protocol)?));
                self.0.len() - 1
            }
        };
        Ok(&mut self.0[position].1)
    }

    /// What is left unread in a socket belongs to a request that is over.
    fn close(&mut self, protocol: isize) {
        self.0.retain(|(known, _)| *known != protocol);
    }
}

/// Sockets, and the room that all their answers go through.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// Those of the namespace that this thread is in.
    pub(super) open: Open,
    ethtool_family: Option<u16>,
    datagram: Vec<u8>,
}

impl Sockets {
    /// Folds the answer into a value, datagram by datagram, so that it is never
    /// held whole: a router has a million routes. The second value is true when
    /// the dump was interrupted by a change in every one of `attempts`, so that an
    /// entry may be missing or doubled.
    pub(super) fn ask<T: Default>(
        &mut self,
        request: Request,
        scope: Scope<'_>,
        attempts: usize,
        fold: &mut Fold<'_, T>,
    ) -> Result<(T, bool)> {
        let answer = self.try_ask(request, scope, attempts, fold);
        if answer.is_err() {
            self.open.close(request.protocol());
        }
        answer.map_err(|failure| match failure {
            Failure::Malformed(malformed) => malformed.at(format!("netlink {}", request.name())),
            Failure::Io(source) => {
                Error::Netlink { request: request.name(), source: interpret(request, source) }
            }
        })
    }

    fn try_ask<T: Default>(
        &mut self,
        request: Request,
        scope: Scope<'_>,
        attempts: usize,
        fold: &mut Fold<'_, T>,
    ) -> std::result::Result<(T, bool), Failure> {
        let prepared = zeroed(request).map(|(kind, size)| (kind, vec![0; size]));
        let (kind, payload) = match prepared.or_else(|| sock_diag::dump(request, scope)) {
            Some(prepared) => prepared,
            None => (self.ethtool_family()?, ethtool_payload(request)),
        };
        let connection = self.open.connection(request.protocol())?;
        for attempt in 1.. {
            let mut value = T::default();
            connection.send(kind, NLM_F_REQUEST | NLM_F_DUMP, &payload)?;
            let each = |bytes: &[u8]| fold(&mut value, bytes);
            match connection.receive_dump(&mut self.datagram, scope.most, each)? {
                End::Interrupted if attempt < attempts => {}
                End::Enough => {
                    self.open.close(request.protocol());
                    return Ok((value, false));
                }
                end => return Ok((value, end == End::Interrupted)),
            }
        }
        unreachable!("the last attempt returns")
    }

    fn ethtool_family(&mut self) -> std::result::Result<u16, Failure> {
        if let Some(family) = self.ethtool_family {
            return Ok(family);
        }
        let mut message = GenlMessage::from_payload(GenlCtrl {
            cmd: GenlCtrlCmd::GetFamily,
            nlas: vec![GenlCtrlAttrs::FamilyName("ethtool".into())],
        });
        message.finalize();
        let connection = self.open.connection(NETLINK_GENERIC)?;
        connection.send(GENL_ID_CTRL, NLM_F_REQUEST, &emit(&message))?;
        connection.receive_one(&mut self.datagram)?;
        let family = family_id(&self.datagram).ok_or(io::ErrorKind::InvalidData)?;
        self.ethtool_family = Some(family);
        Ok(family)
    }
}

enum Failure {
    Io(io::Error),
    Malformed(Malformed),
}

impl From<io::Error> for Failure {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

impl From<io::ErrorKind> for Failure {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Io(kind.into())
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// nfnetlink answers EINVAL to a subsystem that is not loaded
/// (net/netfilter/nfnetlink.c:nfnetlink_rcv_msg, 5.10-6.18); that is absence.
fn interpret(request: Request, source: io::Error) -> io::Error {
    let unknown = request.protocol() == NETLINK_NETFILTER && source.raw_os_error() == Some(libc::EINVAL);
    if unknown { io::Error::from_raw_os_error(libc::EPROTONOSUPPORT) } else { source }
}

fn ethtool_payload(request: Request) -> Vec<u8> {
    let message = match request {
        Request::Channels => EthtoolMessage::new_channel_get(None),
        _ => EthtoolMessage::new_ring_get(None),
    };
    let mut message = GenlMessage::from_payload(message);
    message.finalize();
    emit(&message)
}

fn emit(message: &impl Emitable) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}

fn family_id(answer: &[u8]) -> Option<u16> {
    const CTRL_ATTR_FAMILY_ID: u16 = 1;
    let message = messages(answer).next()?.ok()?;
    message
        .attributes(4)
        .find(|attribute| attribute.kind == CTRL_ATTR_FAMILY_ID)
        .and_then(|attribute| u16_at(attribute.value, 0))
}

/// How a dump ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// The kernel marked it as interrupted by a change.
    Interrupted,
    /// There is more, and nobody wants it.
    Enough,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    sequence: u32,
}

impl Connection {
    fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    fn send(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let length = (HEADER + payload.len()) as u32;
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(payload);
        self.socket.send(&bytes, 0).map(drop)
    }

    fn receive(&self, datagram: &mut Vec<u8>) -> io::Result<()> {
        loop {
            datagram.clear();
            datagram.reserve_exact(DATAGRAM);
            match self.socket.recv(datagram, libc::MSG_TRUNC) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(size) if size > datagram.len() => {
                    return Err(io::Error::other(format!("datagram of {size} bytes was cut")));
                }
                Ok(_) => return Ok(()),
            }
        }
    }

    fn receive_one(&self, datagram: &mut Vec<u8>) -> io::Result<()> {
        self.receive(datagram)?;
        if let Some(Ok(message)) = messages(datagram).next() {
            message.error()?;
        }
        Ok(())
    }

    /// Gives the messages of a dump to `each`, a datagram at a time, until there are
    /// `most` of them or more.
    fn receive_dump(
        &self,
        datagram: &mut Vec<u8>,
        most: Option<usize>,
        mut each: impl FnMut(&[u8]) -> std::result::Result<(), Malformed>,
    ) -> std::result::Result<End, Failure> {
        let (mut interrupted, mut count) = (false, 0);
        loop {
            self.receive(datagram)?;
            let (mut done, mut size) = (false, 0);
            for message in messages(datagram) {
                let message = message?;
                if message.sequence != self.sequence {
                    // Of an earlier request; datagrams do not mix requests.
                    size = 0;
                    break;
                }
                interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
                message.error()?;
                if message.kind == NLMSG_DONE {
                    done = true;
                    break;
                }
                size += message.bytes.len().next_multiple_of(4);
                count += 1;
            }
            each(&datagram[..size.min(datagram.len())])?;
            if done {
                return Ok(if interrupted { End::Interrupted } else { End::Whole });
            }
            if most.is_some_and(|most| count >= most) {
                return Ok(End::Enough);
            }
        }
    }
}

/// One netlink message, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// `nlmsg_type`
    pub kind: u16,
    /// `nlmsg_flags`
    pub flags: u16,
    /// What follows the netlink header.
    pub payload: &'a [u8],
    sequence: u32,
    bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes that follow a fixed header of `header` bytes; a truncated
    /// last attribute ends the walk.
    pub fn attributes(&self, header: usize) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        attributes(self.payload.get(header.next_multiple_of(4)..).unwrap_or_default())
    }

    /// The error that an NLMSG_ERROR message or the end of a dump carries.
    fn error(&self) -> io::Result<()> {
        let carries = self.kind == NLMSG_ERROR || self.kind == NLMSG_DONE;
        match i32_at(self.payload, 0) {
            Some(code) if carries && code < 0 => Err(io::Error::from_raw_os_error(code.saturating_neg())),
            _ => Ok(()),
        }
    }
}

/// Walks the messages in `bytes`; a message that does not fit ends the walk
/// with an error that counts it from 1.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = std::result::Result<Message<'_>, Malformed>> {
    let mut rest = bytes;
    let mut number = 0;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        number += 1;
        let Ok(buffer) = NetlinkBuffer::new_checked(rest) else {
            let bad = Malformed::new(number, "netlink header", "a message of the length it states", rest);
            rest = &[];
            return Some(Err(bad));
        };
        // new_checked: HEADER <= length <= rest.len()
        let length = buffer.length() as usize;
        let message = Message {
            kind: buffer.message_type(),
            flags: buffer.flags(),
            sequence: buffer.sequence_number(),
            payload: &rest[HEADER..length],
            bytes: &rest[..length],
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_with_the_first_message_that_does_not_fit() {
        let message = [&20u32.to_ne_bytes()[..], &[0; 16]].concat();
        assert_eq!(messages(&message).filter(|message| message.is_ok()).count(), 1);
        let cut = [&message[..], &message[..10]].concat();
        let walked: Vec<_> = messages(&cut).collect();
        assert!(walked[0].is_ok() && walked[1].as_ref().unwrap_err().line == 2 && walked.len() == 2);
    }
}
