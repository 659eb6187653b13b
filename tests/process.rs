//! The exporter as a process: sockets, signals, reloads and systemd.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::thread;

use crate::support::{Address, DEADLINE, Exporter, Scratch, eventually, nettune};

/// Value of a sample without labels.
fn value(exposition: &str, name: &str) -> Option<f64> {
    let mut lines = exposition.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn has_source(exporter: &Exporter, source: &str) -> bool {
    let series = format!("nettune_collector_success{{collector=\"{source}\"}}");
    exporter.get("/metrics", &[]).text().contains(&series)
}

#[test]
fn it_says_what_it_is_when_it_starts() {
    let exporter = Exporter::start(&[]);
    let line = exporter.wait_for_log("listening");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(line.contains(&format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))), "{line}");
    assert!(line.contains(&format!("kernel=\"{}\"", release.trim())), "{line}");

    let json = Exporter::spawn(nettune(&["--web.listen-address=127.0.0.1:0", "--log.format=json"]));
    let line: serde_json::Value = serde_json::from_str(&json.wait_for_log("listening")).unwrap();
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["kernel"], release.trim());
}

#[test]
fn it_listens_on_several_addresses() {
    let scratch = Scratch::new();
    let socket = format!("--web.listen-address=unix:{}", scratch.path("socket").display());
    let exporter = Exporter::start(&["serve", "--web.listen-address=localhost:0", &socket]);
    assert_eq!(exporter.addresses().len(), 3);
    for address in exporter.addresses() {
        assert_eq!(address.get("/-/healthy", &[]).status, 200, "{address:?}");
    }
}

#[test]
fn a_port_alone_takes_both_families() {
    let exporter = Exporter::launch(nettune(&["--web.listen-address=:0"]));
    let Address::Tcp(address) = exporter.address() else { panic!("a port is of TCP") };
    let loopback = Address::Tcp((Ipv4Addr::LOCALHOST, address.port()).into());
    assert_eq!(loopback.get("/-/healthy", &[]).status, 200);
    // Where the kernel has no IPv6, IPv4 alone is listened on.
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        let loopback = Address::Tcp((Ipv6Addr::LOCALHOST, address.port()).into());
        assert_eq!(loopback.get("/-/healthy", &[]).status, 200);
    }
}

#[test]
fn a_unix_socket_is_removed_at_the_end_and_replaced_when_stale() {
    let scratch = Scratch::new();
    let path = scratch.path("socket");
    let flag = format!("--web.listen-address=unix:{}", path.display());
    // Left behind by a process that is gone.
    drop(UnixListener::bind(&path).unwrap());
    let mut exporter = Exporter::launch(nettune(&[&flag]));
    assert_eq!(exporter.get("/-/healthy", &[]).status, 200);

    // In use: neither taken nor removed.
    let second = nettune(&[&flag]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&second.stderr).lines().last(),
        Some(&*format!("nettune: {flag}: Address already in use (os error 98)"))
    );
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(exporter.get("/-/healthy", &[]).status, 200);

    exporter.signal("TERM");
    assert_eq!(exporter.wait().code(), Some(0));
    assert!(!path.exists());

    // Not a socket: left alone.
    fs::write(&path, "precious").unwrap();
    let third = nettune(&[&flag]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&third.stderr).lines().last(),
        Some(&*format!("nettune: {flag}: a file that is not a socket is in the way"))
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn it_takes_the_sockets_that_systemd_passes() {
    let scratch = Scratch::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(tcp.local_addr().unwrap());
    let path = scratch.path("socket");
    let unix = UnixListener::bind(&path).unwrap();
    // The shell moves them to where the protocol wants them.
    let script =
        r#"LISTEN_PID=$$ LISTEN_FDS=2 exec "$0" --web.systemd-socket 3<&0 4>&1 </dev/null >/dev/null"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_nettune")]);
    command.stdin(Stdio::from(OwnedFd::from(tcp))).stdout(Stdio::from(OwnedFd::from(unix)));
    let mut exporter = Exporter::launch(command);
    assert_eq!(address.get("/-/healthy", &[]).status, 200);
    assert_eq!(Address::Unix(path.clone()).get("/-/healthy", &[]).status, 200);
    exporter.signal("TERM");
    assert_eq!(exporter.wait().code(), Some(0));
    assert!(path.exists(), "the socket's file is systemd's");
}

