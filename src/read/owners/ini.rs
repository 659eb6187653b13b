//! Files of sections and assignments, as systemd, NetworkManager and tuned have them.

/// `(section, key, value)` of each assignment, without blanks around them. Lines that
/// are none are passed over.
pub fn parse_ini(text: &str) -> Vec<(&str, &str, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
        } else if let Some((key, value)) = line.split_once('=') {
            found.push((section, key.trim(), value.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_know_their_section() {
        let text = "a=1\n[Network]\n# IPForward=no\nIPForward = ipv4\nword\n[x";
        assert_eq!(parse_ini(text), [("", "a", "1"), ("Network", "IPForward", "ipv4")]);
    }
}
