//! dockerd (20.10 and 26.1): forwarding, which it turns on for its bridges unless the
//! option `ip-forward` says no (libnetwork/drivers/bridge/setup_ip_forwarding.go), and the
//! neighbour table, which it enlarges for overlay networks of a swarm
//! (libnetwork/drivers/overlay/ostweaks_linux.go).

use serde_json::Value;

use super::{Evidence, IP_FORWARD, Origin, Program};
use crate::kernel::Kernel;

/// Written while it runs (daemon/config/config_linux.go); the second is where `/var/run`
/// is no link.
const RUNNING: [&str; 2] = ["/run/docker.pid", "/var/run/docker.pid"];
const SETTINGS: &str = "/etc/docker/daemon.json";
/// Where its command line is written down. That of the process itself is not read: who
/// reads it waits as long as the memory of the process is locked.
const COMMANDS: [&str; 3] =
    ["/etc/systemd/system/docker.service", "/usr/lib/systemd/system/docker.service", "/etc/default/docker"];
const DROP_INS: &str = "systemd/system/docker.service.d";
/// There while the host is part of a swarm (daemon/cluster/utils.go:savePersistentState).
const SWARM: &str = "/var/lib/docker/swarm/docker-state.json";

/// Only lower values are raised to these.
const NEIGHBOURS: [(&str, &str); 3] =
    [("gc_thresh1", "8192"), ("gc_thresh2", "49152"), ("gc_thresh3", "65536")];

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    let Some(file) = RUNNING.into_iter().find(|file| evidence.has(kernel, file)) else { return };
    let settings = evidence.text(kernel, SETTINGS).unwrap_or_default();
    let settings: Value = serde_json::from_str(&settings).unwrap_or_default();
    let mut commands = COMMANDS.map(str::to_owned).to_vec();
    commands.extend(evidence.drop_ins(kernel, DROP_INS));
    let mut commands = commands.iter().filter_map(|file| evidence.text(kernel, file));
    if settings["ip-forward"] != Value::Bool(false) && !commands.any(|text| says_no(&text)) {
        let place = format!("\"ip-forward\" in {SETTINGS}");
        evidence.claim(Program::Docker, IP_FORWARD, "1", Origin::new(file, place));
    }
    if evidence.has(kernel, SWARM) {
        for (key, value) in NEIGHBOURS {
            let place = "a file of /etc/sysctl.d, to a higher value, which dockerd leaves alone";
            let path = format!("net/ipv4/neigh/default/{key}");
            evidence.claim(Program::Docker, path, value, Origin::new(SWARM, place));
        }
    }
}

/// Whether a command line turns `ip-forward` off: a flag of Go.
fn says_no(text: &str) -> bool {
    let words =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let mut values = words
        .filter_map(|word| word.trim_matches(['"', '\'']).split_once("--ip-forward="))
        .map(|(_, value)| value);
    values.any(|value| matches!(value, "0" | "f" | "F" | "false" | "FALSE" | "False"))
}
