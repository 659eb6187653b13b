//! From a fault of the kernel to the page that arrives: the real exporter, Prometheus
//! with the rules, Alertmanager with the example configuration, and whoever is called.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regex::Regex;
use serde_json::Value;

use crate::listeners::{connect, listen};
use crate::namespace::Namespace;
use crate::support::{Scratch, eventually, run};

/// A page takes a few scrapes, the time that it must last, and the machine's own time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that ends with the test.
pub(crate) struct Running(Child);

impl Running {
    fn start(command: &mut Command, scratch: &Scratch, log: &str) -> Self {
        let log = std::fs::File::create(scratch.path(log)).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}; `make tools` installs it")))
    }

    /// Alertmanager on port 9093 of a namespace.
    pub(crate) fn alertmanager(namespace: &Namespace, scratch: &Scratch, config: &Path) -> Self {
        let mut command = namespace.command("prometheus-alertmanager");
        command.args([
            &format!("--config.file={}", config.display()),
            &format!("--storage.path={}", scratch.path("alertmanager").display()),
            "--web.listen-address=127.0.0.1:9093",
            "--cluster.listen-address=",
        ]);
        Self::start(&mut command, scratch, "alertmanager.log")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bodies of what is posted here.
struct Called {
    bodies: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Called {
    /// Listens on `address` in the namespace of the caller, as long as the test lives.
    fn listen(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Some(body) = receive(stream) {
                    kept.lock().unwrap().push(body);
                }
            }
        });
        Self { bodies }
    }

    /// Waits for a body of this path that `wanted` makes something of.
    fn wait_for<T>(&self, path: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let found = self
                .bodies
                .lock()
                .unwrap()
                .iter()
                .find_map(|(to, body)| (to == path).then(|| wanted(body)).flatten());
            if let Some(found) = found {
                return found;
            }
            assert!(std::time::Instant::now() < deadline, "{path}: {:#?}", self.bodies.lock().unwrap());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// One request with a length, answered by 200.
fn receive(stream: TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(&stream);
    let (mut path, mut length) = (String::new(), 0);
    for line in (&mut reader).lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let lower = line.to_lowercase();
        if let Some(number) = lower.strip_prefix("content-length:") {
            length = number.trim().parse().ok()?;
        } else if line.starts_with("POST ") {
            line.split(' ').nth(1)?.clone_into(&mut path);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").ok()?;
    Some((path, serde_json::from_slice(&body).ok()?))
}

/// Clients that come faster than the program accepts.
pub(crate) fn overload(port: u16, backlog: i32, stop: Arc<AtomicBool>) {
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), backlog);
    let stopped = Arc::clone(&stop);
    let slow = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(250));
            let _ = slow.accept();
        }
    });
    std::thread::spawn(move || {
        let mut clients = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            clients.extend(connect(port, 10));
            std::thread::sleep(Duration::from_millis(500));
            if clients.len() > 400 {
                clients.drain(..200);
            }
        }
        drop(listener);
    });
}

/// The page as the template of the example writes it, without the figure that varies and
/// the name of this very program, which the kernel cuts.
fn text(body: &Value, title: &str) -> Option<String> {
    let attachment = &body["attachments"][0];
    let found = attachment["title"].as_str()?;
    if found != title {
        return None;
    }
    let text =
        Regex::new(r"[0-9.]+ attempts/s").unwrap().replace_all(attachment["text"].as_str()?, "N attempts/s");
    let text = Regex::new(r"nettune-[0-9a-f]+").unwrap().replace_all(&text, "PROGRAM");
    Some(text.trim().replace("\n\n```", "\n```"))
}

