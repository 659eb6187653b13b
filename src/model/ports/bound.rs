//! Ports that sockets bound before they connected. Such a port serves one
//! connection, whatever the destination; one that connect() chose serves as many
//! as there are destinations. The kernel does not tell how a socket got its port,
//! and IP_BIND_ADDRESS_NO_PORT only excepts some. What tells is chance: had
//! connect() chosen the ports for every destination by itself, some would be used
//! twice.

use std::net::IpAddr;

use hashbrown::HashMap;

use super::set::PortSet;

/// Local addresses that are looked at, 8 KiB each. Sockets come in the order of a
/// hash, so that those of an address that has many are among the first.
const SOURCES: usize = 64;
/// So many ports would be expected to be used twice, where none is, before that is
/// no chance (less than 1 in 10^8).
const EXPECTED: f64 = 20.0;
/// A dump may give a socket twice, when others come or go meanwhile.
const TOLERATED: f64 = 0.02;

/// Ports by local address.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Place in `pool`, whose memory is kept.
    known: HashMap<IpAddr, usize>,
    pool: Vec<Source>,
    /// A socket came of which the kernel does not tell the option.
    undecidable: bool,
}

/// How much is bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Share of the available ports that sockets of one local address hold alone, as those
    /// do that bind before they connect; 0 where no address shows that.
    pub ratio: f64,
    /// Whether the kernel tells which sockets avoid it; where not, all are taken for such
    /// as do not.
    pub is_decided: bool,
}

/// Sockets of a local address that do not have the option, as far as is known.
#[derive(Debug, Default)]
struct Source {
    ports: PortSet,
    sockets: u64,
}

impl Sources {
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.undecidable = false;
    }

    /// Takes in a socket and its IP_BIND_ADDRESS_NO_PORT; true when it counts.
    pub(super) fn observe(&mut self, address: IpAddr, port: u16, flag: Option<bool>) -> bool {
        self.undecidable |= flag.is_none();
        if flag == Some(true) {
            return false;
        }
        let place = match self.known.get(&address) {
            Some(place) => *place,
            None if self.known.len() < SOURCES => self.add(address),
            None => return false,
        };
        let Some(source) = self.pool.get_mut(place) else { return false };
        source.ports.insert(port);
        source.sockets += 1;
        true
    }

    fn add(&mut self, address: IpAddr) -> usize {
        let place = self.known.len();
        match self.pool.get_mut(place) {
            Some(source) => {
                source.ports.clear();
                source.sockets = 0;
            }
            None => self.pool.push(Source::default()),
        }
        self.known.insert(address, place);
        place
    }

    /// The largest share of the available ports that an address's sockets hold, of
    /// those that show no port used twice where it would be expected. `counts` are
    /// sockets by address and destination, each at most `missing` too low.
    pub(super) fn bound(
        &self,
        counts: impl Iterator<Item = (IpAddr, u32)>,
        missing: u32,
        available: u64,
        weight: u64,
    ) -> Bound {
        // Two sockets of one destination never share a port.
        let mut apart: HashMap<IpAddr, f64> = HashMap::new();
        for (address, count) in counts {
            *apart.entry(address).or_default() += (f64::from(count) + f64::from(missing)).powi(2);
        }
        // With one in `weight` ports seen, there are as many fewer to meet on.
        let ports = available as f64 / weight as f64;
        let ratios = self.known.iter().filter_map(|(address, place)| {
            let source = self.pool.get(*place)?;
            let sockets = source.sockets as f64;
            let apart = apart.get(address).copied().unwrap_or_default() + f64::from(missing) * sockets;
            let expected = (sockets * sockets - apart) / 2.0 / ports;
            let held = source.ports.len() as f64;
            let is_bound = expected >= EXPECTED && sockets - held <= TOLERATED * expected;
            is_bound.then_some(held / ports)
        });
        Bound { ratio: ratios.fold(0.0, f64::max), is_decided: !self.undecidable }
    }
}
