//! Buffers of single sockets.

use super::evidence::Key;
use super::ground::{Ground, how, number, numbers, power_from, power_to, signed, within};
use super::memory::{marks, tcp_memory};
use super::{Basis, Proposal};
use crate::catalogue::Sign;
use crate::model::connections::paths::{Class, Declared};
use crate::model::parameters::State;
use crate::read::sysctl::Value;

/// A buffer that limits and of whose path nothing is known gets so many times its size.
const STEP: u64 = 4;
/// No window is larger (RFC 7323), so that no buffer need be.
const LARGEST: u64 = 1 << 30;

/// Which side of a connection a buffer is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// `tcp_wmem`
    Send,
    /// `tcp_rmem`
    Receive,
}

/// A size and where it comes from.
struct Wanted {
    bytes: u64,
    basis: Basis,
    what: String,
    so: String,
}

/// The last number of `tcp_wmem` or `tcp_rmem`: what fills a path, with what a buffer holds
/// besides, where it limits or a declared path does not fit; else a multiple.
pub(super) fn buffer(ground: &Ground<'_>, state: &State, side: Side) -> Option<Proposal> {
    let [min, default, max] = numbers::<3>(state)?;
    let sign = if side == Side::Send { Sign::SendBufferAtMaximum } else { Sign::ReceiveBufferAtMaximum };
    let limited = ground.evidence.sightings(sign, &state.name).map(|(key, seen)| {
        let room = Room::of(ground, side, is_bbr(ground, key.1));
        wanted(ground, key, &seen.what, max, |bytes| room.for_flight(bytes), &room.words)
    });
    let room = Room::of(
        ground,
        side,
        ground.text("net.ipv4.tcp_congestion_control").is_some_and(|name| name.starts_with("bbr")),
    );
    let unfit = ground.paths.0.iter().filter(|path| room.least(in_flight(path)) > max).map(|path| {
        let bytes = in_flight(path);
        Wanted {
            bytes: room.for_flight(bytes),
            basis: Basis::Declared,
            what: format!(
                "path {} is declared to hold {bytes} bytes in flight, which {max} bytes do not",
                path.name
            ),
            so: room.words.clone(),
        }
    });
    let Wanted { bytes, basis, what, so } = limited.chain(unfit).max_by_key(|wanted| wanted.bytes)?;
    let most = carried(ground, side)?.min(LARGEST);
    let (to, basis) = within(power_from(bytes), most, basis);
    let so = format!("{to} is {}", how(basis, &so));
    Some(Proposal::new(Value::Numbers([min, default, to].map(signed).to_vec()), basis, &what, &so))
}

/// What a buffer must be for bytes in flight.
struct Room {
    /// Numerator and denominator.
    factor: [u64; 2],
    /// What it must be at least for these to fit.
    fits: [u64; 2],
    words: String,
}

impl Room {
    fn of(ground: &Ground<'_>, side: Side, is_bbr: bool) -> Self {
        match side {
            // What is sent and not acknowledged, and as much for what follows; bbr lets
            // twice as much be on its way.
            Side::Send => {
                let times = if is_bbr { 3 } else { 2 };
                let words = format!("{times} times what the path holds, as a power of two");
                Self { factor: [times, 1], fits: [2, 1], words }
            }
            Side::Receive => {
                let factor = window_factor(ground);
                let words = format!(
                    "{}/{} of what the path holds, for the window is that much less, as a power of two",
                    factor[0], factor[1]
                );
                Self { factor, fits: factor, words }
            }
        }
    }

    fn for_flight(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.factor[0]) / self.factor[1]
    }

    fn least(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.fits[0]) / self.fits[1]
    }
}

/// How many times the window a receive buffer is (include/net/tcp.h:tcp_win_from_space):
/// up to 6.5 by `tcp_adv_win_scale`, then twice until the kernel has measured more.
fn window_factor(ground: &Ground<'_>) -> [u64; 2] {
    let scale = ground.state("net.ipv4.tcp_adv_win_scale").filter(|_| !ground.is_since(6, 6));
    let scale = match scale.map(|state| &state.value) {
        Some(Value::Numbers(numbers)) => numbers.first().copied(),
        _ => None,
    };
    match scale {
        Some(scale @ 1..=16) => [1 << scale, (1 << scale) - 1],
        Some(scale @ -16..=0) => [1 << -scale, 1],
        _ => [2, 1],
    }
}

