//! `?collect[]=NAME&collect[]=NAME`, `?format=NAME`

/// The values of one parameter, in order; others are not ours to judge.
pub(super) fn values(query: &str, wanted: &str) -> Vec<String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter(|(name, _)| decode(name) == wanted).map(|(_, value)| decode(value)).collect()
}

/// Undoes percent encoding; what is not an encoding stands for itself.
fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => decoded.push(b' '),
            b'%' => {
                let mut ahead = bytes.clone();
                match (ahead.next().and_then(digit), ahead.next().and_then(digit)) {
                    (Some(high), Some(low)) => {
                        decoded.push(high << 4 | low);
                        bytes = ahead;
                    }
                    _ => decoded.push(b'%'),
                }
            }
            other => decoded.push(other),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    // A hexadecimal digit is less than 16.
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_encoded() {
        for (query, expected) in [
            ("", &[][..]),
            ("collect[]=a", &["a"]),
            ("collect%5B%5D=a&collect%5b%5d=b", &["a", "b"]),
            ("x=1&collect[]=net%73tat&y", &["netstat"]),
            ("collect[]=", &[""]),
            ("collect[]", &[""]),
            ("collect=a", &[]),
            ("collect[]=a+b%2", &["a b%2"]),
            ("collect[]=%zz%ff", &["%zz\u{fffd}"]),
            ("&&=&", &[]),
        ] {
            assert_eq!(values(query, "collect[]"), expected, "{query:?}");
        }
    }
}