#[test]
fn faults_arrive_as_pages_that_name_their_cause() {
    let Some(namespace) = Namespace::new() else { return };
    let scratch = Scratch::new();
    namespace.run("sysctl -qw net.core.somaxconn=16");
    let rendered = run(&[
        "render",
        "--window",
        "10s",
        "--for-scale",
        "0.1",
        "--output",
        scratch.path("").to_str().unwrap(),
    ]);
    assert!(rendered.status.success(), "{rendered:?}");
    let rules = scratch.path("alerts/nettune.rules.yml");
    let prometheus = scratch.file(
        "prometheus.yml",
        &format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
            alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:9093']}}]}}]}}\n\
            scrape_configs: [{{job_name: nettune, static_configs: [{{targets: ['127.0.0.1:10109']}}]}}]\n",
            rules.display()
        ),
    );
    // The example but for its waiting times, all messages as the chat gets them.
    let example =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/alerts/alertmanager/alertmanager.yml"));
    let example = Regex::new(r"(group_wait|group_interval): \w+")
        .unwrap()
        .replace_all(&example.unwrap(), "$1: 1s")
        .into_owned();
    let example = example.replace("receiver: pager", "receiver: chat");
    let alertmanager = scratch.file("alertmanager.yml", &example);
    let template =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/alerts/alertmanager/nettune.tmpl"));
    scratch.file("nettune.tmpl", &template.unwrap());

    let called = namespace.inside(|| Called::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 9095))));
    let stop = Arc::new(AtomicBool::new(false));
    namespace.inside(|| {
        overload(80, 64, Arc::clone(&stop));
        overload(81, 4, Arc::clone(&stop));
    });
    eventually("both queues are full", || {
        let full = |line: &str| {
            let mut figures = line.split_whitespace().skip(1).filter_map(|figure| figure.parse::<u32>().ok());
            figures.next() > figures.next()
        };
        let listening = namespace.run("ss -Hltn sport = :80 or sport = :81");
        (listening.lines().filter(|line| full(line)).count() == 2).then_some(())
    });
    let exporter = namespace.exporter(&[
        "--web.listen-address=127.0.0.1:10109",
        "--sockets.interval=1s",
        "--sockets.cpu-budget=100%",
    ]);
    // Who holds a socket is looked up once its queue was full; a page does not wait for it.
    eventually("both programs are known", || {
        let scrape = namespace.inside(|| exporter.get("/metrics", &[]).text().to_owned());
        let known =
            |port| scrape.contains(&format!("nettune_listener_info{{address=\"127.0.0.1\",port=\"{port}\""));
        (known(80) && known(81)).then_some(())
    });
    let _prometheus = Running::start(
        namespace.command("prometheus").args([
            &format!("--config.file={}", prometheus.display()),
            &format!("--storage.tsdb.path={}", scratch.path("data").display()),
            "--web.listen-address=127.0.0.1:9090",
        ]),
        &scratch,
        "prometheus.log",
    );
    let _alertmanager = Running::alertmanager(&namespace, &scratch, &alertmanager);

    let page = called.wait_for("/slack", |body| {
        text(body, "[critical] 127.0.0.1: port 80 drops connections, net.core.somaxconn is the limit")
    });
    assert_eq!(page, SOMAXCONN.trim());
    let page = called.wait_for("/slack", |body| {
        text(body, "[critical] 127.0.0.1: port 81 drops connections, the backlog of its program is the limit")
    });
    assert_eq!(page, APPLICATION.trim());
    stop.store(true, Ordering::Relaxed);
}

const SOMAXCONN: &str = "
```
127.0.0.1: port 80 drops connections, net.core.somaxconn is the limit
N attempts/s refused over 10s (retries included). The accept queue of port 80 (127.0.0.1) held 17 of 16. The limit of 16 is net.core.somaxconn: it clamps the listen() backlog of PROGRAM, or the program asked for exactly 16.
Now     16
Set     4096
Apply   sysctl -w net.core.somaxconn=4096
        # let the program that listens there listen again: reload it
        # and restart it where ss still shows Send-Q 16: a socket keeps the limit it was made with
Keep    echo \"net.core.somaxconn = 4096\" | tee /etc/sysctl.d/99-zz-nettune-somaxconn.conf
Undo    sysctl -w net.core.somaxconn=16 && rm -f /etc/sysctl.d/99-zz-nettune-somaxconn.conf
Verify  ss -ltn 'sport = :80' shows the new limit as Send-Q; refusals end
Runbook https://github.com/nettune/nettune/blob/main/alerts/runbooks/NettuneAcceptQueueFullSomaxconn.md
```
";

const APPLICATION: &str = "
```
127.0.0.1: port 81 drops connections, the backlog of its program is the limit
N attempts/s refused over 10s (retries included). The accept queue of port 81 (127.0.0.1) held 5 of 4. net.core.somaxconn is 16 here, so the listen() backlog of PROGRAM binds. No sysctl will help.
Do      raise the backlog in PROGRAM (nginx: listen 81 backlog=N; others call it backlog or somaxconn) and reload it
Verify  ss -ltn 'sport = :81' shows the new backlog as Send-Q, and Recv-Q below it; refusals end
Runbook https://github.com/nettune/nettune/blob/main/alerts/runbooks/NettuneAcceptQueueFullApplication.md
```
";
