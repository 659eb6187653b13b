//! Texts of diagnoses: words with placeholders, written once for every place they
//! appear in.

use std::fmt;

use serde::Deserialize;

/// A text, checked for its form when it is read. `{name}` and `{name|format}` stand for
/// what is known when a diagnosis holds, `$name` for a named value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Text(Vec<Piece>);

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// As it stands, apart from `$name`.
    Words(String),
    /// To be filled in.
    Blank {
        /// A label, an evidence or one of [`BLANKS`](super::diagnoses::BLANKS).
        name: String,
        /// How a number is shown, where the name does not say.
        format: Option<Format>,
    },
}

/// How a number is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// No decimals.
    Count,
    /// One decimal.
    Rate,
    /// Two decimals.
    Ratio,
    /// A share of 1 in percent.
    Percent,
    /// Binary multiples of bytes.
    Bytes,
    /// Days, hours, minutes and seconds.
    Duration,
}

impl Format {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "rate" => Self::Rate,
            "ratio" => Self::Ratio,
            "percent" => Self::Percent,
            "bytes" => Self::Bytes,
            "duration" => Self::Duration,
            _ => return None,
        })
    }
}

impl Text {
    /// Its parts in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Names of its placeholders.
    pub fn blanks(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Blank { name, .. } => Some(name.as_str()),
            Piece::Words(_) => None,
        })
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text.trim_end();
        while let Some(start) = rest.find(['{', '}']) {
            let (words, blank) = rest.split_at(start);
            let (inside, after) = blank
                .strip_prefix('{')
                .and_then(|blank| blank.split_once('}'))
                .ok_or_else(|| format!("a brace without its other half in {text:?}"))?;
            let (name, format) = match inside.split_once('|') {
                Some((name, format)) => {
                    let known = Format::named(format);
                    (name, Some(known.ok_or_else(|| format!("no format is called {format:?} in {text:?}"))?))
                }
                None => (inside, None),
            };
            let is_name = |character: char| character.is_ascii_lowercase() || character == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(format!("{{{inside}}} is no placeholder in {text:?}"));
            }
            if !words.is_empty() {
                pieces.push(Piece::Words(words.to_owned()));
            }
            pieces.push(Piece::Blank { name: name.to_owned(), format });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Words(rest.to_owned()));
        }
        Ok(Self(pieces))
    }
}

/// As it was written.
impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Words(words) => out.write_str(words),
            Piece::Blank { name, .. } => write!(out, "{{{name}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_found() {
        let text = Text::try_from("port {port}: {value|percent} of $floor\n".to_owned()).unwrap();
        let words = |words: &str| Piece::Words(words.into());
        let blank = |name: &str, format| Piece::Blank { name: name.into(), format };
        let expected = [
            words("port "),
            blank("port", None),
            words(": "),
            blank("value", Some(Format::Percent)),
            words(" of $floor"),
        ];
        assert_eq!(text.pieces(), expected);
        assert_eq!(text.to_string(), "port {port}: {value} of $floor");
    }

    #[test]
    fn what_is_no_placeholder_is_refused() {
        for text in ["a { b", "a } b", "{}", "{a b}", "{{ x }}", "{a|colour}", "{A}"] {
            assert!(Text::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
