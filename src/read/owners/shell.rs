//! Commands of a shell, as far as they set parameters or variables.

use crate::read::persisted::path;

/// Commands as lists of words without their quotation marks; `>` is a word of its own.
/// What only a running shell knows, as the value of a variable, stays as it stands.
fn commands(text: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(mark), _) if character == mark => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => match characters.next() {
                None | Some('\n') => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            (None, '#') if word.is_none() => {
                while characters.next_if(|character| *character != '\n').is_some() {}
            }
            (None, ' ' | '\t' | '\r') => words.extend(word.take()),
            (None, '\n' | ';' | '&' | '|' | '(' | ')' | '>') => {
                words.extend(word.take());
                match character {
                    '>' => words.push(">".to_owned()),
                    _ if words.is_empty() => {}
                    _ => commands.push(std::mem::take(&mut words)),
                }
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    if !words.is_empty() {
        commands.push(words);
    }
    commands
}

/// Paths and texts that the commands of `text` write: `sysctl key=value`, and
/// `echo value > /proc/sys/…`.
pub fn parse_commands(text: &str) -> Vec<(String, String)> {
    commands(text).iter().flat_map(|words| settings(words)).collect()
}

/// The same of one command.
pub(super) fn settings(words: &[String]) -> Vec<(String, String)> {
    let is_sysctl = |word: &String| word.rsplit('/').next() == Some("sysctl");
    if let Some(at) = words.iter().position(is_sysctl) {
        let assignments = words[at + 1..].iter().filter_map(|word| word.split_once('='));
        let assignments = assignments.filter(|(key, _)| key.contains(['.', '/']) && !key.starts_with('-'));
        return assignments
            .map(|(key, value)| (path(key.trim()).into_owned(), value.trim().to_owned()))
            .collect();
    }
    let Some([said @ .., redirect, file]) =
        words.iter().position(|word| word == "echo").map(|at| &words[at + 1..])
    else {
        return Vec::new();
    };
    match file.strip_prefix('/').and_then(|file| file.strip_prefix("proc/sys/")) {
        Some(file) if redirect == ">" => {
            let said: Vec<_> =
                said.iter().skip_while(|word| word.starts_with('-')).map(String::as_str).collect();
            vec![(file.to_owned(), said.join(" "))]
        }
        _ => Vec::new(),
    }
}

/// The value of the last assignment of a variable.
pub(super) fn variable(text: &str, name: &str) -> Option<String> {
    let commands = commands(text);
    let mut values = commands.iter().rev().filter_map(|words| {
        let [word] = words.as_slice() else { return None };
        word.strip_prefix(name)?.strip_prefix('=')
    });
    values.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_shell() {
        let words = |text| commands(text).into_iter().map(|words| words.join("|")).collect::<Vec<_>>();
        assert_eq!(words("a 'b c' \"d\\\"e\"f # no\n# g\nh;i&&j"), ["a|b c|d\"ef", "h", "i", "j"]);
        assert_eq!(words("a \\\n b''>c \"\""), ["a|b|>|c|"]);
        assert_eq!(words("x#y 'open"), ["x#y|open"]);
    }

    #[test]
    fn commands_set_parameters() {
        let text = "set -e\nsudo /usr/sbin/sysctl -qw net.ipv4.tcp_rmem=\"1 2 3\" net/core/somaxconn=5 && x=1\n\
                    echo -n 4 5 >/proc/sys/net/core/b; echo 6 >> /tmp/c\nsysctl -p /etc/x.conf\nsysctl --a.b=1";
        let expected = [("net/ipv4/tcp_rmem", "1 2 3"), ("net/core/somaxconn", "5"), ("net/core/b", "4 5")];
        let expected = expected.map(|(path, value)| (path.to_owned(), value.to_owned()));
        assert_eq!(parse_commands(text), expected);
    }

    #[test]
    fn the_last_assignment_of_a_variable_counts() {
        let text = "# A=1\nA=\"2 3\" # why\nAB=4\nA=5 run\n";
        assert_eq!(variable(text, "A").as_deref(), Some("2 3"));
        assert_eq!(variable("A=", "A").as_deref(), Some(""));
        assert_eq!(variable(text, "B"), None);
    }
}
