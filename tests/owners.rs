//! What the files of programs say that these set, over hosts written by hand in the formats
//! that the programs were seen to write. What is expected is what they were seen to set;
//! of a swarm and of kube-proxy, what their sources say.

use std::fs;
use std::path::Path;
use std::process::Command;

use nettune::kernel::{Kernel, Roots};
use nettune::read::owners::{Claim, Evidence, Program, read};

use crate::fixture;
use crate::support::{Scratch, skip};

fn evidence(host: &Path) -> Evidence {
    let roots = Roots { proc: host.join("proc"), sys: host.join("sys"), host: host.join("root") };
    read(&mut Kernel::live(roots))
}

/// Claims of a program over a fixture, as path, value and place.
fn claims(name: &str, program: Program) -> Vec<(String, String, String)> {
    let found = evidence(&fixture::root().join("owners").join(name)).claims;
    assert!(found.iter().all(|claim| claim.program == program), "{found:?}");
    let mut claims: Vec<_> =
        found.into_iter().map(|claim| (claim.path, claim.value, claim.origin.place)).collect();
    claims.sort();
    claims
}

fn expect<const N: usize>(name: &str, program: Program, expected: [(&str, &str, &str); N]) {
    let expected = expected.map(|(path, value, place)| (path.into(), value.into(), place.into()));
    assert_eq!(claims(name, program), expected, "{name}");
}

const IP_FORWARD: &str = "net/ipv4/ip_forward";

#[test]
fn ufw_applies_the_file_that_its_defaults_name() {
    let file = "/etc/ufw/sysctl.conf";
    let expected = [
        ("net/ipv4/conf/all/rp_filter", "2", file),
        ("net/ipv4/conf/eth0.7/rp_filter", "0", file),
        (IP_FORWARD, "1", file),
    ];
    expect("ufw", Program::Ufw, expected);
}

#[test]
fn dockerd_forwards_unless_it_is_told_not_to() {
    let higher = "a file of /etc/sysctl.d, to a higher value, which dockerd leaves alone";
    let expected = [
        (IP_FORWARD, "1", "\"ip-forward\" in /etc/docker/daemon.json"),
        ("net/ipv4/neigh/default/gc_thresh1", "8192", higher),
        ("net/ipv4/neigh/default/gc_thresh2", "49152", higher),
        ("net/ipv4/neigh/default/gc_thresh3", "65536", higher),
    ];
    expect("docker", Program::Docker, expected);
    expect("docker-off", Program::Docker, []);
    expect("docker-flag", Program::Docker, []);
}

#[test]
fn cloud_init_runs_what_it_stored() {
    let user = |part: &str| format!("{part} in the instance's user data");
    let (boot, run, script) = (user("bootcmd"), user("runcmd"), user("a script"));
    let expected = [
        ("net/core/netdev_max_backlog", "5000", "bootcmd in the instance's vendor data"),
        ("net/core/somaxconn", "2222", &boot),
        ("net/core/somaxconn", "3333", &run),
        ("net/core/somaxconn", "4444", &run),
        ("net/ipv4/tcp_fin_timeout", "33", &run),
        ("net/ipv4/tcp_keepalive_time", "600", &script),
        ("net/ipv4/tcp_max_syn_backlog", "555", &boot),
        ("net/ipv4/tcp_rmem", "4096 87380 7777777", &boot),
    ];
    expect("cloud-init", Program::CloudInit, expected);
}

#[test]
fn networkd_names_the_files_that_its_links_are_set_up_by() {
    let expected = [
        (
            "net/ipv4/conf/eth0/rp_filter",
            "2",
            "IPv4ReversePathFilter= in /etc/systemd/network/10-up.network.d/filter.conf",
        ),
        (IP_FORWARD, "1", "IPMasquerade= in a file /etc/systemd/network/80-container-ve.network.d/*.conf"),
        (IP_FORWARD, "1", "IPv4Forwarding= in /etc/systemd/networkd.conf.d/10-router.conf"),
    ];
    expect("networkd", Program::Networkd, expected);
}

#[test]
fn network_manager_names_the_profiles_that_are_active() {
    let place = |option: &str, number| {
        format!(
            "{option} of the connection (nmcli connection modify 0a000000-0000-4000-8000-00000000000{number})"
        )
    };
    let expected = [
        ("net/ipv4/conf/eth0/rp_filter", "2", &*place("connection.mptcp-flags", 1)),
        (IP_FORWARD, "1", &place("ipv4.method", 2)),
    ];
    expect("network-manager", Program::NetworkManager, expected);
    let found = evidence(&fixture::root().join("owners/network-manager")).claims;
    let over: Vec<_> = found.iter().map(|claim| claim.over).collect();
    assert_eq!(over, [None, Some("1")]);
}

/// With `a b` active: tuned 2.25 was seen to leave 41, 5555555 and what the variable says,
/// and to take `>2222` for somaxconn.
#[test]
fn tuned_loads_each_profile_behind_those_it_includes() {
    let own = |name: &str| format!("/etc/tuned/profiles/{name}/tuned.conf");
    let expected = [
        ("net/core/somaxconn", "2222", &*own("b")),
        ("net/ipv4/tcp_fin_timeout", "41", &own("a")),
        ("net/ipv4/tcp_rmem", "4096 87380 5555555", &own("network-throughput")),
        (
            "net/ipv4/tcp_wmem",
            "4096 16384 16777216",
            "a profile of your own below /etc/tuned with include=network-throughput",
        ),
    ];
    expect("tuned", Program::Tuned, expected);
}

