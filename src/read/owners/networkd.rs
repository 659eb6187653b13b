//! systemd-networkd (252 and 257; src/network/networkd-sysctl.c): forwarding of the host
//! and reverse path filtering of a link.

use std::collections::BTreeMap;

use super::shell::variable;
use super::{Evidence, IP_FORWARD, Origin, Program, parse_ini, text};
use crate::kernel::Kernel;
use crate::read::links;

/// A file for each link, by its index, while networkd runs. It names the .network file
/// that the link is set up by, and is put anew into the directory when that changes
/// (src/network/networkd-state-file.c:link_save).
const LINKS: &str = "/run/systemd/netif/links";

/// Where networkd's own settings are: the first counts, and drop-ins over it.
const OWN: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];

/// An option of a section `[Network]`, and the file that it stands in.
type Options = BTreeMap<String, (String, String)>;

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    let states = evidence.entries(kernel, LINKS);
    if states.is_empty() {
        return;
    }
    let devices = links::read_identities(kernel).unwrap_or_default();
    for state in states {
        let network = text(kernel, &state).and_then(|text| variable(&text, "NETWORK_FILE"));
        let Some(network) = network else { continue };
        let folder = format!("systemd/network/{}.d", network.rsplit('/').next().unwrap_or_default());
        let options = options(kernel, evidence, &network, &folder);
        let index = state.rsplit('/').next().and_then(|index| index.parse::<u32>().ok());
        let device = devices.iter().find(|(_, device)| Some(device.index) == index);
        claim(evidence, &options, &folder, device.map(|(name, _)| name.as_str()));
    }
    let own = OWN.map(|top| format!("{top}/systemd/networkd.conf"));
    let own = own.iter().find(|file| evidence.has(kernel, file)).cloned().unwrap_or_default();
    let folder = "systemd/networkd.conf.d";
    let options = options(kernel, evidence, &own, folder);
    if let Some(on) = options.get("IPv4Forwarding").and_then(|(value, _)| boolean(value)) {
        let origin = origin(&options, "IPv4Forwarding", folder);
        evidence.claim(Program::Networkd, IP_FORWARD, if on { "1" } else { "0" }, origin);
    }
}

/// `IPForward=` is of releases before 256, which took over what any link wanted for the
/// host; `IPMasquerade=` turns forwarding of the host on in all. `IPv4Forwarding=` of a
/// link, which 256 has, is for that link alone.
fn claim(evidence: &mut Evidence, options: &Options, folder: &str, device: Option<&str>) {
    for (key, families) in [("IPForward", ["ipv4", "ipv4"]), ("IPMasquerade", ["ipv4", "both"])] {
        let Some((value, _)) = options.get(key) else { continue };
        if boolean(value) == Some(true) || families.contains(&value.as_str()) {
            evidence.claim(Program::Networkd, IP_FORWARD, "1", origin(options, key, folder));
        }
    }
    let filter = options.get("IPv4ReversePathFilter").and_then(|(value, _)| match value.as_str() {
        "no" => Some("0"),
        "strict" => Some("1"),
        "loose" => Some("2"),
        _ => None,
    });
    if let (Some(filter), Some(device)) = (filter, device) {
        let path = format!("net/ipv4/conf/{device}/rp_filter");
        evidence.claim(Program::Networkd, path, filter, origin(options, "IPv4ReversePathFilter", folder));
    }
}

/// The last assignment of each option of `[Network]` in a file and its drop-ins.
fn options(kernel: &mut Kernel, evidence: &mut Evidence, file: &str, folder: &str) -> Options {
    let mut options = Options::new();
    for file in [file.to_owned()].into_iter().chain(evidence.drop_ins(kernel, folder)) {
        let text = evidence.text(kernel, &file).unwrap_or_default();
        for (_, key, value) in parse_ini(&text).iter().filter(|(section, _, _)| *section == "Network") {
            options.insert((*key).to_owned(), ((*value).to_owned(), file.clone()));
        }
    }
    options
}

/// What is not below /etc is a package's, or made by another program; a drop-in goes over it.
fn origin(options: &Options, key: &str, folder: &str) -> Origin {
    let file = options.get(key).map(|(_, file)| file.as_str()).unwrap_or_default();
    let place = if file.starts_with("/etc/") {
        format!("{key}= in {file}")
    } else {
        format!("{key}= in a file /etc/{folder}/*.conf")
    };
    Origin::new(file, place)
}

/// src/basic/parse-util.c:parse_boolean
fn boolean(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}
