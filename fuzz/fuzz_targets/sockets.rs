//! Bytes as answers of sock_diag over several passes, to the model and the exposition.
//!
//! The last 16 bytes say how the passes are made. From pass to pass the counters of
//! every tcp_info grow, which mutation alone hardly finds.
#![no_main]

#[path = "../../tests/support/chain.rs"]
mod chain;

use std::time::Duration;

use chain::{Chain, Circumstances};
use nettune::kernel::netlink::messages;

/// Where 64-bit counters of `struct tcp_info` are.
const COUNTERS: [usize; 8] = [120, 128, 160, 168, 176, 184, 200, 208];
const INET_DIAG_MSG: usize = 72;
const INET_DIAG_INFO: u16 = 2;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((bytes, control)) = input.split_last_chunk::<16>() else { return };
    let mut bytes = bytes.to_vec();
    let mut chain = Chain::new();
    let short = |place: usize| u16::from_le_bytes([control[place], control[place + 1]]);
    // From a step of 1 to one that goes over the end of a counter.
    let step = 1u64 << (control[0] & 63) | u64::from(control[1]);
    for pass in 0..2 + control[2] % 4 {
        let of = |place: usize| control[place].rotate_left(pass.into());
        chain.pass(
            &bytes,
            &Circumstances {
                at: Duration::from_secs(u64::from(of(3)) * 5),
                since: Duration::from_millis(u64::from(of(4)) * 100),
                slices: (u16::from(of(5)), u16::from(of(6))),
                range: short(7)..=short(9),
                limit: if of(11) == 255 { u64::MAX } else { 1 << (of(11) % 64) },
                budget: (f64::from(control[12]) / 100.0, Duration::from_millis(of(13).into())),
                round: of(14) & 1 == 0,
                closes: of(15) & 3 == 0,
            },
        );
        grow(&mut bytes, step);
    }
});

fn grow(bytes: &mut [u8], step: u64) {
    let mut infos = Vec::new();
    for message in messages(bytes).map_while(Result::ok) {
        let info = message.attributes(INET_DIAG_MSG).find(|attribute| attribute.kind == INET_DIAG_INFO);
        if let Some(info) = info {
            infos.push((info.value.as_ptr() as usize - bytes.as_ptr() as usize, info.value.len()));
        }
    }
    for (start, length) in infos {
        for offset in COUNTERS {
            if let Some(counter) = bytes[start..start + length].get_mut(offset..offset + 8) {
                let grown = u64::from_ne_bytes(counter.try_into().unwrap()).wrapping_add(step);
                counter.copy_from_slice(&grown.to_ne_bytes());
            }
        }
    }
}
