//! ufw, dockerd, cloud-init, systemd-networkd and NetworkManager.

use super::{Evidence, NAMES, Program, parse_ini};
use crate::kernel::Kernel;

const IP_FORWARD: &str = "net/ipv4/ip_forward";

const UFW: &str = "/etc/ufw/ufw.conf";
const UFW_DEFAULTS: &str = "/etc/default/ufw";
/// Written by dockerd while it runs; the second is where `/run` is not shared.
const DOCKER: [&str; 2] = ["/run/docker.pid", "/var/run/docker.pid"];
const DOCKER_SETTINGS: &str = "/etc/docker/daemon.json";
const USER_DATA: &str = "/var/lib/cloud/instance/user-data.txt";
/// Made by the programs when they run.
const NETWORKD: &str = "/run/systemd/netif";
const NETWORK_MANAGER: &str = "/run/NetworkManager";

const NETWORKS: [&str; 3] = ["/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network"];
const CONNECTIONS: [&str; 2] =
    ["/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections"];

/// Files whose number and names only a look tells, and those that need not exist.
pub(super) fn paths(kernel: &Kernel) -> Vec<String> {
    let mut paths = [NETWORKD, NETWORK_MANAGER].map(str::to_owned).to_vec();
    paths.extend(DOCKER.map(str::to_owned));
    paths.extend(files(kernel, &NETWORKS, ".network"));
    paths.extend(files(kernel, &CONNECTIONS, ".nmconnection"));
    paths
}

fn files(kernel: &Kernel, folders: &[&str], end: &str) -> Vec<String> {
    let mut found = Vec::new();
    for folder in folders {
        let names = kernel.host_names(folder, NAMES).unwrap_or_default();
        found.extend(names.iter().filter(|name| name.ends_with(end)).map(|name| format!("{folder}/{name}")));
    }
    found
}

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    read_ufw(kernel, evidence);
    read_docker(kernel, evidence);
    read_cloud_init(kernel, evidence);
    read_networkd(kernel, evidence);
    read_network_manager(kernel, evidence);
}

/// An enabled ufw applies its file each time it starts (src/ufw-init-functions of 0.36).
fn read_ufw(kernel: &mut Kernel, evidence: &mut Evidence) {
    let enabled = evidence
        .text(kernel, UFW)
        .is_some_and(|text| shell_value(&text, "ENABLED").as_deref() == Some("yes"));
    let file = evidence.text(kernel, UFW_DEFAULTS).and_then(|text| shell_value(&text, "IPT_SYSCTL"));
    let Some(file) = file.filter(|file| enabled && file.starts_with('/')) else { return };
    if let Some(text) = evidence.text(kernel, &file) {
        evidence.claim_lines(Program::Ufw, &text, &file);
    }
}

/// The value of the last `name=value` line, without quotation marks.
fn shell_value(text: &str, name: &str) -> Option<String> {
    let mut values = text.lines().rev().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
    values.next().map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
}

/// dockerd turns forwarding on unless it is told not to (daemon option `ip-forward`).
fn read_docker(kernel: &mut Kernel, evidence: &mut Evidence) {
    let Some(file) = DOCKER.into_iter().find(|path| kernel.host_stamp(path).is_ok()) else { return };
    let settings = evidence.text(kernel, DOCKER_SETTINGS).unwrap_or_default();
    let compact: String = settings.chars().filter(|character| !character.is_whitespace()).collect();
    if !compact.contains("\"ip-forward\":false") {
        evidence.claim(Program::Docker, IP_FORWARD, "1", file);
    }
    for key in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"] {
        evidence.claim(Program::Docker, format!("net/bridge/{key}"), "1", file);
    }
}

/// Commands of the user data that name sysctl and assign a key.
fn read_cloud_init(kernel: &mut Kernel, evidence: &mut Evidence) {
    let Some(text) = evidence.text(kernel, USER_DATA) else { return };
    for line in text.lines().filter(|line| line.contains("sysctl")) {
        let Some((before, value)) = line.split_once('=') else { continue };
        let key = before.rsplit([' ', '\t', '"', '\'', ',', '[']).next().unwrap_or_default();
        let value = value.trim().trim_matches(['"', '\'', ']', ' ']);
        if key.contains(['.', '/']) {
            let path = crate::read::persisted::path(key).into_owned();
            evidence.claim(Program::CloudInit, path, value, USER_DATA);
        }
    }
}

/// Forwarding, which systemd.network(5) has in `IPForward=`, since 256 in
/// `IPv4Forwarding=`, and reverse path filtering of the link that is named.
fn read_networkd(kernel: &mut Kernel, evidence: &mut Evidence) {
    if kernel.host_stamp(NETWORKD).is_err() {
        return;
    }
    for file in files(kernel, &NETWORKS, ".network") {
        let Some(text) = evidence.text(kernel, &file) else { continue };
        let lines = parse_ini(&text);
        let link = lines
            .iter()
            .find(|(section, key, _)| (*section, *key) == ("Match", "Name"))
            .map(|(_, _, name)| *name);
        for (_, key, value) in lines.iter().filter(|(section, _, _)| *section == "Network") {
            match (*key, *value) {
                ("IPForward", "yes" | "true" | "1" | "on" | "ipv4") => {
                    evidence.claim(Program::Networkd, IP_FORWARD, "1", &file);
                }
                ("IPv4ReversePathFilter", filter) => {
                    let number = match filter {
                        "no" => "0",
                        "strict" => "1",
                        "loose" => "2",
                        _ => continue,
                    };
                    if let Some(link) = link.filter(|link| !link.contains([' ', '!'])) {
                        let path = format!("net/ipv4/conf/{link}/rp_filter");
                        evidence.claim(Program::Networkd, path, number, &file);
                    }
                }
                _ => {}
            }
        }
    }
}

/// A shared connection turns forwarding on (nm-settings(5), `method=shared`).
fn read_network_manager(kernel: &mut Kernel, evidence: &mut Evidence) {
    if kernel.host_stamp(NETWORK_MANAGER).is_err() {
        return;
    }
    for file in files(kernel, &CONNECTIONS, ".nmconnection") {
        let Some(text) = evidence.text(kernel, &file) else { continue };
        if parse_ini(&text).contains(&("ipv4", "method", "shared")) {
            evidence.claim(Program::NetworkManager, IP_FORWARD, "1", &file);
        }
    }
}
