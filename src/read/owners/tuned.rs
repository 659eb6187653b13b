//! tuned: the sysctl sections of the active profile and of those it includes
//! (tuned-profiles(7), tuned.conf(5); tuned/profiles/loader.py, locator.py and merger.py,
//! tuned/plugins/plugin_sysctl.py and plugin_net.py of 2.20 and 2.25).

use std::collections::BTreeMap;

use super::{CLAIMS, Evidence, Origin, Program, parse_ini};
use crate::kernel::Kernel;
use crate::read::persisted::path;

const ACTIVE: &str = "/etc/tuned/active_profile";
/// A profile on top of the active ones.
const POST_LOADED: &str = "/etc/tuned/post_loaded_profile";
const SETTINGS: &str = "/etc/tuned/tuned-main.conf";
/// There while it runs; what it set is taken back when it ends.
const RUNNING: &str = "/run/tuned/tuned.pid";

/// Where profiles are, the host's own first; 2.25 has a folder for them.
const FOLDERS: [&str; 4] = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];

/// Most profiles that are read, one including the other.
const PROFILES: usize = 20;

/// Options of a section that are about it as a whole (tuned/profiles/unit.py).
const UNIT_OPTIONS: [&str; 5] = ["type", "enabled", "replace", "uname_regex", "cpuinfo_regex"];

/// What a profile's file says of parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Profiles that come before it, in their order.
    pub included: Vec<String>,
    /// In the order of the file; sections that drop what was before come first.
    pub options: Vec<ProfileOption>,
}

/// One option of a section, or a whole section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileOption {
    /// A parameter of the section `unit`.
    Set {
        /// Name of the section.
        unit: String,
        /// Path below `/proc/sys`.
        path: String,
        /// `None` where it depends on what only tuned knows.
        value: Option<String>,
    },
    /// The section drops what profiles before have in it.
    Replace {
        /// Name of the section.
        unit: String,
    },
}

/// A parameter as profiles set it so far.
struct Setting {
    unit: String,
    path: String,
    value: Option<String>,
    file: String,
    profile: String,
}

struct Loading {
    folders: Vec<String>,
    files: Vec<String>,
    settings: Vec<Setting>,
}

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    let Some(mut active) = evidence.text(kernel, ACTIVE) else { return };
    let main = evidence.text(kernel, SETTINGS).unwrap_or_default();
    let main = parse_ini(&main);
    let option = |key| main.iter().rev().find(|(_, name, _)| *name == key).map(|(_, _, value)| *value);
    // Without a daemon it sets everything once, and ends.
    let once = option("daemon").is_some_and(|value| matches!(value, "0" | "false" | "False" | "no"));
    if !evidence.has(kernel, RUNNING) && !once {
        return;
    }
    if let Some(more) = evidence.text(kernel, POST_LOADED) {
        active.push(' ');
        active.push_str(&more);
    }
    let folders = match option("profile_dirs") {
        Some(folders) => folders.rsplit(',').map(|folder| folder.trim().to_owned()).collect(),
        None => FOLDERS.map(str::to_owned).to_vec(),
    };
    let mut loading = Loading { folders, files: Vec::new(), settings: Vec::new() };
    // A profile that cannot be found leaves all of them out.
    if loading.load(kernel, evidence, &parse_profile_names(&active)).is_none() {
        return;
    }
    for setting in loading.settings {
        let Setting { path, value: Some(value), file, profile, .. } = setting else { continue };
        let place = if file.starts_with("/etc/") {
            file.clone()
        } else {
            format!("a profile of your own below /etc/tuned with include={profile}")
        };
        evidence.claim(Program::Tuned, path, value, Origin::new(&file, place));
    }
}

impl Loading {
    /// Profiles one after the other, each behind those that it includes; what comes later
    /// wins. A file counts once: a profile of /etc may include that of /usr of its name.
    fn load(&mut self, kernel: &mut Kernel, evidence: &mut Evidence, names: &[String]) -> Option<()> {
        for name in names {
            let (name, may_lack) = match name.strip_prefix('-') {
                Some(name) => (name, true),
                None => (name.as_str(), false),
            };
            let candidates = self.folders.iter().map(|folder| format!("{folder}/{name}/tuned.conf"));
            let (loaded, new): (Vec<_>, Vec<_>) = candidates.partition(|file| self.files.contains(file));
            let found = new.into_iter().find_map(|file| Some((evidence.text(kernel, &file)?, file)));
            let Some((text, file)) = found else {
                if may_lack || !loaded.is_empty() { continue } else { return None }
            };
            self.files.push(file.clone());
            if self.files.len() > PROFILES {
                return None;
            }
            let profile = parse_profile(&text);
            self.load(kernel, evidence, &profile.included)?;
            for option in profile.options {
                self.apply(option, &file, name);
            }
        }
        Some(())
    }

