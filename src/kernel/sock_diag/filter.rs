//! Filters that the kernel applies while it walks (`INET_DIAG_REQ_BYTECODE`).

use std::ops::RangeInclusive;

const INET_DIAG_REQ_BYTECODE: u16 = 1;
const INET_DIAG_BC_JMP: u8 = 1;
const INET_DIAG_BC_S_GE: u8 = 2;
const INET_DIAG_BC_S_LE: u8 = 3;
const INET_DIAG_BC_D_GE: u8 = 4;
const INET_DIAG_BC_D_LE: u8 = 5;
const INET_DIAG_BC_AUTO: u8 = 6;
/// Since 4.16.
const INET_DIAG_BC_S_EQ: u8 = 11;
/// `struct inet_diag_bc_op { u8 code, yes; u16 no; }`; its fields say how many
/// bytes further the program goes on. Comparing ports takes a second one, whose
/// `no` is the port.
const OPERATION: u16 = 4;
const TEST: u16 = 2 * OPERATION;

/// One port or the other within a range, chosen by whether the local port is one
/// that connections of ours get: `local.contains(port) ? port in own : peer port
/// in other`. Ports in `listening` count as not of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFilter {
    /// Local ports that the kernel gives to connections of ours; `None` where the
    /// peer's port decides always.
    pub ephemeral: Option<RangeInclusive<u16>>,
    /// Ports in that range that something listens on.
    pub listening: Vec<u16>,
    /// What the local port must be in where it is one of those.
    pub own: RangeInclusive<u16>,
    /// What the peer's port must be in elsewhere.
    pub peer: RangeInclusive<u16>,
}

impl PortFilter {
    /// Whether a connection with these ports passes, as the kernel decides it.
    pub fn passes(&self, port: u16, peer_port: u16) -> bool {
        let is_ephemeral = self.ephemeral.as_ref().is_some_and(|range| range.contains(&port));
        if is_ephemeral && !self.listening.contains(&port) {
            self.own.contains(&port)
        } else {
            self.peer.contains(&peer_port)
        }
    }

    /// Appends the attribute to a request.
    pub(super) fn emit(&self, request: &mut Vec<u8>) {
        emit(request, &self.program());
    }

    /// A program that ends exactly at its end where the socket passes, and beyond
    /// where not (net/ipv4/inet_diag.c:inet_diag_bc_run). Its parts, in order: is
    /// the local port ephemeral; is it a listening one; is it in `own`; a jump to
    /// the end; is the peer's in `peer`.
    fn program(&self) -> Vec<u8> {
        let listening = self.listening.len() as u16 * (TEST + OPERATION);
        let own = self.ephemeral.as_ref().map_or(0, |_| 4 * TEST + listening + OPERATION);
        let (to_peer, length) = (own, own + 2 * TEST);
        let rejected = length + OPERATION;
        let mut program = Program(Vec::with_capacity(length.into()));
        if let Some(ephemeral) = &self.ephemeral {
            program.test(INET_DIAG_BC_S_GE, *ephemeral.start(), to_peer);
            program.test(INET_DIAG_BC_S_LE, *ephemeral.end(), to_peer);
            for port in &self.listening {
                program.test(INET_DIAG_BC_S_EQ, *port, program.at() + TEST + OPERATION);
                program.jump(to_peer);
            }
            program.test(INET_DIAG_BC_S_GE, *self.own.start(), rejected);
            program.test(INET_DIAG_BC_S_LE, *self.own.end(), rejected);
            program.jump(length);
        }
        program.test(INET_DIAG_BC_D_GE, *self.peer.start(), rejected);
        program.test(INET_DIAG_BC_D_LE, *self.peer.end(), rejected);
        program.0
    }
}

/// Appends the attribute that only sockets pass whose port the kernel chose: nobody
/// named one to bind().
pub(super) fn emit_chosen(request: &mut Vec<u8>) {
    let mut program = Program(Vec::new());
    program.operation(INET_DIAG_BC_AUTO, OPERATION as u8, 2 * OPERATION);
    emit(request, &program.0);
}

fn emit(request: &mut Vec<u8>, program: &[u8]) {
    request.extend((4 + program.len() as u16).to_ne_bytes());
    request.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
    request.extend(program);
}

/// Operations so far; each names how far it goes on from itself.
struct Program(Vec<u8>);

impl Program {
    fn at(&self) -> u16 {
        self.0.len() as u16
    }

    /// Goes on behind itself where the port compares, else at `otherwise`.
    fn test(&mut self, code: u8, port: u16, otherwise: u16) {
        let no = otherwise - self.at();
        self.operation(code, TEST as u8, no);
        self.operation(0, 0, port);
    }

    fn jump(&mut self, target: u16) {
        let no = target - self.at();
        self.operation(INET_DIAG_BC_JMP, OPERATION as u8, no);
    }

    fn operation(&mut self, code: u8, yes: u8, no: u16) {
        self.0.extend([code, yes]);
        self.0.extend(no.to_ne_bytes());
    }
}
