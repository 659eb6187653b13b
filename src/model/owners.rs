//! Which program likely set a running value that is not what the files of sysctl.d say.

use super::parameters::State;
use super::persisted::{Key, Setting, Stored, Taking, written};
use crate::read::owners::{Evidence, KubeProxy, Origin, Program};
use crate::read::persisted::matches;
use crate::read::sysctl::Value;

/// A parameter and a program that sets it to what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// As in [`State`].
    pub name: String,
    /// The program.
    pub program: Program,
    /// What shows that, and where it is changed.
    pub origin: Origin,
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
    let mut found: Vec<Owned> = Vec::new();
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
        let was =
            |text: &str| persisted.is_some() && written(key.parameter, text, taking).as_ref() == persisted;
        let by_formula = evidence.kube_proxy.iter().filter(|(kube_proxy, _)| {
            kube_proxy_sets(kube_proxy, &key.name, cpus).iter().any(|value| says(&value.to_string()))
        });
        let by_file = evidence.claims.iter().filter(|claim| {
            (claim.path == key.path || matches(&claim.path, &key.path))
                && says(&claim.value)
                && claim.over.is_none_or(was)
        });
        let by_formula = by_formula.map(|(_, origin)| (Program::KubeProxy, origin));
        for (program, origin) in by_formula.chain(by_file.map(|claim| (claim.program, &claim.origin))) {
            if !found.iter().any(|owned| owned.name == state.name && owned.program == program) {
                found.push(Owned { name: state.name.clone(), program, origin: origin.clone() });
            }
        }
    }
    found
}

/// What kube-proxy may set a parameter to; nothing where it leaves it alone.
fn kube_proxy_sets(settings: &KubeProxy, name: &str, cpus: Option<u64>) -> Vec<u64> {
    /// What later releases bound the product by.
    const MOST: u64 = 1 << 20;
    let most = || {
        let product = settings.max_per_core.saturating_mul(cpus?);
        let most = settings.min.max(product);
        (product > 0).then(|| if product > MOST { vec![most, MOST] } else { vec![most] })
    };
    let mut values = match name {
        "net.netfilter.nf_conntrack_max" => most().unwrap_or_default(),
        // A table that is smaller is enlarged to this.
        "net.netfilter.nf_conntrack_buckets" => {
            most().unwrap_or_default().into_iter().map(|most| most / 4).collect()
        }
        "net.netfilter.nf_conntrack_tcp_timeout_established" => vec![settings.tcp_established],
        "net.netfilter.nf_conntrack_tcp_timeout_close_wait" => vec![settings.tcp_close_wait],
        "net.netfilter.nf_conntrack_udp_timeout" => vec![settings.udp],
        "net.netfilter.nf_conntrack_udp_timeout_stream" => vec![settings.udp_stream],
        _ => Vec::new(),
    };
    values.retain(|value| *value > 0);
    values
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
    use crate::read::owners::Claim;

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
        Claim { program, path: path.into(), value: value.into(), over: None, origin: origin() }
    }

    fn origin() -> Origin {
        Origin { file: "/etc/x".into(), place: "/etc/x".into() }
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
        evidence.kube_proxy = Some((settings, origin()));
        assert_eq!(owner(max(500_000), &[], &evidence), Some(Program::KubeProxy));
        evidence.kube_proxy = Some((KubeProxy { max_per_core: 65536, ..settings }, origin()));
        assert_eq!(owner(max(524_288), &[], &evidence), Some(Program::KubeProxy));
        assert_eq!(owner(max(262_144), &[], &evidence), None, "the default");
        let close_wait = state("net.netfilter.nf_conntrack_tcp_timeout_close_wait", 3600, Some(60));
        assert_eq!(owner(close_wait, &[], &evidence), Some(Program::KubeProxy));
        let buckets = |value| state("net.netfilter.nf_conntrack_buckets", value, Some(65536));
        assert_eq!(owner(buckets(131_072), &[], &evidence), Some(Program::KubeProxy));
        evidence.kube_proxy = Some((KubeProxy { max_per_core: 200_000, ..settings }, origin()));
        assert_eq!(owner(max(1_600_000), &[], &evidence), Some(Program::KubeProxy));
        assert_eq!(owner(max(1_048_576), &[], &evidence), Some(Program::KubeProxy), "the most of later ones");
        evidence.kube_proxy = Some((KubeProxy { max_per_core: 0, ..settings }, origin()));
        assert_eq!(owner(max(500_000), &[], &evidence), None, "it leaves the limit alone");
    }

    fn setting(name: &str, value: i64) -> Setting {
        Setting {
            name: name.into(),
            fields: Vec::new(),
            value: Some(Stored::Numbers(vec![Some(value)])),
            place: None,
            overridden: Vec::new(),
            conflict: None,
        }
    }

    #[test]
    fn a_value_that_files_explain_has_no_owner() {
        let claims = vec![claim(Program::Docker, "net/ipv4/ip_forward", "1")];
        let evidence = Evidence { claims, ..Evidence::default() };
        let name = "net.ipv4.ip_forward";
        let forward = |value| state(name, value, Some(0));
        assert_eq!(owner(forward(1), &[], &evidence), Some(Program::Docker));
        assert_eq!(owner(forward(1), &[setting(name, 0)], &evidence), Some(Program::Docker));
        assert_eq!(owner(forward(1), &[setting(name, 1)], &evidence), None);
        assert_eq!(owner(forward(0), &[setting(name, 1)], &evidence), None, "docker does not turn it off");
    }

    #[test]
    fn all_programs_that_state_the_value_are_named_once() {
        let of = |program| claim(program, "net/ipv4/ip_forward", "1");
        let claims = vec![of(Program::Docker), of(Program::Networkd), of(Program::Networkd)];
        let evidence = Evidence { claims, ..Evidence::default() };
        let states = [state("net.ipv4.ip_forward", 1, Some(0))];
        let found = find(&states, &keys(&[], |_| true), &[], &evidence, None, Taking::of(None, None));
        let programs: Vec<_> = found.iter().map(|owned| owned.program).collect();
        assert_eq!(programs, [Program::Docker, Program::Networkd]);
    }

    #[test]
    fn what_is_only_relaxed_was_strict_before() {
        let name = "net.ipv4.conf.all.rp_filter";
        let mut relaxed = claim(Program::NetworkManager, "net/ipv4/conf/all/rp_filter", "2");
        relaxed.over = Some("1");
        let evidence = Evidence { claims: vec![relaxed], ..Evidence::default() };
        let loose = || State { name: name.into(), ..state("net.ipv4.conf.*.rp_filter", 2, Some(0)) };
        assert_eq!(owner(loose(), &[setting(name, 1)], &evidence), Some(Program::NetworkManager));
        assert_eq!(owner(loose(), &[setting(name, 0)], &evidence), None);
        assert_eq!(owner(loose(), &[], &evidence), None);
    }

    #[test]
    fn a_claim_states_the_very_value() {
        let claims = vec![claim(Program::Tuned, "net/core/somaxconn", "0x800")];
        let evidence = Evidence { claims, ..Evidence::default() };
        assert_eq!(owner(state("net.core.somaxconn", 2048, None), &[], &evidence), Some(Program::Tuned));
        assert_eq!(owner(state("net.core.somaxconn", 2049, None), &[], &evidence), None);
    }
}
