//! Messages on one line, whatever they quote.

/// Longest message, characters.
const LIMIT: usize = 1000;

/// `text` on one line: control characters escaped, and shortened. It quotes what
/// somebody typed or wrote into a file, which may hold anything.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == LIMIT {
            line.push('…');
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_length_is_bounded() {
        assert_eq!(one_line("a\nb\u{1b}[31m`é`"), "a\\nb\\u{1b}[31m`é`");
        assert_eq!(one_line(&"x".repeat(LIMIT + 5)).chars().count(), LIMIT + 1);
    }
}
