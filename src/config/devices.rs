//! Devices that are left out unless the user says otherwise.

use regex::Regex;

/// Names that the plumbing of containers and virtual machines goes by. Each
/// carries what another device carries too, and there can be thousands.
const PLUMBING: &[&str] = &[
    // one end of a pair, the other in a container
    r"veth",
    r"(lxc|azv|gke|eni)[0-9a-f]{5,}$",
    r"lxc_health$",
    // Docker, Podman, nerdctl, LXC, LXD, Incus
    r"docker",
    r"br-[0-9a-f]{12}$",
    r"(podman|nerdctl)[0-9]",
    r"(lxc|lxd|incus)br[0-9]",
    // libvirt, Proxmox, Xen
    r"virbr",
    r"vnet[0-9]",
    r"tap",
    r"(fwbr|fwpr|fwln)[0-9]",
    r"vif[0-9]",
    // Kubernetes and its network plugins
    r"cali",
    r"(tunl0|vxlan\.calico|vxlan-v6\.calico|wireguard\.cali|wg-v6\.cali)$",
    r"cilium",
    r"flannel",
    r"cni",
    r"kube-",
    r"nodelocaldns",
    r"(weave|datapath)$",
    r"antrea-",
    // Open vSwitch and OpenStack
    r"ovs-(system|netdev)$",
    r"genev_sys",
    r"vxlan_sys",
    r"q(br|vb|vo)[0-9a-f]",
    // carry no traffic of their own
    r"dummy",
    r"ifb",
];

/// Matches the names of [`PLUMBING`].
pub(super) fn plumbing() -> Regex {
    let pattern = format!("^(?:{})", PLUMBING.join("|"));
    Regex::new(&pattern).expect("the table above consists of valid patterns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_carry_the_host_s_traffic_stay() {
        let plumbing = plumbing();
        for name in [
            "lo",
            "eth0",
            "eth0.100",
            "ens3",
            "ens3f0np0",
            "enp0s31f6",
            "eno1",
            "enx0c37965f8a10",
            "enP2s3",
            "eni0",
            "em1",
            "p1p1",
            "wlan0",
            "wlp3s0",
            "wwan0",
            "bond0",
            "bond0.20",
            "team0",
            "br0",
            "br-lan",
            "br-ex",
            "bridge0",
            "vmbr0",
            "vlan100",
            "wg0",
            "tun0",
            "ppp0",
            "vxlan100",
            "vxlan0",
            "gre1",
            "sit0",
            "ipsec0",
            "ib0",
            "usb0",
            "macvlan0",
            "xfrm0",
            "tailscale0",
            "lxc0",
        ] {
            assert!(!plumbing.is_match(name), "{name} is left out");
        }
    }

    #[test]
    fn plumbing_is_left_out() {
        let plumbing = plumbing();
        for name in [
            "veth0a1b2c3",
            "vethwe-bridge",
            "veth100i0",
            "cali0123456789a",
            "cilium_host",
            "cilium_net",
            "cilium_vxlan",
            "lxc0a1b2c3d4e5f",
            "lxc_health",
            "lxcbr0",
            "lxdbr0",
            "incusbr0",
            "docker0",
            "docker_gwbridge",
            "br-0123456789ab",
            "virbr0",
            "virbr0-nic",
            "vnet12",
            "tap0",
            "tap1a2b3c4d-5e",
            "tap100i0",
            "fwbr100i0",
            "fwpr100p0",
            "fwln100i0",
            "vif3.0",
            "flannel.1",
            "flannel-v6.1",
            "cni0",
            "cni-podman0",
            "podman1",
            "nerdctl0",
            "kube-ipvs0",
            "kube-bridge",
            "nodelocaldns",
            "dummy0",
            "ifb0",
            "ifb4eth0",
            "tunl0",
            "vxlan.calico",
            "wireguard.cali",
            "weave",
            "datapath",
            "antrea-gw0",
            "ovs-system",
            "genev_sys_6081",
            "vxlan_sys_4789",
            "qbr0a1b2c3d-4e",
            "qvo0a1b2c3d-4e",
            "eni0a1b2c3d4e5",
            "gke0a1b2c3d4e5",
            "azv0a1b2c3d4e5",
        ] {
            assert!(plumbing.is_match(name), "{name} stays");
        }
    }
}
