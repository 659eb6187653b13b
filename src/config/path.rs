//! Declared paths in the configuration file.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use crate::cli::duration;
use crate::model::connections::Paths;
use crate::model::connections::paths::{Class, Declared};

/// Most paths: each has series of its own.
const MOST: usize = 16;

/// All of them.
#[derive(Debug)]
pub(super) struct DeclaredPaths(Vec<Fields>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping with name, bandwidth, rtt and peers")]
struct Fields {
    name: Text<Name>,
    bandwidth: Text<Bandwidth>,
    rtt: Text<Rtt>,
    peers: Vec<Text<Peer>>,
}

impl DeclaredPaths {
    pub(super) fn paths(&self) -> Paths {
        let declared = self.0.iter().map(|path| Declared {
            name: path.name.0.0.clone(),
            bandwidth: path.bandwidth.0.0,
            rtt: path.rtt.0.0,
            peers: path.peers.iter().map(|peer| peer.0.0).collect(),
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
        let mut names = BTreeSet::new();
        while let Some(path) = paths.next_element::<Fields>()? {
            let name = &path.name.0.0;
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("two paths are called `{name}`")));
            }
            found.push(path);
            if found.len() > MOST {
                return Err(A::Error::custom(format!("more than {MOST} paths")));
            }
        }
        Ok(DeclaredPaths(found))
    }
}

/// A value that is written as text, and checked where it stands.
trait FromText: Sized {
    /// What is expected, after "expected".
    const EXPECTED: &'static str;

    /// The value, or what is wrong with it.
    fn from_text(text: &str) -> Result<Self, String>;
}

#[derive(Debug)]
struct Text<T>(T);

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(PhantomData))
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: FromText> Visitor<'_> for TextVisitor<T> {
    type Value = Text<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text<T>, E> {
        T::from_text(text).map(Text).map_err(E::custom)
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
struct Bandwidth(u64);

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
        Ok(Self(network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Paths, String> {
        serde_yaml::from_str::<DeclaredPaths>(text)
            .map(|found| found.paths())
            .map_err(|error| error.to_string())
    }

    fn one(name: &str, bandwidth: &str, rtt: &str, peers: &str) -> String {
        format!("- {{name: {name}, bandwidth: {bandwidth}, rtt: {rtt}, peers: {peers}}}\n")
    }

    #[test]
    fn a_path_is_read() {
        let found = parse(&one("far", "500Mbit/s", "100ms", "[192.0.2.0/24, '2001:db8::1']")).unwrap();
        let expected = Declared {
            name: "far".into(),
            bandwidth: 62_500_000,
            rtt: Duration::from_millis(100),
            peers: vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::1/128".parse().unwrap()],
        };
        assert_eq!(found.0, [expected]);
        let fraction = parse(&one("f", "2.5 Gbit/s", "1s", "[]")).unwrap();
        assert_eq!(fraction.0[0].bandwidth, 312_500_000);
    }

    #[test]
    fn what_is_wrong_is_said_where_it_stands() {
        let good = ("far", "1Mbit/s", "10ms", "[192.0.2.0/24]");
        let (name, bandwidth, rtt, peers) = good;
        for (text, expected) in [
            (one("local", bandwidth, rtt, peers), "[0].name: `local` is the name of a class"),
            (one("'a b'", bandwidth, rtt, peers), "[0].name: `a b` is no name"),
            (one(name, "500M", rtt, peers), "[0].bandwidth: `500M` is no bandwidth"),
            (one(name, "-1Mbit/s", rtt, peers), "[0].bandwidth: `-1Mbit/s` is no bandwidth"),
            (one(name, "NaNMbit/s", rtt, peers), "[0].bandwidth: `NaNMbit/s` is no bandwidth"),
            (one(name, bandwidth, "0ms", peers), "[0].rtt: `0ms` is no round trip time"),
            (one(name, bandwidth, rtt, "[192.0.2.1/24]"), "did you mean 192.0.2.0/24?"),
            (one(name, bandwidth, rtt, "[example.org]"), "[0].peers[0]: `example.org` is no network"),
            (one(name, bandwidth, rtt, peers).repeat(2), "two paths are called `far`"),
            ("- {name: far}\n".into(), "missing field `bandwidth`"),
            ("far\n".into(), "expected a sequence of paths"),
        ] {
            let problem = parse(&text).expect_err(&text);
            assert!(problem.contains(expected), "{text:?}: {problem}");
        }
        let many: String =
            (0..=MOST).map(|number| one(&format!("p{number}"), bandwidth, rtt, peers)).collect();
        assert!(parse(&many).unwrap_err().contains("more than 16 paths"));
    }
}