#[test]
fn connections_do_not_take_the_descriptors_that_sources_need() {
    let mut command = Command::new("sh");
    let script = r#"ulimit -n 60; exec "$0" --web.listen-address=127.0.0.1:0"#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_nettune")]);
    let exporter = Exporter::launch(command);
    exporter.wait_for_log("connections=20");
    exporter.wait_until_ready();
    // Idle ones make room for whoever asks for something.
    let mut held = Vec::new();
    for _ in 0..50 {
        let mut connection = exporter.address().connect().unwrap();
        connection.send("GET", "/-/healthy", &[]).unwrap();
        assert_eq!(connection.receive("GET").unwrap().status, 200);
        held.push(connection);
    }
    let text = exporter.get("/metrics", &[]).text().to_owned();
    assert!(text.contains("nettune_collector_success{"));
    let failed =
        text.lines().filter(|line| line.starts_with("nettune_collector_success{") && line.ends_with(" 0"));
    assert_eq!(failed.count(), 0, "{}", exporter.log());
    drop(held);
}

/// A reload must not hold up anything, whatever the file has become.
#[test]
fn a_configuration_file_that_is_a_pipe_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.file("nettune.yaml", "collectors:\n  disabled: [softnet]\n");
    let exporter = Exporter::start(&["--config.file", file.to_str().unwrap()]);
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    exporter.signal("HUP");
    let line = exporter.wait_for_log("not reloaded");
    assert!(line.contains("not a regular file"), "{line}");
    assert_eq!(exporter.get("/-/healthy", &[]).status, 200);
}

#[test]
fn a_hangup_reloads_the_file_if_it_is_good() {
    let scratch = Scratch::new();
    let file = scratch.file("nettune.yaml", "collectors:\n  disabled: [softnet]\n");
    let exporter = Exporter::start(&["--config.file", file.to_str().unwrap()]);
    let metric = |name: &str| value(exporter.get("/metrics", &[]).text(), name);
    let (successful, timestamp) =
        ("nettune_config_last_reload_successful", "nettune_config_last_reload_success_timestamp_seconds");
    assert!(!has_source(&exporter, "softnet") && has_source(&exporter, "netstat"));
    let started = metric(timestamp).expect("the start counts as a reload");
    assert_eq!(metric(successful), Some(1.0));

    fs::write(&file, "collectors:\n  disabled: [nosuch]\n").unwrap();
    exporter.signal("HUP");
    let line = exporter.wait_for_log("not reloaded");
    assert!(line.contains(&format!("{}:2:14: collectors.disabled[0]: unknown", file.display())), "{line}");
    assert_eq!(metric(successful), Some(0.0));
    assert_eq!(metric(timestamp), Some(started));
    assert!(!has_source(&exporter, "softnet") && has_source(&exporter, "netstat"));
    assert!(exporter.get("/", &[]).text().contains("The last reload failed"));

    fs::write(&file, "collectors:\n  disabled: [netstat]\n").unwrap();
    exporter.signal("HUP");
    exporter.wait_for_log("configuration reloaded");
    assert!(has_source(&exporter, "softnet") && !has_source(&exporter, "netstat"));
    assert_eq!(metric(successful), Some(1.0));
    assert!(metric(timestamp) >= Some(started));
}

/// What the file declares is there for the rules, until its day has passed.
#[test]
fn declared_limits_and_accepted_findings_are_exported() {
    let scratch = Scratch::new();
    let alert = "NettuneAcceptQueueFullSomaxconn";
    let accepted = |until: &str| {
        format!(
            "limits:\n  devices: {{eth0: 1Gbit/s}}\n  idle_timeout: 900s\naccepted:\n- alert: {alert}\n  \
            port: '443'\n  reason: refuses early on purpose\n  until: {until}\n"
        )
    };
    let file = scratch.file("nettune.yaml", &accepted("2999-12-31"));
    let exporter = Exporter::start(&["--config.file", file.to_str().unwrap()]);
    let info = format!("nettune_accepted_finding_info{{alert=\"{alert}\"");
    let text = exporter.get("/metrics", &[]).text().to_owned();
    let line = text.lines().find(|line| line.starts_with(&info)).unwrap();
    assert!(line.contains("port=\"443\"") && line.contains("device=\"\""), "{line}");
    assert_eq!(value(&text, "nettune_accepted_findings_expired"), Some(0.0));
    assert_eq!(value(&text, "nettune_middlebox_idle_limit_seconds"), Some(900.0));
    assert_eq!(value(&text, "nettune_netdev_declared_speed_bytes{device=\"eth0\"}"), Some(125e6));

    fs::write(&file, accepted("2020-01-31")).unwrap();
    exporter.signal("HUP");
    exporter.wait_for_log("configuration reloaded");
    let text = exporter.get("/metrics", &[]).text().to_owned();
    assert!(!text.contains(&info));
    assert_eq!(value(&text, "nettune_accepted_findings_expired"), Some(1.0));
}

