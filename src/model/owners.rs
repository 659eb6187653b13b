//! Which program likely set a running value that is not what the files of sysctl.d say.

use super::parameters::State;
use super::persisted::{Key, Setting, Stored, Taking, written};
use crate::read::owners::{Evidence, Program};
use crate::read::persisted::matches;
use crate::read::sysctl::Value;

/// A parameter and the program that set it, with what shows that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// As in [`State`].
    pub name: String,
    /// The program.
    pub program: Program,
    /// The file that says so, absolute on the host.
    pub file: String,
}

impl Program {
    /// As in the `owner` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeProxy => "kube-proxy",
            Self::Tuned => "tuned",
            Self::Ufw => "ufw",
            Self::Docker => "docker",
            Self::CloudInit => "cloud-init",
            Self::Networkd => "systemd-networkd",
            Self::NetworkManager => "NetworkManager",
        }
    }

    /// Where its value is changed, as an end of "change it in …".
    pub fn place(self) -> &'static str {
        match self {
            Self::KubeProxy => "the section conntrack of kube-proxy's configuration",
            Self::Tuned => "a profile below /etc/tuned that includes the active one",
            Self::Ufw => "the file that IPT_SYSCTL in /etc/default/ufw names",
            Self::Docker => "\"ip-forward\" in /etc/docker/daemon.json",
            Self::CloudInit => "the instance's user data",
            Self::Networkd => "the .network file below /etc/systemd/network",
            Self::NetworkManager => "the connection's profile (nmcli connection modify)",
        }
    }
}

/// Owners of running values. A value that the files explain has none, and so has one that
/// is the kernel's default where no file sets it; any other only with a file of this host
/// that states this very value, or the formula that gives it. `cpus` are those online.
pub fn find(
    states: &[State],
    keys: &[Key],
    settings: &[Setting],
    evidence: &Evidence,
    cpus: Option<u64>,
    taking: Taking,
) -> Vec<Owned> {
    let mut found = Vec::new();
    for state in states {
        let setting = settings.iter().find(|setting| setting.name == state.name);
        let persisted = setting.and_then(|setting| setting.value.as_ref());
        let explained = match persisted {
            Some(value) => holds(value, &state.value),
            None => {
                matches!((&state.default, &state.value), (Some(default), Value::Numbers(running)) if default == running)
            }
        };
        let Some(key) = keys.iter().find(|key| key.name == state.name).filter(|_| !explained) else {
            continue;
        };
        let says = |text: &str| {
            written(key.parameter, text, taking).is_some_and(|value| holds(&value, &state.value))
        };
        let by_file = evidence
            .claims
            .iter()
            .find(|claim| (claim.path == key.path || matches(&claim.path, &key.path)) && says(&claim.value));
        let by_file = by_file.map(|claim| (claim.program, &claim.file));
        let by_formula = evidence.kube_proxy.as_ref().and_then(|(settings, file)| {
            let value = match key.name.as_str() {
                "net.netfilter.nf_conntrack_max" if settings.max_per_core > 0 => {
                    settings.min.max(settings.max_per_core.saturating_mul(cpus?))
                }
                "net.netfilter.nf_conntrack_tcp_timeout_established" => settings.tcp_established,
                "net.netfilter.nf_conntrack_tcp_timeout_close_wait" => settings.tcp_close_wait,
                _ => return None,
            };
            (value > 0 && says(&value.to_string())).then_some((Program::KubeProxy, file))
        });
        if let Some((program, file)) = by_formula.or(by_file) {
            found.push(Owned { name: state.name.clone(), program, file: file.clone() });
        }
    }
    found
}

/// Whether a running value is what was written, as far as that states it.
fn holds(stored: &Stored, running: &Value) -> bool {
    match (stored, running) {
        (Stored::Numbers(stored), Value::Numbers(running)) => {
            stored.len() == running.len()
                && stored
                    .iter()
                    .zip(running)
                    .all(|(stored, running)| stored.is_none_or(|stored| stored == *running))
        }
        (Stored::Text(stored), Value::Text(running)) => stored == running,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::CATALOGUE;
    use crate::model::persisted::keys;
    use crate::read::owners::{Claim, KubeProxy};

    fn state(name: &str, value: i64, default: Option<i64>) -> State {
        assert!(CATALOGUE.get(name).is_some());
        State {
            name: name.into(),
            fields: Vec::new(),
            value: Value::Numbers(vec![value]),
            default: default.map(|default| vec![default]),
            locked: false,
            changeable: true,
            device: None,
            last_change: None,
        }
    }

    fn claim(program: Program, path: &str, value: &str) -> Claim {
        Claim { program, path: path.into(), value: value.into(), file: "/etc/x".into() }
    }

    fn owner(state: State, settings: &[Setting], evidence: &Evidence) -> Option<Program> {
        let found = find(&[state], &keys(&[], |_| true), settings, evidence, Some(8), Taking::of(None, None));
        found.first().map(|owned| owned.program)
    }

    #[test]
    fn kube_proxy_is_known_by_its_formula_where_it_runs() {
        let mut evidence = Evidence::default();
        let max = |value| state("net.netfilter.nf_conntrack_max", value, Some(262144));
        assert_eq!(owner(max(32768 * 8 + 1), &[], &evidence), None);
        assert_eq!(owner(max(131072), &[], &evidence), None, "no kube-proxy here");
        let settings = KubeProxy { max_per_core: 32768, min: 500_000, ..KubeProxy::default() };
        evidence.kube_proxy = Some((settings, "/var/lib/kube-proxy/config.conf".into()));
        assert_eq!(owner(max(500_000), &[], &evidence), Some(Program::KubeProxy));
        evidence.kube_proxy = Some((KubeProxy { max_per_core: 65536, ..settings }, "/x".into()));
        assert_eq!(owner(max(524_288), &[], &evidence), Some(Program::KubeProxy));
        assert_eq!(owner(max(262_144), &[], &evidence), None, "the default");
        let close_wait = state("net.netfilter.nf_conntrack_tcp_timeout_close_wait", 3600, Some(60));
        assert_eq!(owner(close_wait, &[], &evidence), Some(Program::KubeProxy));
    }

    #[test]
    fn a_value_that_files_explain_has_no_owner() {
        let claims = vec![claim(Program::Docker, "net/ipv4/ip_forward", "1")];
        let evidence = Evidence { claims, ..Evidence::default() };
        let forward = |value| state("net.ipv4.ip_forward", value, Some(0));
        let setting = |value| Setting {
            name: "net.ipv4.ip_forward".into(),
            fields: Vec::new(),
            value: Some(Stored::Numbers(vec![Some(value)])),
            place: None,
            overridden: Vec::new(),
            conflict: None,
        };
        assert_eq!(owner(forward(1), &[], &evidence), Some(Program::Docker));
        assert_eq!(owner(forward(1), &[setting(0)], &evidence), Some(Program::Docker));
        assert_eq!(owner(forward(1), &[setting(1)], &evidence), None);
        assert_eq!(owner(forward(0), &[setting(1)], &evidence), None, "docker does not turn it off");
    }

    #[test]
    fn a_claim_states_the_very_value() {
        let claims = vec![claim(Program::Tuned, "net/core/somaxconn", "0x800")];
        let evidence = Evidence { claims, ..Evidence::default() };
        assert_eq!(owner(state("net.core.somaxconn", 2048, None), &[], &evidence), Some(Program::Tuned));
        assert_eq!(owner(state("net.core.somaxconn", 2049, None), &[], &evidence), None);
    }
}
