//! Where peers are: classes by round trip time, and paths that the user declared.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

/// How far away a peer is, by the least round trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Below 1 ms: this host or its neighbourhood.
    Local,
    /// Below 20 ms.
    Region,
    /// 20 ms and more.
    Long,
}

impl Class {
    /// As in the `class` label, and in `path` where no path is declared.
    pub const NAMES: [&str; 3] = ["local", "region", "long"];

    /// By a round trip time.
    pub fn of(rtt: Duration) -> Self {
        match rtt.as_micros() {
            0..1_000 => Self::Local,
            1_000..20_000 => Self::Region,
            _ => Self::Long,
        }
    }

    /// As in the `class` label.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A path that the user declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// As in the `path` label.
    pub name: String,
    /// Bytes a second that it carries.
    pub bandwidth: u64,
    /// Round trip time of an empty path.
    pub rtt: Duration,
    /// Who is at the other end.
    pub peers: Vec<IpNet>,
}

/// A path by number: one of the classes, then the declared ones.
pub type PathId = u8;

/// All paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths(pub Vec<Declared>);

impl Paths {
    /// How many numbers there are.
    pub fn count(&self) -> usize {
        Class::NAMES.len() + self.0.len()
    }

    /// The path to a peer: the declared one with the longest prefix, else by the
    /// least round trip time in microseconds; `None` where neither is known.
    pub fn of(&self, peer: IpAddr, min_rtt: Option<u32>) -> Option<PathId> {
        let matching = self.0.iter().enumerate().filter_map(|(index, path)| {
            let covers = path.peers.iter().filter(|network| network.contains(&peer));
            Some((covers.map(IpNet::prefix_len).max()?, index))
        });
        match matching.max_by_key(|(length, _)| *length) {
            Some((_, index)) => Some((Class::NAMES.len() + index) as PathId),
            None => min_rtt.map(|rtt| Class::of(Duration::from_micros(rtt.into())) as PathId),
        }
    }

    /// The declared path of this number.
    pub fn declared(&self, path: PathId) -> Option<&Declared> {
        self.0.get(usize::from(path).checked_sub(Class::NAMES.len())?)
    }

    /// Names in the order of the numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        Class::NAMES.into_iter().chain(self.0.iter().map(|path| path.name.as_str()))
    }

    /// Name and class, in the order of the numbers.
    pub fn classes(&self) -> impl Iterator<Item = (&str, Class)> {
        let classes = [Class::Local, Class::Region, Class::Long].map(|class| (class.name(), class));
        let declared = self.0.iter().map(|path| (path.name.as_str(), Class::of(path.rtt)));
        classes.into_iter().chain(declared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, peers: &[&str]) -> Declared {
        Declared {
            name: name.into(),
            bandwidth: 1,
            rtt: Duration::from_millis(100),
            peers: peers.iter().map(|peer| peer.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn the_longest_prefix_wins_over_the_class() {
        let paths = Paths(vec![
            declared("wide", &["192.0.0.0/8", "2001:db8::/32"]),
            declared("near", &["192.0.2.0/24"]),
        ]);
        let of = |peer: &str, rtt| paths.of(peer.parse().unwrap(), rtt);
        assert_eq!(of("192.0.2.7", Some(5)), Some(4));
        assert_eq!(of("192.0.3.7", None), Some(3));
        assert_eq!(of("2001:db8::1", None), Some(3));
        assert_eq!(of("198.51.100.1", Some(999)), Some(0));
        assert_eq!(of("198.51.100.1", Some(1_000)), Some(1));
        assert_eq!(of("198.51.100.1", Some(20_000)), Some(2));
        assert_eq!(of("198.51.100.1", None), None);
        assert_eq!(paths.names().collect::<Vec<_>>(), ["local", "region", "long", "wide", "near"]);
        assert_eq!(paths.classes().nth(3), Some(("wide", Class::Long)));
        assert_eq!((paths.declared(2), paths.declared(4)), (None, paths.0.get(1)));
    }
}
