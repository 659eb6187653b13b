//! A dump as the exporter asks for it, of which nobody looks at the answer.

use netlink_packet_core::Emitable;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP, SOCK_DIAG_BY_FAMILY};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use rustix::time::{ClockId, clock_gettime};

const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_DONE: u16 = 3;

/// A socket and the request.
pub(crate) struct Dump {
    socket: Socket,
    message: Vec<u8>,
    datagram: Vec<u8>,
}

impl Dump {
    pub(crate) fn prepare() -> Self {
        let states = StateFlags::all() - StateFlags::LISTEN - StateFlags::TIME_WAIT - StateFlags::CLOSE;
        let request = InetRequest {
            family: AF_INET,
            protocol: IPPROTO_TCP,
            // As in src/kernel/sock_diag/mod.rs.
            extensions: ExtensionFlags::INFO
                | ExtensionFlags::VEGASINFO
                | ExtensionFlags::CONG
                | ExtensionFlags::SKMEMINFO,
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
        Self { socket, message, datagram: Vec::with_capacity(64 << 10) }
    }

    /// CPU time of one, seconds.
    pub(crate) fn run(&mut self) -> f64 {
        let before = cpu();
        self.socket.send(&self.message, 0).unwrap();
        loop {
            self.datagram.clear();
            self.socket.recv(&mut self.datagram, 0).unwrap();
            // It comes alone, or last.
            if self.datagram.len() < 64 && self.datagram[4..6] == NLMSG_DONE.to_ne_bytes() {
                return cpu() - before;
            }
        }
    }
}

/// CPU time of this thread, seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
