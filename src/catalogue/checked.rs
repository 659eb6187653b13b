//! Values that are written as text, and checked where they stand: the parser places an
//! error where the visitor that raised it was at work.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

/// A value that is written as text, and checked where it stands.
pub trait FromText: Sized {
    /// What is expected, after "expected".
    const EXPECTED: &'static str;

    /// The value, or what is wrong with it.
    fn from_text(text: &str) -> Result<Self, String>;
}

/// For fields of what is deserialized.
#[derive(Debug, Clone, PartialEq)]
pub struct Text<T>(pub T);

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
