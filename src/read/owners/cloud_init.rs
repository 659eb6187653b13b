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
    #[serde(default)]
    bootcmd: Vec<Command>,
}

/// Given to a shell as it stands, or word by word (cloudinit/util.py:shellify).
#[derive(Deserialize)]
#[serde(untagged)]
enum Command {
    Shell(String),
    Words(Vec<String>),
}

/// Paths and texts that `bootcmd` writes.
pub fn parse_cloud_config(text: &str) -> Vec<(String, String)> {
    let Ok(Some(parsed)) = serde_yaml::from_str::<Option<CloudConfig>>(text) else { return Vec::new() };
    let settings = parsed.bootcmd.iter().flat_map(|command| match command {
        Command::Shell(text) => parse_commands(text),
        Command::Words(words) => settings(words),
    });
    settings.collect()
}

#[cfg(test)]
mod tests {
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
}
