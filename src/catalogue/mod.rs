//! What is known of every parameter, and what the rules can say, as data:
//! `parameters.yaml` and `diagnoses.yaml`, embedded, typed and checked. Uses no other
//! module.

mod checked;
pub mod diagnoses;
mod recommendation;
pub mod text;
mod unique;
mod version;

use std::sync::LazyLock;

use serde::Deserialize;

pub use checked::{FromText, Text};
pub use diagnoses::DIAGNOSES;
pub use recommendation::{Formula, Sign};
pub use unique::unique;
pub use version::Version;

/// The catalogue that this build carries.
pub static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    // Invariant: a test parses and checks the embedded file.
    Catalogue::parse(include_str!("parameters.yaml")).expect("the embedded catalogue is valid")
});

/// Everything known of the parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Raised whenever rules may depend on something new in it.
    pub version: u32,
    /// In the order of the file.
    pub parameters: Vec<Parameter>,
}

/// One parameter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Name with dots; `*` stands for an interface; `nic.*` and `dev.*` have no
    /// sysctl file.
    pub name: String,
    /// What its value is made of.
    pub kind: Kind,
    /// Names of the integers of [`Kind::Ints`], in order.
    #[serde(default)]
    pub fields: Vec<String>,
    /// What one unit of the value is.
    pub unit: String,
    /// Who has a value of its own.
    pub scope: Scope,
    /// Which integers Linux 6.18 lets be written, where those of 32 bits are not the
    /// limits.
    pub accepts: Option<Accepts>,
    /// First mainline release that takes others.
    pub accepts_until: Option<Version>,
    /// First mainline release that has it.
    pub since: Option<Version>,
    /// First mainline release without it.
    pub removed: Option<Version>,
    /// First release in which it is present and without effect.
    pub inert_since: Option<Version>,
    /// The kernel never lets it be written.
    #[serde(default)]
    pub read_only: bool,
    /// The module that must be loaded for it to exist.
    pub module: Option<String>,
    /// What an untouched kernel uses, by release.
    pub default: Vec<Default>,
    /// How a value to recommend is found, the better evidence first.
    #[serde(default)]
    pub recommendation: Vec<Formula>,
    /// How much care a change takes.
    pub tier: Tier,
    /// When a new value bites.
    pub effect: Effect,
    /// What it really limits.
    pub bounds: String,
    /// What goes wrong with it.
    pub cautions: String,
    /// Values that lists of settings give, whatever the host.
    #[serde(default)]
    pub quoted: Vec<String>,
    /// What such lists get wrong about it.
    pub myth: Option<String>,
    /// How it is kept across a reboot.
    pub persist: Persist,
    /// Kernel files, documents and commits it was read in.
    pub sources: Vec<String>,
}

/// Integers that may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Accepts {
    /// The least and the greatest.
    Between([i64; 2]),
    /// By the tick rate.
    Rule(AcceptsRule),
}

/// Integers that may be written, where the tick rate decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcceptsRule {
    /// Seconds, as many as fit into 32 bits as timer ticks.
    Ticks,
    /// Microseconds, two timer ticks or more.
    TwoTicks,
}

/// What a value is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One integer.
    Int,
    /// Several integers, named by `fields`.
    Ints,
    /// A word, a list or a mask.
    Text,
    /// No sysctl file: a property of a device.
    Object,
}

/// Who has a value of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every network namespace.
    Namespace,
    /// The host: absent or read-only outside the initial network namespace.
    Initial,
    /// Every network device.
    Device,
}

/// How much care a change takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A diagnosis may tell people to change it.
    Essential,
    /// Rarely, with evidence.
    Advanced,
    /// A wrong value breaks connections or the host.
    Dangerous,
}

/// When a new value bites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// For everything, from now on.
    AtOnce,
    /// For connections that are opened from now on.
    NewConnections,
    /// For sockets that are made from now on.
    NewSockets,
    /// When a program calls listen() again.
    NextListen,
    /// For devices, or queueing disciplines, that are made from now on.
    NewDevices,
    /// For network namespaces that are made from now on.
    NewNamespaces,
    /// When something is reloaded.
    Reload,
    /// Never.
    None,
}

