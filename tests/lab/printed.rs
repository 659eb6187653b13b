//! What `ss` prints of each connection.

use crate::namespace::Namespace;

/// A line of `ss -tinmeHO`.
#[derive(Debug)]
pub(crate) struct Printed(String);

impl Printed {
    /// All connections of a namespace.
    pub(crate) fn of(namespace: &Namespace) -> Vec<Self> {
        namespace.run("ss -tinmeHO").lines().map(|line| Self(line.to_owned())).collect()
    }

    /// The number that stands behind `name:`; 0 is what `ss` leaves out.
    pub(crate) fn number(&self, name: &str) -> f64 {
        let Some(text) = self.text(&format!("{name}:")) else { return 0.0 };
        let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
        text[..end.unwrap_or(text.len())].parse().unwrap()
    }

    fn text(&self, prefix: &str) -> Option<&str> {
        self.0.split_whitespace().find_map(|word| word.strip_prefix(prefix))
    }
}