#[test]
fn walking_sockets_stops_and_goes_on_with_a_reload() {
    let scratch = Scratch::new();
    let file = scratch.file("nettune.yaml", "collectors:\n  disabled: []\n");
    let exporter = Exporter::start(&["--config.file", file.to_str().unwrap()]);
    let reload = |disabled: &str| {
        fs::write(&file, format!("collectors:\n  disabled: [{disabled}]\n")).unwrap();
        exporter.signal("HUP");
    };
    let shows = |name: &str| exporter.get("/metrics", &[]).text().lines().any(|line| line.starts_with(name));
    let both = ["nettune_listener_sockets{", "nettune_tcp_connections{"];
    assert!(both.iter().all(|name| shows(name)) && shows("nettune_sockets_passes_total "));
    reload("listener, connection, udp");
    eventually("nothing walks sockets", || (!shows("nettune_sockets_passes_total ")).then_some(()));
    assert!(!both.iter().any(|name| shows(name)));
    reload("connection, udp");
    eventually("listeners are back", || shows(both[0]).then_some(()));
    assert!(!shows(both[1]));
    reload("");
    eventually("connections are back", || shows(both[1]).then_some(()));
    assert!(["listener", "connection", "udp"].iter().all(|source| has_source(&exporter, source)));
}

#[test]
fn a_scrape_in_flight_is_finished_before_the_end() {
    let scratch = Scratch::new();
    let (procfs, gate) = scratch.gated_procfs();
    let procfs = format!("--path.procfs={}", procfs.display());
    let flags = ["--web.listen-address=127.0.0.1:0", "--log.level=debug", &procfs];
    let mut exporter = Exporter::launch(nettune(&flags));
    let address = exporter.address().clone();
    let scrape = thread::spawn(move || address.get("/metrics", &[]));
    exporter.wait_for_log("request");
    exporter.signal("TERM");
    exporter.wait_for_log("stopping");
    let Address::Tcp(address) = exporter.address() else { panic!("it listens on TCP") };
    eventually("it still accepts connections", || TcpStream::connect(address).is_err().then_some(()));

    let _open = gate.open();
    let answer = scrape.join().unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("nettune_collector_success{collector=\"softnet\"}"));
    assert_eq!(exporter.wait().code(), Some(0));
}

#[test]
fn either_signal_ends_it_well() {
    for signal in ["TERM", "INT"] {
        let mut exporter = Exporter::start(&[]);
        exporter.signal(signal);
        assert_eq!(exporter.wait().code(), Some(0), "{signal}");
    }
}

#[test]
fn systemd_is_told_how_it_goes() {
    let scratch = Scratch::new();
    let socket = UnixDatagram::bind(scratch.path("notify")).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let receive = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("a notice comes");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let mut command = nettune(&["--web.listen-address=127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", scratch.path("notify"));
    let mut exporter = Exporter::launch(command);
    assert_eq!(receive(), "READY=1\n");
    assert_eq!(exporter.get("/-/ready", &[]).status, 200);

    exporter.signal("HUP");
    let notice = receive();
    let usec = notice
        .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
        .and_then(|rest| rest.trim_end().parse::<u64>().ok());
    assert!(usec.is_some(), "{notice:?}");
    assert_eq!(receive(), "READY=1\n");

    exporter.signal("TERM");
    assert_eq!(receive(), "STOPPING=1\n");
    assert_eq!(exporter.wait().code(), Some(0));
}
