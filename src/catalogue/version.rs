use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// A kernel release, as far as defaults depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 6 of 6.18.44
    pub major: u32,
    /// 18 of 6.18.44
    pub minor: u32,
}

impl Version {
    /// From the start of a release string: `6.18.44-amd64`, `5.4`.
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.splitn(3, ['.', '-', '+']);
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let version = Self::parse(&text).filter(|version| version.to_string() == text);
        version.ok_or_else(|| de::Error::custom(format!("{text:?} is no release like \"6.18\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("6.18.44-fc") > version("6.6.1"));
        assert_eq!(version("5.15.0-41-generic"), Version { major: 5, minor: 15 });
        assert_eq!(version("3.10.0-1160.el7.x86_64").to_string(), "3.10");
        assert_eq!(Version::parse("linux"), None);
        assert_eq!(Version::parse(""), None);
    }
}