/// How a value is kept across a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Persist {
    /// A line below sysctl.d.
    Sysctl,
    /// A module that is loaded first, and a line below sysctl.d.
    ModuleAndSysctl,
    /// Settings of the device.
    Device,
    /// Not at all.
    None,
}

/// What an untouched kernel of some releases uses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Default {
    /// First release it holds for.
    pub since: Option<Version>,
    /// First release it no longer holds for.
    pub until: Option<Version>,
    /// One integer.
    pub value: Option<i64>,
    /// Several integers.
    pub values: Option<Vec<i64>>,
    /// A text.
    pub text: Option<String>,
    /// A derivation from the host.
    pub rule: Option<Rule>,
}

impl Default {
    /// Whether it holds for a kernel of this release.
    pub fn holds_for(&self, release: Version) -> bool {
        self.since.is_none_or(|since| release >= since) && self.until.is_none_or(|until| release < until)
    }
}

/// How a default follows from the host. Each is computed in `model/defaults.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// Buckets of the TCP established hash by `divisor`, at least `minimum`.
    EstablishedHash {
        /// Buckets for each unit.
        divisor: i64,
        /// The least value.
        minimum: i64,
    },
    /// `tcp_mem`: a sixteenth of the pages for buffers, and 3/4 and 3/2 of it.
    TcpMemory,
    /// `udp_mem`: an eighth of the pages for buffers, and 3/4 and 3/2 of it.
    UdpMemory,
    /// `tcp_rmem`
    TcpReceiveBuffer {
        /// The middle value.
        default: i64,
        /// The most the last value can be.
        cap: i64,
    },
    /// `tcp_wmem`
    TcpSendBuffer {
        /// The most the last value can be.
        cap: i64,
    },
    /// 256 times the size in memory of a 256-byte packet.
    SocketBuffer,
    /// Hash buckets of connection tracking, by memory.
    ConntrackBuckets {
        /// Buckets on a 64-bit host with more than 4 GiB.
        per_gib4: i64,
        /// The least number of buckets.
        least: i64,
    },
    /// Buckets by a factor.
    ConntrackMax {
        /// Entries for each bucket.
        factor: i64,
    },
    /// Expectations: 4 for every 256 buckets.
    ConntrackExpectMax,
    /// Two timer ticks, microseconds.
    TwoJiffiesUsecs,
    /// The unit in which socket memory is accounted, bytes.
    MemoryQuantum,
}

impl Catalogue {
    /// Parses and checks a catalogue.
    ///
    /// # Errors
    /// The first field that is unknown, of a wrong type or contradicts another,
    /// with line or parameter.
    pub fn parse(yaml: &str) -> Result<Self, String> {
        let catalogue: Self = serde_yaml::from_str(yaml).map_err(|error| error.to_string())?;
        for (index, parameter) in catalogue.parameters.iter().enumerate() {
            let problem = parameter.problem().or_else(|| {
                let earlier = &catalogue.parameters[..index];
                earlier.iter().any(|other| other.name == parameter.name).then_some("name: twice in the file")
            });
            if let Some(problem) = problem {
                return Err(format!("{}: {problem}", parameter.name));
            }
        }
        Ok(catalogue)
    }

    /// The parameter of this name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// That of this name, or of this name of one interface's.
    pub fn of(&self, name: &str) -> Option<&Parameter> {
        self.get(name).or_else(|| {
            self.parameters.iter().find(|known| {
                let parts = known.name.split_once('*');
                parts.is_some_and(|(before, after)| {
                    name.len() > before.len() + after.len()
                        && name.starts_with(before)
                        && name.ends_with(after)
                })
            })
        })
    }
}

impl Parameter {
    /// Path below `/proc/sys`, with `*` for an interface; `None` for objects.
    pub fn path(&self) -> Option<String> {
        (self.kind != Kind::Object).then(|| self.name.replace('.', "/"))
    }