/// Files of a host with the active profile replaced, and what is left of its claims.
#[test]
fn tuned_applies_nothing_where_a_profile_lacks_or_it_does_not_run() {
    let left = |what: &str| {
        let scratch = Scratch::new();
        let host = scratch.path("host");
        fs::create_dir_all(&host).unwrap();
        fixture::copy(&fixture::root().join("owners/tuned"), &host);
        let done = Command::new("sh").arg("-c").arg(what).current_dir(host.join("root")).status();
        assert!(done.unwrap().success());
        evidence(&host).claims.len()
    };
    assert_eq!(left("true"), 4);
    assert_eq!(left("echo a none > etc/tuned/active_profile"), 0);
    assert_eq!(left("rm run/tuned/tuned.pid"), 0);
    assert_eq!(left("rm run/tuned/tuned.pid; echo daemon=0 > etc/tuned/tuned-main.conf"), 4);
    assert_eq!(left("echo c > etc/tuned/active_profile"), 3);
    assert_eq!(
        left("echo c > etc/tuned/active_profile; echo network-throughput > etc/tuned/post_loaded_profile"),
        5
    );
    assert_eq!(left("echo profile_dirs=/usr/lib/tuned/profiles,/etc/tuned > etc/tuned/tuned-main.conf"), 0);
    // Each includes the other: each file counts once.
    assert_eq!(left("printf '[main]\\ninclude=a\\n' > etc/tuned/c/tuned.conf"), 4);
}

#[test]
fn the_configuration_of_kube_proxy_is_that_of_its_pod() {
    let (settings, origin) = evidence(&fixture::root().join("owners/kube-proxy")).kube_proxy.unwrap();
    assert_eq!((settings.max_per_core, settings.min), (32768, 200_000));
    assert_eq!((settings.tcp_established, settings.tcp_close_wait), (86400, 1800));
    assert_eq!((settings.udp, settings.udp_stream), (45, 0));
    assert!(origin.place.contains("ConfigMap kube-proxy"), "{origin:?}");
}

/// What is there of a program is noticed when it comes, also where only its folder was.
#[test]
fn what_comes_later_is_among_what_is_looked_at() {
    for name in ["ufw", "docker", "cloud-init", "networkd", "network-manager", "tuned", "kube-proxy"] {
        let scratch = Scratch::new();
        let host = scratch.path("host");
        fs::create_dir_all(host.join("root")).unwrap();
        let roots = Roots { proc: host.join("proc"), sys: host.join("sys"), host: host.join("root") };
        let mut kernel = Kernel::live(roots);
        let before = read(&mut kernel);
        assert_eq!((&before.claims, &before.kube_proxy), (&Vec::<Claim>::new(), &None));
        let seen = nettune::read::owners::look(&kernel, &before);
        fixture::copy(&fixture::root().join("owners").join(name), &host);
        assert_ne!(nettune::read::owners::look(&kernel, &before), seen, "{name}");
    }
}

/// Runs systemd-networkd with a .network file that asks for masquerading, and prints what
/// it left: its files below `$1/root/run`, the device below `$1/sys`.
const NETWORKD: &str = r#"
set -eu
host=$1
mount -t tmpfs tmpfs /run
mount -t sysfs -o ro sysfs /sys
mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
chown -R systemd-network:systemd-network /run/systemd/netif
printf '[Match]\nName=d0\n[Network]\nAddress=192.0.2.1/24\nIPMasquerade=ipv4\n' > /run/systemd/network/10-up.network
ip link add d0 type veth peer name d1
echo 0 > /proc/sys/net/ipv4/ip_forward
/usr/lib/systemd/systemd-networkd >&2 & networkd=$!
for i in $(seq 100); do
    [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ] && grep -qs NETWORK_FILE /run/systemd/netif/links/* && break
    sleep 0.1
done
mkdir -p "$host/root/run" "$host/sys/class/net/d0"
cp -r /run/systemd "$host/root/run/"
cp /sys/class/net/d0/ifindex /sys/class/net/d0/address "$host/sys/class/net/d0/"
cat /proc/sys/net/ipv4/ip_forward
kill $networkd
"#;

#[test]
fn networkd_sets_what_it_is_said_to() {
    if !Path::new("/usr/lib/systemd/systemd-networkd").exists() {
        return skip("systemd-networkd is not here; `make tools` installs it");
    }
    let scratch = Scratch::new();
    let host = scratch.path("host");
    fs::create_dir_all(&host).unwrap();
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private"])
        .args(["sh", "-c", NETWORKD, "sh"])
        .arg(&host)
        .output()
        .unwrap();
    if !output.status.success() {
        return skip(&format!("no namespace: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    assert_eq!(output.stdout, b"1\n", "{}", String::from_utf8_lossy(&output.stderr));
    let claims = evidence(&host).claims;
    let [claim] = claims.as_slice() else { panic!("{claims:?}") };
    assert_eq!((claim.program, &*claim.path, &*claim.value), (Program::Networkd, IP_FORWARD, "1"));
    assert_eq!(claim.origin.file, "/run/systemd/network/10-up.network");
    assert_eq!(claim.origin.place, "IPMasquerade= in a file /etc/systemd/network/10-up.network.d/*.conf");
}
