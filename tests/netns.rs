//! Other network namespaces of the running kernel, as one exporter outside sees them.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::exposition::{Samples, openmetrics_errors, protobuf, protobuf_samples, samples};
use crate::listeners::{connect, listen};
use crate::namespace::Namespace;
use crate::series::assert_bounded;
use crate::support::{Exporter, Scratch, eventually, nettune, skip};

/// Quick rounds, whatever they cost.
pub(crate) const QUICK: [&str; 2] = ["--sockets.interval=1s", "--sockets.cpu-budget=100%"];

pub(crate) fn exporter(netns: &str) -> Exporter {
    Exporter::start(&[&[format!("--netns={netns}").as_str()], &QUICK[..]].concat())
}

/// Scrapes until `good`.
pub(crate) fn until(exporter: &Exporter, what: &str, good: impl Fn(&Samples) -> bool) -> Samples {
    eventually(what, || Some(samples(exporter.get("/metrics", &[]).text())).filter(&good))
}

/// The value of a metric without other labels, in a namespace.
pub(crate) fn of(found: &Samples, metric: &str, namespace: &Namespace) -> Option<f64> {
    found.get(&format!("{metric}{{netns=\"{}\"}}", namespace.name())).copied()
}

fn somaxconn(found: &Samples, name: &str) -> Option<f64> {
    let labels = format!("{{parameter=\"net.core.somaxconn\",field=\"\",netns=\"{name}\"}}");
    found.get(&format!("nettune_sysctl_value{labels}")).copied()
}

/// The value of a label.
fn label<'s>(series: &'s str, name: &str) -> &'s str {
    let (_, rest) = series.split_once(&format!("{name}=\"")).unwrap();
    rest.split_once("\",").or(rest.split_once("\"}")).unwrap().0
}

pub(crate) fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Closes connections so that the clients' ends would wait in TIME_WAIT.
fn close(port: u16, count: usize) -> TcpListener {
    let server = listen(at(port), 64);
    for _ in 0..count {
        let mut client = TcpStream::connect(at(port)).unwrap();
        let (mut accepted, _) = server.accept().unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        accepted.read_to_end(&mut Vec::new()).unwrap();
        drop(accepted);
        client.read_to_end(&mut Vec::new()).unwrap();
    }
    server
}

#[test]
fn each_fault_is_in_its_own_namespace() {
    let Some(listening) = Namespace::new() else { return };
    let (Some(closing), Some(datagrams)) = (Namespace::new(), Namespace::new()) else { return };
    let all = [&listening, &closing, &datagrams];
    for (number, namespace) in all.iter().enumerate() {
        namespace.sysctl("net.core.somaxconn", &(41 + number).to_string());
    }
    closing.sysctl("net.ipv4.tcp_max_tw_buckets", "1");
    let _queue = listening.inside(|| (listen(at(9001), 2), connect(9001, 9)));
    let _server = closing.inside(|| close(9002, 5));
    let _unread = datagrams.inside(|| {
        let (reader, writer) = (UdpSocket::bind(at(9003)).unwrap(), UdpSocket::bind(at(0)).unwrap());
        for _ in 0..2000 {
            writer.send_to(&[0; 1000], at(9003)).unwrap();
        }
        reader
    });

    let names = all.map(Namespace::name).join(",");
    let exporter = exporter(&names);
    let full = format!(
        "nettune_listener_accept_queue_fill_ratio{{address=\"127.0.0.1\",port=\"9001\",netns=\"{}\"}}",
        listening.name()
    );
    let busy = |namespace: &Namespace| {
        let (state, name) = ("state=\"established\",role=\"server\"", namespace.name());
        format!("nettune_tcp_connections{{{state},netns=\"{name}\"}}")
    };
    let found = until(&exporter, "three namespaces", |found| {
        found.contains_key(&full) && all.iter().all(|one| found.contains_key(&busy(one)))
    });

    for (number, namespace) in all.iter().enumerate() {
        assert_eq!(somaxconn(&found, namespace.name()), Some(41.0 + number as f64));
        let overflows = of(&found, "nettune_tcp_listen_overflows_total", namespace).unwrap();
        assert_eq!(overflows > 0.0, number == 0, "{overflows} overflows in {number}");
        let destroyed = of(&found, "nettune_tcp_time_wait_overflows_total", namespace).unwrap();
        assert_eq!(destroyed > 0.0, number == 1, "{destroyed} without TIME_WAIT in {number}");
        let errors = format!(
            "nettune_udp_receive_buffer_errors_total{{family=\"ipv4\",netns=\"{}\"}}",
            namespace.name()
        );
        assert_eq!(found[&errors] > 0.0, number == 2, "datagrams dropped in {number}");
    }
    all.iter().for_each(|namespace| assert_bounded(&found, namespace.name()));
    assert_eq!(found[&full], 1.0);
    assert_eq!(found[&busy(&listening)], 3.0, "what waits to be accepted");
    // No sockets of TCP at all.
    assert_eq!(found[&busy(&datagrams)], 0.0);
    // Only what differs is shown.
    let shown = found.keys().filter(|series| series.contains("_sysctl_") && series.contains("netns="));
    let shown: BTreeSet<_> = shown.map(|series| label(series, "parameter")).collect();
    assert!(shown.contains("net.ipv4.tcp_max_tw_buckets") && shown.len() < 10, "{shown:?}");

    // The same in every format, and each family in one piece.
    let openmetrics = exporter.get("/metrics", &[("Accept", "application/openmetrics-text;version=1.0.0")]);
    assert_eq!(openmetrics_errors(openmetrics.text()), [""; 0]);
    let wanted = [("Accept", "application/vnd.google.protobuf;encoding=delimited")];
    let binary = protobuf_samples(&protobuf(&exporter.get("/metrics", &wanted).body));
    assert_eq!((binary.get(&full), somaxconn(&binary, closing.name())), (Some(&1.0), Some(42.0)));

    // Whoever asks for none sees none.
    let alone = samples(Exporter::start(&[]).get("/metrics", &[]).text());
    let traces =
        alone.keys().filter(|series| series.contains("netns=") || series.starts_with("nettune_netns"));
    assert_eq!(traces.collect::<Vec<_>>(), [""; 0]);
    assert!(alone.contains_key("nettune_initial_network_namespace"));
    let inside = samples(listening.exporter(&[]).get("/metrics", &[]).text());
    assert_eq!(inside["nettune_initial_network_namespace"], 0.0);
}

