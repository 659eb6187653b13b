//! Declared paths in the configuration file.

use std::fmt;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::catalogue::{FromText, Text};
use crate::cli::duration;
use crate::model::connections::Paths;
use crate::model::connections::paths::{Class, Declared};

/// Most paths: each has series of its own.
const MOST: usize = 16;
/// Most networks of a path: each connection is compared with all of them.
const MOST_PEERS: usize = 256;

/// All of them.
#[derive(Debug)]
pub(super) struct DeclaredPaths(Vec<Fields>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping with name, bandwidth, rtt and peers")]
struct Fields {
    name: Text<Name>,
    bandwidth: Text<Bandwidth>,
    rtt: Text<Rtt>,
    peers: Peers,
}

impl DeclaredPaths {
    pub(super) fn paths(&self) -> Paths {
        let declared = self.0.iter().map(|path| Declared {
            name: path.name.0.0.clone(),
            bandwidth: path.bandwidth.0.0,
            rtt: path.rtt.0.0,
            peers: path.peers.0.clone(),
        });
        Paths(declared.collect())
    }
}

impl<'de> Deserialize<'de> for DeclaredPaths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PathsVisitor)
    }
}

struct PathsVisitor;

impl<'de> Visitor<'de> for PathsVisitor {
    type Value = DeclaredPaths;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of paths")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut paths: A) -> Result<DeclaredPaths, A::Error> {
        let mut found = Vec::new();
        while let Some(path) = paths.next_element_seed(AfterOthers(&found))? {
            found.push(path);
        }
        Ok(DeclaredPaths(found))
    }
}

/// A path, which must agree with those before it. It is checked where it stands: the
/// sequence as a whole would be the place of every error.
struct AfterOthers<'a>(&'a [Fields]);

impl<'de> DeserializeSeed<'de> for AfterOthers<'_> {
    type Value = Fields;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AfterOthers<'_> {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping with name, bandwidth, rtt and peers")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fields, A::Error> {
        let path = Fields::deserialize(MapAccessDeserializer::new(map))?;
        let Self(others) = self;
        if others.len() == MOST {
            return Err(A::Error::custom(format!("more than {MOST} paths")));
        }
        for other in others {
            let name = &other.name.0.0;
            if *name == path.name.0.0 {
                return Err(A::Error::custom(format!("two paths are called `{name}`")));
            }
            if let Some(peer) = path.peers.0.iter().find(|peer| other.peers.0.contains(peer)) {
                return Err(A::Error::custom(format!("{peer} is a peer of `{name}` already")));
            }
        }
        Ok(path)
    }
}

/// The networks of a path, each once.
#[derive(Debug)]
struct Peers(Vec<IpNet>);

impl<'de> Deserialize<'de> for Peers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PeersVisitor)
    }
}

struct PeersVisitor;

impl<'de> Visitor<'de> for PeersVisitor {
    type Value = Peers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of networks such as 192.0.2.0/24")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut peers: A) -> Result<Peers, A::Error> {
        let mut found = Vec::new();
        while let Some(Text(Peer(peer))) = peers.next_element()? {
            if found.contains(&peer) {
                return Err(A::Error::custom(format!("{peer} is there twice")));
            }
            found.push(peer);
            if found.len() > MOST_PEERS {
                return Err(A::Error::custom(format!("more than {MOST_PEERS} networks")));
            }
        }
        if found.is_empty() {
            return Err(A::Error::custom("a path needs at least one network"));
        }
        Ok(Peers(found))
    }
}

#[derive(Debug)]
struct Name(String);

impl FromText for Name {
    const EXPECTED: &'static str = "a name";

