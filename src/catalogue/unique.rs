//! Mappings of YAML in which no key may come twice: the parser takes the last.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// For `#[serde(deserialize_with)]`.
///
/// # Errors
/// A key that comes twice, or what its values have.
pub fn unique<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, V>, D::Error> {
    struct Unique<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for Unique<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a mapping")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut all = BTreeMap::new();
            while let Some((key, value)) = entries.next_entry::<String, V>()? {
                if all.contains_key(&key) {
                    return Err(A::Error::custom(format!("{key}: duplicate key")));
                }
                all.insert(key, value);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_map(Unique(PhantomData))
}
