//! What `ss` prints of each connection.

use crate::namespace::Namespace;
use crate::support::eventually;

/// A line of `ss -tinmeHO`.
#[derive(Debug)]
pub(crate) struct Printed(String);

impl Printed {
    /// All connections of a namespace.
    pub(crate) fn of(namespace: &Namespace) -> Vec<Self> {
        namespace.run("ss -tinmeHO").lines().map(|line| Self(line.to_owned())).collect()
    }

    /// All connections of a namespace, once all that they sent has arrived: from
    /// then on their figures stand still.
    pub(crate) fn settled(namespace: &Namespace) -> Vec<Self> {
        eventually("not all has arrived", || {
            let shown = Self::of(namespace);
            shown.iter().all(|connection| connection.send_queue() == 0).then_some(shown)
        })
    }

    /// What stays the same for as long as the socket is there.
    pub(crate) fn cookie(&self) -> u64 {
        u64::from_str_radix(self.text("sk:").expect("`-e` prints cookies"), 16).unwrap()
    }

    /// Whether a word stands alone, as the name of the algorithm does.
    pub(crate) fn says(&self, word: &str) -> bool {
        self.0.split_whitespace().any(|found| found == word)
    }

    /// What the kernel lets the send buffer take up.
    pub(crate) fn send_buffer(&self) -> usize {
        let (_, rest) = self.0.split_once(",tb").expect("`-m` prints memory");
        rest.split(',').next().unwrap().parse().unwrap()
    }

    /// Bytes that were not acknowledged yet, or not sent.
    fn send_queue(&self) -> u64 {
        self.0.split_whitespace().nth(2).unwrap().parse().unwrap()
    }

    /// Seconds that stand behind `busy:` and its like.
    pub(crate) fn seconds(&self, name: &str) -> f64 {
        self.number(name) / 1e3
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