    fn from_text(text: &str) -> Result<Self, String> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !fits {
            return Err(format!(
                "`{text}` is no name: at most 64 letters, digits, dashes, dots and underscores"
            ));
        }
        if Class::NAMES.contains(&text) {
            return Err(format!("`{text}` is the name of a class of paths that are not declared"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Bytes a second.
#[derive(Debug)]
pub(super) struct Bandwidth(pub(super) u64);

impl FromText for Bandwidth {
    const EXPECTED: &'static str = "a bandwidth such as 500Mbit/s";

    fn from_text(text: &str) -> Result<Self, String> {
        let units = [("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
        let found = units.into_iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
        let bits = found.and_then(|(number, bits)| Some(number.trim().parse::<f64>().ok()? * bits));
        // From a modem to ten times what the fastest port carries.
        match bits.filter(|bits| (1e3..=1e13).contains(bits)) {
            Some(bits) => Ok(Self((bits / 8.0) as u64)),
            None => Err(format!(
                "`{text}` is no bandwidth: expected a number with kbit/s, Mbit/s or Gbit/s, such as 500Mbit/s"
            )),
        }
    }
}

#[derive(Debug)]
struct Rtt(Duration);

impl FromText for Rtt {
    const EXPECTED: &'static str = "a round trip time such as 80ms";

    fn from_text(text: &str) -> Result<Self, String> {
        let allowed = Duration::from_millis(1)..=Duration::from_secs(10);
        match duration(text).filter(|rtt| allowed.contains(rtt)) {
            Some(rtt) => Ok(Self(rtt)),
            None => Err(format!("`{text}` is no round trip time between 1ms and 10s, such as 80ms")),
        }
    }
}

#[derive(Debug)]
struct Peer(IpNet);

impl FromText for Peer {
    const EXPECTED: &'static str = "a network such as 192.0.2.0/24";

    fn from_text(text: &str) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse().map(|address: std::net::IpAddr| address.into()));
        let network = network.map_err(|_| format!("`{text}` is no network, such as 192.0.2.0/24"))?;
        if IpNet::trunc(&network) != network {
            return Err(format!("`{text}` has bits beyond its prefix: did you mean {}?", network.trunc()));
        }
        // Peers of that kind are known by their IPv4 address.
        if let IpNet::V6(six) = network
            && let Some(four) = six.addr().to_ipv4_mapped()
            && let Some(length) = six.prefix_len().checked_sub(96)
        {
            return Err(format!("`{text}` is IPv4 written as IPv6: did you mean {four}/{length}?"));
        }
        Ok(Self(network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [&str; 4] = ["a", "500Mbit/s", "80ms", "[192.0.2.0/24, 2001:db8::/32]"];

    fn path([name, bandwidth, rtt, peers]: [&str; 4]) -> String {
        format!("- name: {name}\n  bandwidth: {bandwidth}\n  rtt: {rtt}\n  peers: {peers}\n")
    }

    fn parse(text: &str) -> Result<Paths, String> {
        let parsed = serde_yaml::from_str::<DeclaredPaths>(text);
        parsed.map(|found| found.paths()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_path_is_read() {
        let expected = Declared {
            name: "a".into(),
            bandwidth: 62_500_000,
            rtt: Duration::from_millis(80),
            peers: ["192.0.2.0/24", "2001:db8::/32"].map(|peer| peer.parse().unwrap()).into(),
        };
        assert_eq!(parse(&path(GOOD)), Ok(Paths(vec![expected])));
        assert_eq!(parse("[]"), Ok(Paths::default()));
        // One within the other is what the longest prefix is for.
        let inner = ["b", "1.5 Gbit/s", "1m", "[192.0.2.7, 2001:db8::7]"];
        let inner = path([inner[0], inner[1], "1s", inner[3]]);
        assert_eq!(parse(&(path(GOOD) + &inner)).map(|paths| paths.0.len()), Ok(2));
    }

    /// One line of one item is wrong: the error names both, and what was expected.
    #[test]
    fn nonsense_is_refused_where_it_stands() {
        let long = "x".repeat(65);
        let many = format!(
            "[{}]",
            (0..=MOST_PEERS).map(|n| format!("10.{}.{}.0/24, ", n / 256, n % 256)).collect::<String>()
        );
        let names = ["''", "~", "[a]", "{}", "näme", "a b", "\"a\\nb\"", "local", "region", "long", &long];
        let bandwidths = [
            "-1",
            "0",
            "500",
            "null",
            "true",
            ".inf",
            "{}",
            "-1Mbit/s",
            "0Mbit/s",
            "infMbit/s",
            "NaNMbit/s",
            "1e999Gbit/s",
            "99999999999999999999Gbit/s",
            "500mbit/s",
            "500MB/s",
        ];
        let rtts = ["0", "0ms", "80", "-80ms", "80µs", "11s", "99999999999999999999ms", "null", "[]"];
        let peers = [
            "[]",
            "null",
            "192.0.2.0/24",
            "[192.0.2.1/24]",
            "[192.0.2.0/33]",
            "[host.example]",
            "[null]",
            "[1]",
            "['fe80::1%eth0']",
            "['::ffff:192.0.2.0/120']",
            "[192.0.2.7, 192.0.2.7/32]",
            &many,
        ];
        let items = [("name", &names[..]), ("bandwidth", &bandwidths), ("rtt", &rtts), ("peers", &peers)];
        for (place, (item, values)) in items.into_iter().enumerate() {
            for value in values {
                let mut fields = GOOD;
                fields[place] = value;
                let error = parse(&path(fields)).expect_err(value);
                assert!(error.starts_with(&format!(".[0].{item}")), "{value}: {error}");
                assert!(error.contains(&format!("at line {} column", place + 1)), "{value}: {error}");
            }
        }
        let wrong = parse(&path(["a", "500Mbit/s", "0", "[192.0.2.0/24]"])).unwrap_err();
        assert_eq!(
            wrong,
            ".[0].rtt: `0` is no round trip time between 1ms and 10s, such as 80ms at line 3 column 8"
        );
    }

    #[test]
    fn paths_agree_with_each_other() {
        let other = |name: &str, peers: &str| path([name, GOOD[1], GOOD[2], peers]);
        let both = |second: String| parse(&(path(GOOD) + &second)).unwrap_err();
        assert_eq!(
            both(other("a", "[198.51.100.0/24]")),
            ".[1]: two paths are called `a` at line 5 column 3"
        );
        assert_eq!(
            both(other("b", "[198.51.100.0/24, '2001:db8::/32']")),
            ".[1]: 2001:db8::/32 is a peer of `a` already at line 5 column 3"
        );
        let many: String =
            (0..17).map(|number| other(&format!("p{number}"), &format!("[10.0.{number}.0/24]"))).collect();
        assert_eq!(parse(&many).unwrap_err(), ".[16]: more than 16 paths at line 65 column 3");
    }
}
