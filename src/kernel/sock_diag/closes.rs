//! Notifications of sockets that are gone: the multicast groups of sock_diag
//! (net/core/sock_diag.c:sock_diag_broadcast_destroy, 5.10-6.18). They are sent
//! when the socket itself is freed, so before TIME_WAIT, whose end tells nothing.
//! While anybody in the host is a member, each close of any namespace costs the
//! kernel a message.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

/// SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY (enum sknetlink_groups
/// in include/uapi/linux/sock_diag.h).
const GROUPS: [u32; 2] = [1, 3];
/// Each notification comes alone and is 380 bytes long in 6.18.
const DATAGRAM: usize = 4 << 10;
/// Numbers that SO_MEMINFO gives (SK_MEMINFO_VARS in
/// include/uapi/linux/sock_diag.h); that of drops is the last.
const SK_MEMINFO_VARS: usize = 9;
const SK_MEMINFO_DROPS: usize = 8;

/// A member of the groups. Whoever shares it may leave and join them while
/// another thread waits.
#[derive(Debug)]
pub struct CloseEvents {
    socket: Socket,
    lost: AtomicU64,
}

impl CloseEvents {
    /// Joins the groups, with room for `room` bytes of notifications, or for as
    /// many as the system lets us have; each takes about 1,300.
    pub(in crate::kernel) fn join(room: usize) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        // Without the privilege the kernel gives at most net.core.rmem_max.
        if sockopt::set_socket_recv_buffer_size_force(&socket, room).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, room)?;
        }
        // Drops are counted anyway. As an error they would have the kernel drop
        // everything until the socket is read empty
        // (net/netlink/af_netlink.c:netlink_overrun).
        socket.set_no_enobufs(true)?;
        let events = Self { socket, lost: AtomicU64::new(0) };
        events.drops()?;
        events.rejoin()?;
        Ok(events)
    }

    /// Leaves the groups: closes cost the kernel nothing more, and those that come
    /// now are neither told nor counted as lost. What waits can still be read.
    ///
    /// # Errors
    /// As the system says.
    pub fn leave(&self) -> io::Result<()> {
        GROUPS.iter().try_for_each(|group| self.socket.drop_membership(*group))
    }

    /// Joins the groups again.
    ///
    /// # Errors
    /// As the system says.
    pub fn rejoin(&self) -> io::Result<()> {
        GROUPS.iter().try_for_each(|group| self.socket.add_membership(*group))
    }

    /// Waits until a notification is there; false when none came in time.
    ///
    /// # Errors
    /// As the system says.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives each notification that is there to `each`, at most `most` of them, and
    /// does not wait.
    ///
    /// # Errors
    /// As the system says.
    pub fn drain(&self, most: usize, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut datagram = Vec::with_capacity(DATAGRAM);
        for _ in 0..most {
            datagram.clear();
            match self.socket.recv(&mut datagram, libc::MSG_DONTWAIT) {
                Ok(_) => each(&datagram),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Notifications that found no room, since the first join.
    ///
    /// # Errors
    /// As the system says.
    pub fn lost(&self) -> io::Result<u64> {
        let drops = self.drops()?;
        let known = self.lost.load(Ordering::Relaxed);
        // The kernel's count has 32 bits.
        let lost = known + u64::from(drops.wrapping_sub(known as u32));
        self.lost.store(lost, Ordering::Relaxed);
        Ok(lost)
    }

    /// `sk_drops` of the socket; the option is there since 4.12.
    fn drops(&self) -> io::Result<u32> {
        let mut numbers = [0u32; SK_MEMINFO_VARS];
        let mut size = size_of_val(&numbers) as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes through the first pointer,
        // which is the size of the array behind it, and a socklen_t through the
        // second; both live across the call, and any bytes are valid integers.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                numbers.as_mut_ptr().cast(),
                &mut size,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(numbers[SK_MEMINFO_DROPS])
    }
}
