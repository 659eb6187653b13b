//! kube-proxy: whether it runs on this host, and how its conntrack settings are set up
//! (pkg/proxy/apis/config/v1alpha1/defaults.go of Kubernetes 1.31; what it does with them is
//! in cmd/kube-proxy/app/conntrack.go, later in pkg/proxy/conntrack/sysctls.go).

use super::{Evidence, Origin};
use crate::kernel::Kernel;

/// Where installers other than kubeadm put what it needs, and where its settings are then.
const FILES: [(&str, &str); 3] = [
    ("/var/lib/kube-proxy/config.conf", "the section conntrack of /var/lib/kube-proxy/config.conf"),
    ("/var/lib/kube-proxy/kubeconfig", "the options --conntrack-… of kube-proxy"),
    (
        "/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig",
        "kube-proxy-arg in /etc/rancher/k3s/config.yaml, with conntrack-…",
    ),
];

/// Folders of the pods on this host.
const PODS: &str = "/var/lib/kubelet/pods";

/// Its configuration in the pod that kubeadm makes, and where that comes from.
const MOUNTED: &str = "volumes/kubernetes.io~configmap/kube-proxy/config.conf";
const CONFIG_MAP: &str = "the section conntrack of the ConfigMap kube-proxy in the namespace kube-system";

/// What kube-proxy does to connection tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubeProxy {
    /// Entries for each CPU; 0 leaves the limit alone.
    pub max_per_core: u64,
    /// The least limit, entries.
    pub min: u64,
    /// `nf_conntrack_tcp_timeout_established`, seconds; 0 leaves it alone.
    pub tcp_established: u64,
    /// `nf_conntrack_tcp_timeout_close_wait`, seconds; 0 leaves it alone.
    pub tcp_close_wait: u64,
    /// `nf_conntrack_udp_timeout`, seconds; 0 leaves it alone. From 1.29 on.
    pub udp: u64,
    /// `nf_conntrack_udp_timeout_stream`, seconds; 0 leaves it alone. From 1.29 on.
    pub udp_stream: u64,
}

impl Default for KubeProxy {
    fn default() -> Self {
        Self {
            max_per_core: 32768,
            min: 131072,
            tcp_established: 86400,
            tcp_close_wait: 3600,
            udp: 0,
            udp_stream: 0,
        }
    }
}

pub(super) fn read(kernel: &mut Kernel, evidence: &mut Evidence) {
    let pods = evidence.entries(kernel, PODS);
    let mounted = pods.into_iter().map(|pod| (format!("{pod}/{MOUNTED}"), CONFIG_MAP));
    for (path, place) in mounted.chain(FILES.map(|(path, place)| (path.to_owned(), place))) {
        if let Some(text) = evidence.text(kernel, &path) {
            evidence.kube_proxy = Some((parse_kube_proxy(&text), Origin::new(&path, place)));
            return;
        }
    }
}

/// The conntrack settings of a KubeProxyConfiguration; what it does not state, or states
/// as null, is the default.
pub fn parse_kube_proxy(text: &str) -> KubeProxy {
    let mut settings = KubeProxy::default();
    let mut inside = false;
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim().trim_matches('"');
        if !line.starts_with([' ', '\t']) {
            inside = key == "conntrack";
        } else if inside {
            let (to, value) = match key.trim() {
                "maxPerCore" => (&mut settings.max_per_core, value.parse().ok()),
                "min" => (&mut settings.min, value.parse().ok()),
                "tcpEstablishedTimeout" => (&mut settings.tcp_established, seconds(value)),
                "tcpCloseWaitTimeout" => (&mut settings.tcp_close_wait, seconds(value)),
                "udpTimeout" => (&mut settings.udp, seconds(value)),
                "udpStreamTimeout" => (&mut settings.udp_stream, seconds(value)),
                _ => continue,
            };
            *to = value.unwrap_or(*to);
        }
    }
    settings
}

/// A duration as Go prints it, `24h0m0s`, in whole seconds.
fn seconds(text: &str) -> Option<u64> {
    let mut total = 0u64;
    let mut rest = text;
    while let Some(end) = rest.find(|character: char| !character.is_ascii_digit()) {
        let number: u64 = rest[..end].parse().ok()?;
        let unit = match rest.as_bytes()[end] {
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[end + 1..];
    }
    (rest.is_empty() && !text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_stated_is_the_default() {
        assert_eq!(
            parse_kube_proxy("mode: iptables\nconntrack:\n  maxPerCore: null\n"),
            KubeProxy::default()
        );
        let text = "conntrack:\n  maxPerCore: 65536\n  min: 200000\n  tcpEstablishedTimeout: 2h30m0s\n  \
                    tcpCloseWaitTimeout: 0s\n  udpTimeout: 45s\niptables:\n  min: 5\n";
        let expected = KubeProxy {
            max_per_core: 65536,
            min: 200_000,
            tcp_established: 9000,
            tcp_close_wait: 0,
            udp: 45,
            udp_stream: 0,
        };
        assert_eq!(parse_kube_proxy(text), expected);
        assert_eq!((seconds("1d"), seconds(""), seconds("ü")), (None, None, None));
    }
}
