//! What is remembered of each connection from one pass to the next.
//!
//! There may be half a million, so an entry is as small as it can be: counters are
//! kept to 32 bits where what is added between two passes is surely less, sizes only
//! as closely as it takes to see that they changed. Entries stand in the order in
//! which they were first seen. That is, but for those that come and go, the order in
//! which the kernel gives them again, so that nearly always the next entry is the one
//! that is looked for, and memory is read in a row.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::kernel::sock_diag::TcpInfo;

/// Entries that are allocated at once: few, since a namespace with a handful of
/// connections has a table of its own.
const CHUNK: usize = 64;

/// Counters of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Payload sent, retransmissions as well, bytes.
    pub sent: u64,
    /// Payload received, bytes.
    pub received: u64,
    /// Payload sent again, bytes.
    pub retransmitted: u64,
    /// Segments that the peer reported to have come twice.
    pub spurious: u32,
    /// Microseconds with something to send or not yet acknowledged.
    pub busy: u64,
    /// Microseconds of those stopped by the peer's window.
    pub receive_window: u64,
    /// Microseconds of those waiting for send buffer.
    pub send_buffer: u64,
}

impl Counters {
    /// What the kernel does not tell is 0 and stays so. Before 4.19 acknowledged
    /// bytes stand for sent ones.
    pub fn of(info: &TcpInfo) -> Self {
        Self {
            sent: info.bytes_sent.or(info.bytes_acked).unwrap_or(0),
            received: info.bytes_received.unwrap_or(0),
            retransmitted: info.bytes_retrans.unwrap_or(0),
            spurious: info.dsack_dups.unwrap_or(0),
            busy: info.busy_time.unwrap_or(0),
            receive_window: info.rwnd_limited.unwrap_or(0),
            send_buffer: info.sndbuf_limited.unwrap_or(0),
        }
    }
}

/// What is remembered beside counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notes {
    /// Number of the pass that saw it.
    pub pass: u16,
    /// Congestion window, segments, at most 65,535.
    pub cwnd: u16,
    /// Of the send buffer's size.
    pub sndbuf: u16,
    /// Of the receive buffer's size.
    pub rcvbuf: u16,
    /// Of the peer's window, by [`octave`].
    pub window: u8,
    /// Number of the congestion control algorithm.
    pub algorithm: u8,
    /// What limited it, as its user encodes that.
    pub verdict: u8,
    /// Bits of its user's own.
    pub flags: u8,
}

/// A size, folded into 16 bits: two that differ are nearly always told apart.
pub fn folded(size: u32) -> u16 {
    (size ^ size >> 16) as u16
}

/// Eight steps from one power of two to the next, each of 6 to 12 %: the exponent of the
/// number and the first bits of its fraction.
pub fn octave(size: u32) -> u8 {
    const DROPPED: u32 = f64::MANTISSA_DIGITS - 1 - 3;
    let steps = |size: u32| f64::from(size).to_bits() >> DROPPED;
    (steps(size.max(1)) - steps(1)) as u8
}

/// Fields of 64 bits are cut in two, which spares the alignment.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    cookie: [u32; 2],
    sent: [u32; 2],
    /// In KiB.
    received: u32,
    retransmitted: u32,
    spurious: u32,
    busy: u32,
    receive_window: u32,
    send_buffer: u32,
    notes: Notes,
}

impl Entry {
    fn new(cookie: u64, counters: &Counters, notes: Notes) -> Self {
        Self {
            cookie: halves(cookie),
            sent: halves(counters.sent),
            received: (counters.received >> 10) as u32,
            retransmitted: counters.retransmitted as u32,
            spurious: counters.spurious,
            busy: counters.busy as u32,
            receive_window: counters.receive_window as u32,
            send_buffer: counters.send_buffer as u32,
            notes,
        }
    }

    /// What came since; a count that fell started anew.
    fn change(&self, now: &Counters) -> Counters {
        let sent = whole(self.sent);
        Counters {
            sent: now.sent.checked_sub(sent).unwrap_or(now.sent),
            received: u64::from(((now.received >> 10) as u32).wrapping_sub(self.received)) << 10,
            retransmitted: difference(now.retransmitted, self.retransmitted),
            spurious: now.spurious.checked_sub(self.spurious).unwrap_or(now.spurious),
            busy: difference(now.busy, self.busy),
            receive_window: difference(now.receive_window, self.receive_window),
            send_buffer: difference(now.send_buffer, self.send_buffer),
        }
    }
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// What was added to a counter of which the low half was kept; all it has where it
/// must have started anew.
fn difference(now: u64, before: u32) -> u64 {
    if now < u64::from(before) && now >> 32 == 0 { now } else { (now as u32).wrapping_sub(before).into() }
}

/// What is known of a connection that is seen again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// What came since it was last seen.
    pub change: Counters,
    /// What was noted then.
    pub before: Notes,
}

