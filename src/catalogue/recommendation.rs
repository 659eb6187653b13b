//! How values to recommend are found, as data.

use serde::Deserialize;

/// How a value to recommend follows from what was seen on this host, or from the running
/// value alone. Each is computed in `model/recommend`; of several the first that gives a
/// value counts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "formula", rename_all = "snake_case", deny_unknown_fields)]
pub enum Formula {
    /// A running value from the first to the second of `when` breaks something.
    Dangerous {
        /// The least and the greatest value that does.
        when: [i64; 2],
        /// What to set instead.
        to: i64,
    },
    /// The kernel's default, where the running value is less and nothing that was seen
    /// calls for it.
    BelowDefault {
        /// The one number that is judged and raised, of a parameter that has several.
        field: Option<String>,
    },
}

impl Formula {
    /// Whether it sizes something that must never become less by a recommendation.
    pub fn is_of_capacity(&self) -> bool {
        match self {
            Self::Dangerous { .. } => false,
            Self::BelowDefault { .. } => true,
        }
    }

    /// One sentence for people.
    pub fn sentence(&self) -> String {
        match self {
            Self::Dangerous { when: [first, last], to } => {
                let when = if first == last { first.to_string() } else { format!("{first} to {last}") };
                format!("{to} where it is {when}.")
            }
            Self::BelowDefault { field: None } => "The kernel's default where it is less.".into(),
            Self::BelowDefault { field: Some(field) } => {
                format!("The kernel's default of {field} where that is less.")
            }
        }
    }
}
