//! Other network namespaces: what each goes by, which are served, and what was read.

mod names;
mod roster;

use std::sync::Arc;
use std::time::Instant;

use super::Snapshot;

pub use roster::{Chosen, LIMIT, NEW_NAMES, Roster};

/// Which other network namespaces are served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Others {
    /// None.
    #[default]
    None,
    /// All that are found.
    All,
    /// Those of these names.
    Named(Vec<String>),
}

impl Others {
    fn include(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(names) => names.iter().any(|known| known == name),
        }
    }
}

/// One of them, as it was last read.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// What it goes by, and how to enter it.
    pub place: Arc<Place>,
    /// When that was.
    pub at: Instant,
    /// When connections were last passed over, if there are any.
    pub passed: Option<Instant>,
    /// What was found.
    pub snapshot: Arc<Snapshot>,
}

/// What a namespace goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// A name that no other one has now.
    pub name: String,
    /// Its inode number.
    pub inode: u64,
    /// What a command is preceded by to run inside.
    pub enter: String,
    /// The container or unit of its first process; empty where there is none.
    pub unit: String,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Namespaces {
    /// Those that were read, by inode number.
    pub read: Vec<Namespace>,
    /// Namespaces other than the own one that the last scan found, by name if names were
    /// asked for.
    pub found: u64,
    /// Of them those that are not read, and why.
    pub not_entered: NotEntered,
    /// Names that were given in the last hour.
    pub new_names: u64,
    /// CPU time of the thread, seconds.
    pub cpu: f64,
}

/// Namespaces that are not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotEntered {
    /// The system does not permit it.
    pub privilege: u64,
    /// As many as may be are read already.
    pub limit: u64,
    /// As many names as may be were given in the last hour.
    pub new_names: u64,
    /// Something else went wrong.
    pub failed: u64,
    /// Names that are asked for, and that none goes by.
    pub not_found: u64,
}

impl NotEntered {
    /// By the word for the reason.
    pub fn by_reason(&self) -> [(&'static str, u64); 5] {
        [
            ("privilege", self.privilege),
            ("limit", self.limit),
            ("new_names", self.new_names),
            ("failed", self.failed),
            ("not_found", self.not_found),
        ]
    }
}
