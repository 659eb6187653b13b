//! tuned: the sysctl sections of the active profile and of those it includes
//! (tuned-profiles(7), tuned.conf(5); tuned/profiles/locator.py and
//! tuned/plugins/plugin_sysctl.py of 2.20).

use super::{Evidence, Program, parse_ini};
use crate::kernel::Kernel;
use crate::read::persisted::path;

const ACTIVE: &str = "/etc/tuned/active_profile";

/// Where profiles are, the host's own first; newer releases have a folder for them.
const FOLDERS: [&str; 4] = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];

/// Most profiles that are read, one including the other.
const PROFILES: usize = 20;

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    let Some(active) = evidence.text(kernel, ACTIVE) else { return };
    let mut ahead = parse_profile_names(&active);
    let mut index = 0;
    // Profiles before those they include: their own assignments win.
    let mut seen: Vec<(String, String)> = Vec::new();
    while index < ahead.len().min(PROFILES) {
        let name = ahead[index].clone();
        index += 1;
        for folder in FOLDERS {
            let file = format!("{folder}/{name}/tuned.conf");
            let Some(text) = evidence.text(kernel, &file) else { continue };
            let (settings, included) = parse_profile(&text);
            for (path, value) in settings {
                if !seen.iter().any(|(known, _)| *known == path) {
                    evidence.claim(Program::Tuned, path.clone(), value.clone(), &file);
                    seen.push((path, value));
                }
            }
            let new: Vec<_> = included.into_iter().filter(|name| !ahead.contains(name)).collect();
            ahead.extend(new);
            break;
        }
    }
}

/// Names of profiles, with blanks or commas between. One that is no plain name leads
/// nowhere.
pub fn parse_profile_names(text: &str) -> Vec<String> {
    let words = text.split(|character: char| character.is_whitespace() || character == ',');
    let plain = |word: &&str| !word.is_empty() && !word.contains(['/', '$']) && !word.starts_with('.');
    words.filter(plain).map(str::to_owned).collect()
}

/// Paths and texts of the sysctl section, and names of included profiles. What depends on
/// a variable or on the value there was says nothing for certain, and is left out.
pub fn parse_profile(text: &str) -> (Vec<(String, String)>, Vec<String>) {
    let (mut settings, mut included) = (Vec::new(), Vec::new());
    for (section, key, value) in parse_ini(text) {
        match (section, key) {
            ("main", "include") => included.extend(parse_profile_names(value)),
            ("sysctl", _) if !value.contains("${") && !value.starts_with(['<', '>']) => {
                settings.push((path(key).into_owned(), value.trim_matches('"').to_owned()));
            }
            // `>` raises a lower value: what stands there then is this number.
            ("sysctl", _) if value.starts_with('>') && !value.contains("${") => {
                settings.push((path(key).into_owned(), value.trim_start_matches(['>', ' ']).to_owned()));
            }
            _ => {}
        }
    }
    (settings, included)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_settings_and_parents() {
        let text = "[main]\ninclude=base, other\n[vm]\nx=1\n[sysctl]\nnet.core.somaxconn=>2048\n\
                    net.ipv4.tcp_rmem=\"4096 131072 16777216\"\nnet.core.rmem_max=${big}\n[sysctl.arm]\ny=1\n";
        let (settings, included) = parse_profile(text);
        let expected = [("net/core/somaxconn", "2048"), ("net/ipv4/tcp_rmem", "4096 131072 16777216")];
        assert_eq!(settings, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
        assert_eq!(included, ["base", "other"]);
        assert_eq!(parse_profile_names("virtual-guest ../x\n"), ["virtual-guest"]);
    }
}
