//! NetworkManager (1.42 and 1.52): forwarding for shared connections
//! (src/core/devices/nm-device.c), and loose reverse path filtering of devices that it
//! makes endpoints of MPTCP (src/core/nm-l3cfg.c:_rp_filter_update).

use super::{Evidence, IP_FORWARD, Origin, Program, parse_ini, text};
use crate::kernel::{Kernel, Root};
use crate::read::links;

/// A file for each device, by its index, with the profile that is active on it, put anew
/// into the directory when that changes (src/core/nm-config.c:nm_config_device_state_write).
const DEVICES: &str = "/run/NetworkManager/devices";

/// Profiles in its own format, those made at run time first.
const PROFILES: [&str; 3] = [
    "/run/NetworkManager/system-connections",
    "/etc/NetworkManager/system-connections",
    "/usr/lib/NetworkManager/system-connections",
];

/// NM_MPTCP_FLAGS_DISABLED
const MPTCP_OFF: u32 = 1;

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    let mut active: Vec<(u32, String)> = Vec::new();
    for file in evidence.entries(kernel, DEVICES) {
        let index = file.rsplit('/').next().and_then(|index| index.parse().ok());
        let text = text(kernel, &file).unwrap_or_default();
        let profile = value(&text, "device", "connection-uuid").map(str::to_owned);
        active.extend(index.zip(profile));
    }
    if active.is_empty() {
        return;
    }
    let names = links::read_identities(kernel).unwrap_or_default();
    let has_mptcp =
        kernel.read(Root::Proc, "sys/net/mptcp/enabled").is_ok_and(|value| value.trim_ascii() == b"1");
    for folder in PROFILES {
        for file in evidence.entries(kernel, folder) {
            let text = if file.ends_with(".nmconnection") { evidence.text(kernel, &file) } else { None };
            let Some(text) = text else { continue };
            let Some(profile) = value(&text, "connection", "uuid") else { continue };
            let place = |option| format!("{option} of the connection (nmcli connection modify {profile})");
            // A profile of this name that stands in a later folder as well does not count.
            let (here, rest) = active.into_iter().partition(|(_, active)| active == profile);
            active = rest;
            let here: Vec<(u32, String)> = here;
            if !here.is_empty() && value(&text, "ipv4", "method") == Some("shared") {
                let origin = Origin::new(&file, place("ipv4.method"));
                evidence.claim(Program::NetworkManager, IP_FORWARD, "1", origin);
            }
            let flags: Option<u32> = value(&text, "connection", "mptcp-flags").unwrap_or("0").parse().ok();
            if !has_mptcp || flags.is_none_or(|flags| flags & MPTCP_OFF != 0) {
                continue;
            }
            let is_here = |index| here.iter().any(|(active, _)| *active == index);
            for (name, _) in names.iter().filter(|(_, device)| is_here(device.index)) {
                let origin = Origin::new(&file, place("connection.mptcp-flags"));
                let path = format!("net/ipv4/conf/{name}/rp_filter");
                evidence.claim_over(Some("1"), Program::NetworkManager, path, "2", origin);
            }
        }
    }
}

fn value<'t>(text: &'t str, section: &str, key: &str) -> Option<&'t str> {
    let mut lines = parse_ini(text).into_iter();
    lines.find(|(own, name, _)| (*own, *name) == (section, key)).map(|(_, _, value)| value)
}