/// The cookie of a free entry, which no socket has.
pub const NONE: u64 = 0;

/// Entries at places that never move.
#[derive(Debug, Default)]
struct Entries {
    chunks: Vec<Box<[Entry]>>,
    free: Vec<u32>,
}

impl Entries {
    /// The cookie at a place; that of a free one beyond the end.
    fn cookie(&self, place: u32) -> u64 {
        let chunk = self.chunks.get(place as usize / CHUNK);
        chunk.map_or(NONE, |chunk| whole(chunk[place as usize % CHUNK].cookie))
    }

    /// The entry at a place that was given out.
    fn at(&mut self, place: u32) -> &mut Entry {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    fn allocate(&mut self) -> u32 {
        if self.free.is_empty() {
            let start = (self.chunks.len() * CHUNK) as u32;
            self.chunks.push(vec![Entry::default(); CHUNK].into());
            // The first is given out first.
            self.free.extend((start..start + CHUNK as u32).rev());
        }
        self.free.pop().unwrap_or_default()
    }

    fn free(&mut self, place: u32) {
        *self.at(place) = Entry::default();
        self.free.push(place);
    }
}

/// Connections by cookie.
#[derive(Debug)]
pub struct Table {
    /// Places of entries.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    entries: Entries,
    /// The place that was last found.
    last: u32,
    most: usize,
}

impl Table {
    /// For at most `most` connections.
    pub fn new(most: usize) -> Self {
        Self {
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            entries: Entries::default(),
            last: 0,
            most: most.min(1 << 31),
        }
    }

    /// How many are remembered.
    pub fn count(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.count() >= self.most
    }

    /// What is known of a connection whose counters are now these.
    pub fn get(&mut self, cookie: u64, now: &Counters) -> Option<Known> {
        let place = self.place(cookie)?;
        let entry = self.entries.at(place);
        Some(Known { change: entry.change(now), before: entry.notes })
    }

    /// Remembers a connection as it is now; false where there is no room, or it has no
    /// cookie.
    pub fn put(&mut self, cookie: u64, now: &Counters, notes: Notes) -> bool {
        let place = match self.place(cookie) {
            Some(place) => place,
            None if cookie == NONE || self.is_full() => return false,
            None => self.insert(cookie),
        };
        *self.entries.at(place) = Entry::new(cookie, now, notes);
        true
    }

    /// Forgets a connection, and gives what is known of it.
    pub fn take(&mut self, cookie: u64, now: &Counters) -> Option<Known> {
        let known = self.get(cookie, now)?;
        let Self { index, entries, .. } = self;
        let found = index.find_entry(self.hasher.hash_one(cookie), |place| entries.cookie(*place) == cookie);
        if let Ok(occupied) = found {
            let (place, _) = occupied.remove();
            entries.free(place);
        }
        Some(known)
    }

    /// Forgets those whose last pass is not to be kept.
    pub fn retain(&mut self, keep: impl Fn(u16) -> bool) {
        let Self { index, entries, .. } = self;
        index.retain(|place| {
            let kept = keep(entries.at(*place).notes.pass);
            if !kept {
                entries.free(*place);
            }
            kept
        });
        if index.is_empty() {
            // Memory of a crowd that has gone goes back.
            *entries = Entries::default();
            *index = HashTable::new();
        }
    }

    fn place(&mut self, cookie: u64) -> Option<u32> {
        if cookie == NONE {
            return None;
        }
        let Self { index, entries, .. } = self;
        // The one that was looked at is put next; then comes the one behind it.
        let nearby = [self.last, self.last + 1].into_iter().find(|place| entries.cookie(*place) == cookie);
        let place = match nearby {
            Some(place) => place,
            None => {
                let hash = self.hasher.hash_one(cookie);
                *index.find(hash, |place| entries.cookie(*place) == cookie)?
            }
        };
        self.last = place;
        Some(place)
    }

