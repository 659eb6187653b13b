//! dockerd (20.10 and 26.1): forwarding, which it turns on for its bridges unless the
//! option `ip-forward` says no (libnetwork/drivers/bridge/setup_ip_forwarding.go), and the
//! neighbour table, which it enlarges for overlay networks of a swarm
//! (libnetwork/drivers/overlay/ostweaks_linux.go).

use serde_json::Value;

use super::{Evidence, IP_FORWARD, Origin, Program};
use crate::kernel::{Kernel, Root};

/// Written while it runs (daemon/config/config_linux.go); the second is where `/var/run`
/// is no link.
const RUNNING: [&str; 2] = ["/run/docker.pid", "/var/run/docker.pid"];
const SETTINGS: &str = "/etc/docker/daemon.json";
/// There while the host is part of a swarm (daemon/cluster/utils.go:savePersistentState).
const SWARM: &str = "/var/lib/docker/swarm/docker-state.json";

/// Only lower values are raised to these.
const NEIGHBOURS: [(&str, &str); 3] =
    [("gc_thresh1", "8192"), ("gc_thresh2", "49152"), ("gc_thresh3", "65536")];

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    let Some((file, number)) =
        RUNNING.into_iter().find_map(|file| Some((file, evidence.text(kernel, file)?)))
    else {
        return;
    };
    let settings = evidence.text(kernel, SETTINGS).unwrap_or_default();
    let settings: Value = serde_json::from_str(&settings).unwrap_or_default();
    let number: Option<u32> = number.trim().parse().ok();
    let command = number.and_then(|number| kernel.read(Root::Proc, format_args!("{number}/cmdline")).ok());
    if settings["ip-forward"] != Value::Bool(false) && !command.is_some_and(says_no) {
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

/// Whether a command line, whose words end in NUL, turns `ip-forward` off: a flag of Go.
fn says_no(command: &[u8]) -> bool {
    let words = command.split(|byte| *byte == 0);
    let mut values = words.filter_map(|word| word.strip_prefix(b"--ip-forward="));
    values.any(|value| matches!(value, b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False"))
}