    /// The least and the greatest integer that may be written where the timer ticks `hz`
    /// times a second.
    pub fn accepted(&self, hz: i64) -> [i64; 2] {
        const MOST: i64 = i32::MAX as i64;
        match self.accepts {
            Some(Accepts::Between(bounds)) => bounds,
            // As ticks they have to fit (kernel/time/jiffies.c:proc_dointvec_jiffies).
            Some(Accepts::Rule(AcceptsRule::Ticks)) => {
                let seconds = MOST / hz.max(1);
                [-seconds, seconds]
            }
            // net/core/sysctl_net_core.c:netdev_budget_usecs_min
            Some(Accepts::Rule(AcceptsRule::TwoTicks)) => [2_000_000_i64.checked_div(hz).unwrap_or(0), MOST],
            None => [i32::MIN.into(), MOST],
        }
    }

    /// The last part of the name, or all of it where several end alike.
    pub fn short_name(&self) -> &str {
        let last = |name: &'_ str| name.rsplit_once('.').map_or(0, |(head, _)| head.len() + 1);
        let own = &self.name[last(&self.name)..];
        let alike = CATALOGUE.parameters.iter().filter(|other| &other.name[last(&other.name)..] == own);
        if alike.count() > 1 { &self.name } else { own }
    }

    /// What its fields contradict.
    fn problem(&self) -> Option<&'static str> {
        let needs_fields = self.kind == Kind::Ints;
        if needs_fields == self.fields.is_empty() {
            return Some("fields: needed for kind ints, and only there");
        }
        if self.sources.is_empty() {
            return Some("sources: none given");
        }
        self.default.iter().find_map(|row| self.default_problem(row))
    }

    fn default_problem(&self, row: &Default) -> Option<&'static str> {
        let forms = [row.value.is_some(), row.values.is_some(), row.text.is_some(), row.rule.is_some()];
        if forms.iter().filter(|form| **form).count() != 1 {
            return Some("default: exactly one of value, values, text and rule is needed");
        }
        if row.values.as_ref().is_some_and(|values| values.len() != self.fields.len()) {
            return Some("default: values are as many as fields");
        }
        let wrong = match self.kind {
            Kind::Int | Kind::Object => row.values.is_some() || row.text.is_some(),
            Kind::Ints => row.value.is_some() || row.text.is_some(),
            Kind::Text => row.text.is_none(),
        };
        wrong.then_some("default: of another kind than the parameter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "version: 1\nparameters:\n  - name: a.b\n    kind: int\n    unit: u\n    scope: namespace\n    \
        default: [{value: 1}]\n    tier: advanced\n    effect: at_once\n    bounds: b\n    cautions: c\n    \
        persist: sysctl\n    sources: [\"x\"]\n";

    #[test]
    fn the_embedded_catalogue_is_valid() {
        let catalogue = Catalogue::parse(include_str!("parameters.yaml")).unwrap();
        assert!(catalogue.get("net.core.somaxconn").is_some());
    }

    #[test]
    fn contradictions_are_refused_with_their_place() {
        assert!(Catalogue::parse(ENTRY).is_ok());
        let cases = [
            ("    unit: u", "    unit: u\n    unlt: v", "unlt"),
            ("kind: int", "kind: number", "number"),
            ("kind: int", "kind: ints", "a.b: fields"),
            ("[{value: 1}]", "[{value: x}]", "default"),
            ("[{value: 1}]", "[{text: x}]", "a.b: default: of another kind"),
            ("[{value: 1}]", "[{}]", "a.b: default: exactly one"),
            ("[\"x\"]", "[]", "a.b: sources"),
            ("scope: namespace", "scope: namespace\n    since: \"six\"", "six"),
        ];
        for (from, to, expected) in cases {
            let error = Catalogue::parse(&ENTRY.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
        let twice = ENTRY.to_owned() + ENTRY.split_once("parameters:\n").unwrap().1;
        assert_eq!(Catalogue::parse(&twice).unwrap_err(), "a.b: name: twice in the file");
    }
}