    fn insert(&mut self, cookie: u64) -> u32 {
        let Self { index, entries, hasher, .. } = self;
        let place = entries.allocate();
        entries.at(place).cookie = halves(cookie);
        let hash = hasher.hash_one(cookie);
        index.insert_unique(hash, place, |place| hasher.hash_one(entries.cookie(*place)));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sent: u64) -> Counters {
        Counters { sent, ..Counters::default() }
    }

    #[test]
    fn an_entry_with_its_place_in_the_index_takes_64_bytes_at_most() {
        // A place takes 4 bytes and one of control; the index is at worst 7/16 full,
        // just after it doubled.
        assert!(size_of::<Entry>() as f64 + 5.0 * 16.0 / 7.0 <= 64.0, "{}", size_of::<Entry>());
    }

    #[test]
    fn changes_are_since_the_last_time() {
        let mut table = Table::new(10);
        assert_eq!(table.get(7, &sent(5)), None);
        let notes = Notes { pass: 3, cwnd: 10, ..Notes::default() };
        assert!(table.put(7, &sent(u64::MAX - 9), notes));
        let known = table.get(7, &sent(u64::MAX)).unwrap();
        assert_eq!((known.change, known.before), (sent(9), notes));
        // What fell started anew.
        assert_eq!(table.get(7, &sent(4)).unwrap().change, sent(4));
        assert_eq!(table.take(7, &sent(u64::MAX)).map(|known| known.change), Some(sent(9)));
        assert_eq!((table.get(7, &sent(0)), table.count()), (None, 0));
    }

    #[test]
    fn counters_kept_by_their_low_half_go_over_its_end() {
        let of =
            |number: u64| Counters { busy: number, retransmitted: number, received: number << 10, ..sent(0) };
        let mut table = Table::new(10);
        table.put(1, &of((1 << 32) - 2), Notes::default());
        assert_eq!(table.get(1, &of((1 << 32) + 3)).unwrap().change, of(5));
        table.put(1, &of(9), Notes::default());
        assert_eq!(table.get(1, &of(4)).unwrap().change.busy, 4);
    }

    #[test]
    fn a_full_table_takes_no_more_and_forgets_what_is_not_kept() {
        let mut table = Table::new(2);
        let pass = |pass| Notes { pass, ..Notes::default() };
        assert!(table.put(1, &sent(1), pass(1)) && table.put(2, &sent(2), pass(2)));
        assert!(!table.put(3, &sent(3), pass(2)));
        assert!(table.put(2, &sent(2), pass(2)));
        table.retain(|pass| pass == 2);
        assert_eq!((table.count(), table.get(1, &sent(1))), (1, None));
        assert!(table.put(3, &sent(3), pass(2)));
        table.retain(|_| false);
        assert!(table.count() == 0 && table.put(4, &sent(1), pass(1)));
    }

    #[test]
    fn what_has_no_cookie_is_not_taken_for_a_free_entry() {
        let mut table = Table::new(10);
        for _ in 0..2 {
            assert_eq!((table.get(NONE, &sent(1)), table.take(NONE, &sent(1))), (None, None));
            assert!(!table.put(NONE, &sent(1), Notes::default()) && table.count() == 0);
            assert!(table.put(u64::MAX, &sent(1), Notes::default()));
            assert_eq!(table.take(u64::MAX, &sent(3)).map(|known| known.change), Some(sent(2)));
        }
    }

    /// Many come and go in any order; a plain map says what must be known.
    #[test]
    fn it_agrees_with_a_map() {
        let mut table = Table::new(usize::MAX);
        let mut map = std::collections::HashMap::new();
        let mut random = 1u64;
        for step in 0..200_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let cookie = 1 + (random >> 33) % 20_000;
            let (now, before) = (sent(step), map.get(&cookie).copied());
            let known = if random >> 60 == 0 {
                map.remove(&cookie);
                table.take(cookie, &now)
            } else {
                let known = table.get(cookie, &now);
                map.insert(cookie, step);
                assert!(table.put(cookie, &now, Notes::default()));
                known
            };
            assert_eq!(known.map(|known| known.change.sent), before.map(|before| step - before));
        }
        assert_eq!(table.count(), map.len());
    }

    #[test]
    fn sizes_are_told_apart_as_far_as_needed() {
        assert_ne!(folded(87_380), folded(131_072));
        assert_eq!((octave(0), octave(65_536), octave(u32::MAX)), (0, 128, 255));
        assert!(octave(110_000) - octave(100_000) <= 2);
    }
}
