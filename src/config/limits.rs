//! Limits that the host cannot know, in the configuration file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::path::Bandwidth;
use crate::catalogue::{FromText, Text, unique};
use crate::cli::duration;
use crate::model::DeclaredLimits;

/// What devices and middleboxes allow.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping with devices or idle_timeout")]
pub(super) struct Declared {
    #[serde(default, deserialize_with = "unique")]
    devices: BTreeMap<String, Text<Bandwidth>>,
    idle_timeout: Option<Text<IdleTimeout>>,
}

impl Declared {
    pub(super) fn limits(&self) -> DeclaredLimits {
        DeclaredLimits {
            devices: self.devices.iter().map(|(name, speed)| (name.clone(), speed.0.0)).collect(),
            idle_timeout: self.idle_timeout.as_ref().map(|timeout| timeout.0.0),
        }
    }
}

/// After this time without a packet something on the way forgets a connection.
#[derive(Debug)]
struct IdleTimeout(Duration);

impl FromText for IdleTimeout {
    const EXPECTED: &'static str = "a duration such as 900s";

    fn from_text(text: &str) -> Result<Self, String> {
        let found = duration(text).filter(|timeout| *timeout >= Duration::from_secs(1));
        found.map(Self).ok_or_else(|| format!("`{text}` is no duration of a second or more, such as 900s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DeclaredLimits, String> {
        serde_yaml::from_str::<Declared>(text).map(|found| found.limits()).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_read() {
        let found = parse("devices: {eth0: 1Gbit/s}\nidle_timeout: 15m").unwrap();
        assert_eq!(found.devices, [("eth0".to_owned(), 125_000_000)]);
        assert_eq!(found.idle_timeout, Some(Duration::from_secs(900)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "devices: {eth0: fast}",
            "devices: {eth0: 1Gbit/s, eth0: 2Gbit/s}",
            "idle_timeout: 0s",
            "idle: 5s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