/// A process in a namespace of its own that has no name.
struct Nameless(Child);

impl Nameless {
    fn start() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo 43 > /proc/sys/net/core/somaxconn; echo; exec cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Self(child)
    }

    fn inode(&self) -> String {
        let link = std::fs::read_link(format!("/proc/{}/ns/net", self.0.id())).unwrap();
        link.to_str().unwrap().trim_matches(|c: char| !c.is_ascii_digit()).to_owned()
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_is_printed_leads_into_each_namespace() {
    let Some(plain) = Namespace::new() else { return };
    let odd = Namespace::create(format!("nettune-{} it's \"odd\"", std::process::id())).unwrap();
    let nameless = Nameless::start();
    plain.sysctl("net.core.somaxconn", "41");
    odd.sysctl("net.core.somaxconn", "42");
    let exporter = exporter("all");
    let wanted = [plain.name().to_owned(), odd.name().replace('"', "\\\""), nameless.inode()];
    let info = |found: &Samples, what: &str| {
        found
            .keys()
            .find(|series| series.starts_with("nettune_netns_info{") && series.contains(what))
            .cloned()
    };
    let inodes = [&plain, &odd].map(|namespace| namespace.run("readlink /proc/self/ns/net"));
    let inodes = inodes.map(|link| link.trim().trim_matches(|c: char| !c.is_ascii_digit()).to_owned());
    let inodes = [&inodes[..], &[nameless.inode()]].concat();
    let found = until(&exporter, "three namespaces", |found| {
        inodes.iter().all(|inode| info(found, &format!("inode=\"{inode}\"")).is_some())
    });
    for (number, inode) in inodes.iter().enumerate() {
        let series = info(&found, &format!("inode=\"{inode}\"")).unwrap();
        let name = label(&series, "netns");
        if number < 2 {
            assert_eq!(name, wanted[number]);
        }
        let enter = label(&series, "enter").replace("\\\"", "\"").replace("\\\\", "\\");
        let line = format!("{enter} cat /proc/sys/net/core/somaxconn");
        let printed = Command::new("sh").args(["-c", &line]).output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        let exported = somaxconn(&found, name).unwrap();
        assert_eq!(
            (printed.trim(), exported),
            (exported.to_string().as_str(), 41.0 + number as f64),
            "{line}"
        );
    }
    assert!(exporter.log().lines().all(|line| !line.contains("WARN")), "{}", exporter.log());
}

#[test]
fn nothing_of_a_namespace_that_went_away_is_kept() {
    let Some(hub) = Namespace::new() else { return };
    // By name, for other tests have namespaces too. Each is visited twice and then left
    // alone, so that it is the scan that lets it go.
    let names = (0..10).map(|number| format!("{}-{number}", hub.name()));
    let names = names.chain((1..=100).map(|number| format!("{}-c{number}", hub.name())));
    let names = names.chain([hub.name().to_owned()]).collect::<Vec<_>>().join(",");
    let exporter = Exporter::start(&["--netns", &names, "--sockets.interval=10m", QUICK[1]]);
    let figures = |found: &Samples| ["process_open_fds", "process_threads"].map(|name| found[name]);
    let mine = |found: &Samples| {
        let prefix = format!("nettune_netns_age_seconds{{netns=\"{}-", hub.name());
        found.keys().filter(|series| series.starts_with(&prefix)).count()
    };
    let age = format!("nettune_netns_age_seconds{{netns=\"{}\"}}", hub.name());
    until(&exporter, "the hub", |found| found.contains_key(&age));

    // Each has one end of a pair of devices, whose other end goes when it is freed.
    let make = |name: &str, link: usize| {
        let namespace = Namespace::create(name.to_owned()).unwrap();
        hub.run(&format!(
            "ip link add v{link} type veth peer name p{link} && ip link set p{link} netns '{name}'"
        ));
        namespace
    };
    let some: Vec<_> = (0..10).map(|number| make(&format!("{}-{number}", hub.name()), number)).collect();
    let queues: Vec<_> = some.iter().map(|one| one.inside(|| listen(at(9001), 2))).collect();
    until(&exporter, "ten more", |found| mine(found) == 10);
    // Their listeners: sockets were walked.
    let last = some.last().unwrap().name().to_owned();
    let walked = format!("nettune_listener_sockets{{address=\"127.0.0.1\",port=\"9001\",netns=\"{last}\"}}");
    let most = until(&exporter, "sockets", |found| found.contains_key(&walked));
    drop((queues, some));
    eventually("namespaces are not freed", || (!hub.run("ip -o link show").contains("v9@")).then_some(()));
    let after = until(&exporter, "they are still shown", |found| mine(found) == 0);
    let [files, threads] = figures(&after);
    assert!(files + 10.0 <= figures(&most)[0], "{files} files, {} before", figures(&most)[0]);

    // A hundred that come and go as fast as they can.
    let start = Instant::now();
    let line = format!(
        "for i in $(seq 100); do ip netns add {0}-c$i; ip -n {0} link add w$i type veth peer name p netns {0}-c$i; ip netns del {0}-c$i; done",
        hub.name()
    );
    let mut churn = Command::new("sh").args(["-c", &line]).spawn().unwrap();
    while churn.try_wait().unwrap().is_none() {
        assert_eq!(exporter.get("/metrics", &[]).status, 200);
        assert!(start.elapsed() < Duration::from_secs(120));
    }
    eventually("the last is not freed", || (!hub.run("ip -o link show").contains(" w")).then_some(()));
    let end =
        until(&exporter, "descriptors and threads as before", |found| figures(found) == [files, threads]);
    assert_eq!(mine(&end), 0);
    let log = exporter.log();
    let complaints = log.lines().filter(|line| line.contains("netns") || line.contains("namespace"));
    let complaints = complaints.filter(|line| !line.contains("there is no such"));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_name_that_nobody_has_is_told_once_and_read_when_somebody_has_it() {
    let Some(there) = Namespace::new() else { return };
    let name = format!("{}-later", there.name());
    let exporter = exporter(&format!("{name},{},{name}", there.name()));
    let missing = |found: &Samples| found["nettune_netns_not_entered{reason=\"not_found\"}"];
    let age = |name: &str| format!("nettune_netns_age_seconds{{netns=\"{name}\"}}");
    let found = until(&exporter, "the other one", |found| found.contains_key(&age(there.name())));
    assert_eq!((missing(&found), found.contains_key(&age(&name))), (1.0, false));
    let told =
        |log: String| log.lines().filter(|line| line.contains("WARN")).map(str::to_owned).collect::<Vec<_>>();
    for _ in 0..2 {
        let later = Namespace::create(name.clone()).unwrap();
        let found = until(&exporter, "it is not read", |found| found.contains_key(&age(&name)));
        assert_eq!(missing(&found), 0.0);
        drop(later);
        until(&exporter, "it is missed again", |found| missing(found) == 1.0);
    }
    let told = told(exporter.log());
    assert!(told.len() == 1 && told[0].contains(&format!("--netns={name}:")), "{told:?}");
}

#[test]
fn an_ordinary_user_is_told_once_and_served() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    let program = scratch.path("nettune");
    std::fs::copy(nettune(&[]).get_program(), &program).unwrap();
    let privileges = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
    let mut command = Command::new("setpriv");
    command.args(privileges).arg(&program).args(QUICK);
    command.args(["--web.listen-address=127.0.0.1:0", "--netns", namespace.name()]);
    if !Command::new("setpriv").args(privileges).arg("true").status().is_ok_and(|status| status.success()) {
        return skip("not root: this run is already an ordinary user's");
    }
    let exporter = Exporter::launch(command);
    let refused = "nettune_netns_not_entered{reason=\"privilege\"}";
    let found = until(&exporter, "a refusal", |found| found.get(refused) == Some(&1.0));
    assert_eq!(found["nettune_collector_success{collector=\"netns\"}"], 1.0);
    assert!(found.keys().all(|series| !series.contains("netns=\"")));
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(exporter.log().matches("CAP_SYS_ADMIN").count(), 1, "{}", exporter.log());
}
