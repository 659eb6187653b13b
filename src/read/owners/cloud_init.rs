//! cloud-init (22.4 and 25.1): commands of the user data and of the cloud's vendor data,
//! as it stores them for the instance it runs on. `bootcmd` runs at each boot, all else at
//! the first one of an instance.

use serde::Deserialize;

use super::shell::{parse_commands, settings};
use super::{Evidence, Origin, Program};
use crate::kernel::Kernel;

/// A link to the folder of the instance.
const INSTANCE: &str = "/var/lib/cloud/instance";

/// All parts of the user data as one, and the same of the vendor data
/// (cloudinit/helpers.py:Paths).
const CONFIGURATIONS: [(&str, &str); 3] = [
    ("cloud-config.txt", "user data"),
    ("vendor-cloud-config.txt", "vendor data"),
    ("vendor2-cloud-config.txt", "vendor data"),
];

/// Scripts: that of `runcmd`, and parts of the user or vendor data that are scripts.
const SCRIPTS: [(&str, &str); 3] =
    [("scripts", "user data"), ("scripts/vendor", "vendor data"), ("boothooks", "user data")];

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    for (name, data) in CONFIGURATIONS {
        let file = format!("{INSTANCE}/{name}");
        let text = evidence.text(kernel, &file).unwrap_or_default();
        let origin = Origin::new(&file, format!("bootcmd in the instance's {data}"));
        evidence.commands(parse_cloud_config(&text), &origin);
    }
    for (folder, data) in SCRIPTS {
        for file in evidence.entries(kernel, &format!("{INSTANCE}/{folder}")) {
            let Some(text) = evidence.text(kernel, &file) else { continue };
            let part = if file.ends_with("/runcmd") { "runcmd" } else { "a script" };
            let origin = Origin::new(&file, format!("{part} in the instance's {data}"));
            evidence.commands(parse_commands(&text), &origin);
        }
    }
}

impl Evidence {
    fn commands(&mut self, settings: Vec<(String, String)>, origin: &Origin) {
        for (path, value) in settings {
            self.claim(Program::CloudInit, path, value, origin.clone());
        }
    }
}

#[derive(Deserialize)]
struct CloudConfig {
    bootcmd: Vec<Command>,
}

/// Given to a shell as it stands, or word by word (cloudinit/util.py:shellify).
#[derive(Deserialize)]
#[serde(untagged)]
enum Command {
    Shell(String),
    Words(Vec<String>),
}

/// Longest `bootcmd` that is parsed, bytes, and most brackets in it: a parser of YAML takes
/// its time for brackets within brackets.
const LIMIT: usize = 64 << 10;
const BRACKETS: usize = 100;

/// Paths and texts that `bootcmd` writes, in a configuration as cloud-init stores it: keys
/// begin lines, and lists go on below them.
pub fn parse_cloud_config(text: &str) -> Vec<(String, String)> {
    let lines = text.split_inclusive('\n').skip_while(|line| !line.starts_with("bootcmd:"));
    let is_below = |line: &str| line.starts_with([' ', '-', '\n']) && !line.starts_with("---");
    let lines = lines.enumerate().take_while(|(index, line)| *index == 0 || is_below(line));
    let text: String = lines.map(|(_, line)| line).collect();
    let brackets = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if text.len() > LIMIT || brackets > BRACKETS {
        return Vec::new();
    }
    let Ok(parsed) = serde_yaml::from_str::<CloudConfig>(&text) else { return Vec::new() };
    let settings = parsed.bootcmd.iter().flat_map(|command| match command {
        Command::Shell(text) => parse_commands(text),
        Command::Words(words) => settings(words),
    });
    settings.collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn commands_at_boot_are_lines_or_words() {
        let text = "#cloud-config\n---\nbootcmd:\n- sysctl -w net.core.somaxconn=2222 && echo this one\n    \
                    goes on\n-   - cloud-init-per\n    - always\n    - x\n    - sysctl\n    - -w\n    \
                    - net.ipv4.tcp_rmem=4096 87380 7777777\nruncmd:\n- sysctl -w a.b=1\n...\n";
        let expected = [("net/core/somaxconn", "2222"), ("net/ipv4/tcp_rmem", "4096 87380 7777777")];
        let expected = expected.map(|(path, value)| (path.to_owned(), value.to_owned()));
        assert_eq!(parse_cloud_config(text), expected);
        for nothing in ["", "#cloud-config\n", "bootcmd: 5", "- a", "\u{1}", "bootcmd:\n- {a: b}\n"] {
            assert_eq!(parse_cloud_config(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn what_is_hard_to_parse_takes_no_time() {
        for hard in [
            format!("bootcmd: {}", "[".repeat(LIMIT - 9)),
            format!("bootcmd: {}{}", "[".repeat(BRACKETS), "a,".repeat(LIMIT / 2 - BRACKETS)),
            format!("bootcmd: {}", "- ".repeat(LIMIT / 2 - 5)),
            format!("bootcmd: {}", "? ".repeat(LIMIT / 2 - 5)),
            format!("bootcmd: {}", "&a *a ".repeat(LIMIT / 6 - 2)),
            format!("bootcmd:\n{}", "- &a !!x a: |\n".repeat(LIMIT / 14 - 1)),
        ] {
            let started = Instant::now();
            assert_eq!(parse_cloud_config(&hard), []);
            assert!(started.elapsed() < Duration::from_secs(5), "{}", &hard[..20]);
        }
    }
}