fn is_bbr(ground: &Ground<'_>, algorithm: u8) -> bool {
    let name = ground.evidence.sockets.algorithms.get(usize::from(algorithm));
    name.is_some_and(|name| name.starts_with("bbr"))
}

/// Bytes in flight that fill a declared path.
fn in_flight(path: &Declared) -> u64 {
    (path.bandwidth as f64 * path.rtt.as_secs_f64()) as u64
}

/// What a limited connection wants: by the declared path, else by what its path was seen
/// to hold, else a multiple. What is known of a path and is no more than the buffer that
/// limits is too little.
fn wanted(
    ground: &Ground<'_>,
    (path, _): Key,
    seen: &str,
    running: u64,
    room: impl Fn(u64) -> u64,
    words: &str,
) -> Wanted {
    let declared =
        usize::from(path).checked_sub(Class::NAMES.len()).and_then(|place| ground.paths.0.get(place));
    let witnessed = ground.evidence.sockets.witnessed.get(&path).map(|highest| highest.get());
    let known = [
        (declared.map(in_flight), Basis::Declared, "is declared"),
        (witnessed, Basis::Witnessed, "was seen"),
    ];
    for (bytes, basis, verb) in known {
        if let Some(bytes) = bytes.filter(|bytes| power_from(room(*bytes)) > running) {
            let what = format!("{seen}, and the path {verb} to hold {bytes} bytes in flight");
            return Wanted { bytes: room(bytes), basis, what, so: words.to_owned() };
        }
    }
    Wanted {
        bytes: running.saturating_mul(STEP),
        basis: Basis::Repeat,
        what: seen.to_owned(),
        so: format!("a power of two from {STEP} times the running value"),
    }
}

/// The largest buffer of which as many as were seen at the maximum fit in half of what TCP
/// may have before it comes under pressure.
fn carried(ground: &Ground<'_>, side: Side) -> Option<u64> {
    let [pressure, _] = tcp_memory(ground)?;
    let [send, receive] = &ground.evidence.sockets.at_maximum;
    let connections = if side == Side::Send { send } else { receive }.get().max(1);
    Some(pressure / 2 / connections)
}

/// `net.core.wmem_max` or `net.core.rmem_max`: what programs may ask for, of which the
/// kernel makes twice as much.
pub(super) fn limit(ground: &Ground<'_>, state: &State, side: Side) -> Option<Proposal> {
    let running = number(state)?;
    let sign = if side == Side::Send { Sign::SendBufferClamped } else { Sign::ReceiveBufferClamped };
    let connections = ground.evidence.sightings(sign, &state.name).map(|(key, seen)| {
        let room = Room::of(ground, side, is_bbr(ground, key.1));
        let words = format!("half of {}", room.words);
        wanted(ground, key, &seen.what, running, |bytes| room.for_flight(bytes) / 2, &words)
    });
    let datagrams =
        (side == Side::Receive).then(|| ground.evidence.sighting(Sign::DatagramsDroppedAtLimit, &state.name));
    let datagrams = datagrams.flatten().map(|seen| Wanted {
        bytes: running.saturating_mul(STEP),
        basis: Basis::Repeat,
        what: seen.what.clone(),
        so: format!("a power of two from {STEP} times the running value"),
    });
    let Wanted { bytes, basis, what, so } = connections.chain(datagrams).max_by_key(|wanted| wanted.bytes)?;
    let most = carried(ground, side)?.min(LARGEST) / 2;
    let (to, basis) = within(power_from(bytes), most, basis);
    Some(Proposal::number(to, basis, &what, &format!("{to} is {}", how(basis, &so))))
}

/// `net.core.rmem_default`, which every socket gets that asks for nothing and is not TCP's.
pub(super) fn of_datagrams(ground: &Ground<'_>, state: &State, most: u64) -> Option<Proposal> {
    let seen = ground.evidence.sighting(Sign::DatagramsDropped, &state.name)?;
    let (_, page) = ground.memory()?;
    let [_, pressure, _] = marks(ground, "net.ipv4.udp_mem")?;
    let sockets = ground.evidence.sockets.of_default_size.get().max(1);
    let carried = pressure.saturating_mul(page).min(ground.as_many(1, 4)?) / 2 / sockets;
    let wanted = power_from(number(state)?.saturating_mul(STEP)).min(power_to(most));
    let (to, basis) = within(wanted, carried, Basis::Repeat);
    let so = format!(
        "{to} is {}",
        how(basis, &format!("a power of two from {STEP} times the running value, at most {most}"))
    );
    Some(Proposal::number(to, basis, &seen.what, &so))
}