    fn apply(&mut self, option: ProfileOption, file: &str, profile: &str) {
        match option {
            ProfileOption::Replace { unit } => self.settings.retain(|setting| setting.unit != unit),
            ProfileOption::Set { unit, path, value } => {
                self.settings.retain(|setting| setting.path != path);
                if self.settings.len() == CLAIMS {
                    return;
                }
                let (file, profile) = (file.to_owned(), profile.to_owned());
                self.settings.push(Setting { unit, path, value, file, profile });
            }
        }
    }
}

/// Names of profiles, with blanks, commas or semicolons between. One that is no plain name
/// leads nowhere.
pub fn parse_profile_names(text: &str) -> Vec<String> {
    let words = text.split(|character: char| character.is_whitespace() || matches!(character, ',' | ';'));
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-');
    let is_name = |word: &&str| !word.is_empty() && word.chars().all(plain) && !word.starts_with('.');
    words.filter(is_name).map(str::to_owned).collect()
}

/// A profile. Sections of sysctl are called so or have that type; the hash size of tracked
/// connections is an option of the type net.
pub fn parse_profile(text: &str) -> Profile {
    let lines = parse_ini(text);
    let mut units: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for (unit, key, value) in &lines {
        if UNIT_OPTIONS.contains(key) {
            units.entry(unit).or_default().insert(key, plain(value));
        }
    }
    let is_on = |value: &&str| matches!(*value, "1" | "true" | "True");
    let mut profile = Profile::default();
    for (unit, own) in &units {
        if *unit != "main" && own.get("replace").is_some_and(is_on) {
            profile.options.push(ProfileOption::Replace { unit: (*unit).to_owned() });
        }
    }
    for (unit, key, value) in lines {
        let value = plain(value);
        if (unit, key) == ("main", "include") {
            profile.included.extend(parse_profile_names(value));
            continue;
        }
        let own = |key| units.get(unit).and_then(|options| options.get(key));
        let path = match (*own("type").unwrap_or(&unit), key) {
            ("sysctl", key) if key.contains(['.', '/']) => path(key).into_owned(),
            ("net", "nf_conntrack_hashsize") => "net/netfilter/nf_conntrack_buckets".to_owned(),
            _ => continue,
        };
        // Which machine these are for, only tuned knows.
        let is_for_some = own("uname_regex").is_some() || own("cpuinfo_regex").is_some();
        if is_for_some || own("enabled").is_some_and(|value| !is_on(value)) {
            continue;
        }
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        // `>` raises a lower value, `<` lowers a higher one: what stands there then is this.
        let value = value.trim_start_matches(['<', '>', ' ']);
        let value = (!value.contains("${")).then(|| value.to_owned());
        profile.options.push(ProfileOption::Set { unit: unit.to_owned(), path, value });
    }
    profile
}

/// Without the comment behind it.
fn plain(value: &str) -> &str {
    let comments = value.match_indices('#').map(|(at, _)| at);
    let mut comments = comments.filter(|at| value[..*at].ends_with([' ', '\t']) || *at == 0);
    comments.next().map_or(value, |at| value[..at].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(unit: &str, path: &str, value: Option<&str>) -> ProfileOption {
        ProfileOption::Set { unit: unit.into(), path: path.into(), value: value.map(str::to_owned) }
    }

    #[test]
    fn a_profile_has_options_and_parents() {
        let text = "[main]\ninclude=base; -other # both\n[vm]\nx.y=1\n[sysctl]\nnet.core.somaxconn=>2048\n\
                    net.ipv4.tcp_rmem=\"4096 131072 16777216\" # why\nnet.core.rmem_max=${big}\nreplace=1\n\
                    [mine]\ntype=sysctl\na.b=1#2\n[some]\ntype=sysctl\nuname_regex=arm\na.c=1\n\
                    [net]\nnf_conntrack_hashsize=4096\nmtu=1\n[off]\ntype=sysctl\nenabled=0\na.d=1\n";
        let profile = parse_profile(text);
        assert_eq!(profile.included, ["base", "-other"]);
        let expected = [
            ProfileOption::Replace { unit: "sysctl".into() },
            set("sysctl", "net/core/somaxconn", Some("2048")),
            set("sysctl", "net/ipv4/tcp_rmem", Some("4096 131072 16777216")),
            set("sysctl", "net/core/rmem_max", None),
            set("mine", "a/b", Some("1#2")),
            set("net", "net/netfilter/nf_conntrack_buckets", Some("4096")),
        ];
        assert_eq!(profile.options, expected);
        assert_eq!(parse_profile_names("virtual-guest ../x ${f:y}\n"), ["virtual-guest"]);
    }
}
