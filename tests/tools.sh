#!/bin/sh
# Installs the programs that tests and benches run: from Debian where this is
# Debian or a kin of it, else says what is missing. Nothing is installed twice.
set -eu

# command, Debian package
programs='
prometheus prometheus
promtool prometheus
amtool prometheus-alertmanager
prometheus-node-exporter prometheus-node-exporter
ip iproute2
tc iproute2
nstat iproute2
nft nftables
conntrack conntrack
ethtool ethtool
iperf3 iperf3
sysctl procps
/usr/lib/systemd/systemd-sysctl systemd
setpriv util-linux
unshare util-linux
curl curl
python3 python3
'

missing=$(printf '%s' "$programs" | while read -r program package; do
    [ -n "$program" ] || continue
    command -v "$program" >/dev/null 2>&1 || printf '%s\n' "$package"
done | sort -u)

if [ -n "$missing" ]; then
    list=$(printf '%s ' $missing)
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "tests need programs that are not here; install what gives: $list" >&2
        exit 1
    fi
    if [ "$(id -u)" -eq 0 ]; then
        root=''
    elif command -v sudo >/dev/null 2>&1; then
        root='sudo'
    else
        echo "tests need programs that are not here; as root: apt-get install $list" >&2
        exit 1
    fi
    echo "installing: $list"
    # The packages of servers would start them; tests start their own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | $root tee "$policy" >/dev/null
        $root chmod 755 "$policy"
        trap '$root rm -f "$policy"' EXIT
    fi
    $root apt-get update -qq
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $list >/dev/null
fi

if ! cargo deny --version >/dev/null 2>&1; then
    echo "installing: cargo-deny"
    # Unoptimised: it is built in a third of the time and runs for a second.
    cargo install --quiet --locked --profile dev --version '^0.20' cargo-deny
fi
