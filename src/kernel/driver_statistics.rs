//! The counters of `ethtool -S`. Ethtool netlink carries only standardised
//! statistics (Documentation/networking/ethtool-netlink.rst, 6.18); the names a
//! driver chose itself come by ioctl alone.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use super::{Error, Result};

// include/uapi/linux/ethtool.h, include/uapi/linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;
const ETH_GSTRING_LEN: usize = 32;

/// More counters than any driver has: cards with hundreds of queues have some
/// ten thousand. There is room for this many whatever count the driver states,
/// since kernels before 6.18 write as many as it has at that moment
/// (net/ethtool/ioctl.c:ethtool_get_strings, ethtool_get_stats). Untouched pages
/// of the room are never backed by memory.
const COUNTER_LIMIT: usize = 1 << 16;

/// Room for the kernel's answers, allocated once: anew at each reading it would
/// have to be zeroed, which takes longer than all the rest.
#[derive(Debug)]
pub(super) struct Room {
    names: Vec<u64>,
    values: Vec<u64>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            names: vec![0; (12 + COUNTER_LIMIT * ETH_GSTRING_LEN).div_ceil(8)],
            values: vec![0; 1 + COUNTER_LIMIT],
        }
    }
}

/// Appends `name: value` lines to `text`.
pub(super) fn read(device: &str, room: &mut Room, text: &mut Vec<u8>) -> Result<()> {
    let with_device = |source| Error::Ioctl { what: "driver statistics", device: device.into(), source };
    let socket = open_socket().map_err(with_device)?;
    let ask = |buffer: &mut [u64]| ioctl(&socket, device, buffer).map_err(with_device);

    // struct ethtool_sset_info { u32 cmd, reserved; u64 sset_mask; u32 data[1]; }
    let mut info = [word(ETHTOOL_GSSET_INFO, 0), 1 << ETH_SS_STATS, 0];
    ask(&mut info)?;
    let count = if info[1] == 0 { 0 } else { halves(info[2])[0] as usize };
    if count == 0 {
        return Err(with_device(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    if count > COUNTER_LIMIT {
        return Err(with_device(io::Error::other(format!("{count} counters are not believed"))));
    }

    // struct ethtool_gstrings { u32 cmd, string_set, len; u8 data[]; }
    let Room { names, values } = room;
    names[0] = word(ETHTOOL_GSTRINGS, ETH_SS_STATS);
    names[1] = word(count as u32, 0);
    ask(names)?;

    // struct ethtool_stats { u32 cmd, n_stats; u64 data[]; }
    values[0] = word(ETHTOOL_GSTATS, count as u32);
    ask(values)?;

    let named = halves(names[1])[0] as usize;
    let counted = halves(values[0])[1] as usize;
    let used = (12 + count * ETH_GSTRING_LEN).div_ceil(8);
    let bytes: Vec<u8> = names[..used].iter().flat_map(|word| word.to_ne_bytes()).collect();
    for index in 0..count.min(named).min(counted) {
        let name = &bytes[12 + index * ETH_GSTRING_LEN..][..ETH_GSTRING_LEN];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        text.extend_from_slice(name);
        // Writing to a Vec cannot fail.
        let _ = writeln!(text, ": {}", values[1 + index]);
    }
    Ok(())
}

fn word(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

fn open_socket() -> io::Result<File> {
    // SAFETY: socket() takes no pointers; its result is checked before use.
    let descriptor = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// `buffer` is read and written by the kernel as the structure its first word
/// names; u64 elements give it the alignment those structures need.
fn ioctl(socket: &File, device: &str, buffer: &mut [u64]) -> io::Result<()> {
    if device.len() >= libc::IFNAMSIZ || device.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: ifreq is plain data for which all zero bytes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL takes a pointer to an ifreq, which lives across the
    // call, and writes through ifru_data at most what the command states: for
    // ETHTOOL_GSSET_INFO one u32 a bit of the mask (one bit is set, one word is
    // there); for GSTRINGS and GSTATS the driver's present count of names or
    // values, for which the caller left room for COUNTER_LIMIT, more than any
    // driver has.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
