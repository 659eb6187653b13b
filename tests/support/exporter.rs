//! The real program as a child process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{Address, Response, eventually};

/// The program with these flags, not yet started.
pub(crate) fn nettune(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettune"));
    command.args(flags).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run(flags: &[&str]) -> Output {
    nettune(flags).output().expect("the program can be started")
}

/// A running exporter, killed when the test ends however it ends.
pub(crate) struct Exporter {
    child: Child,
    log: Arc<Mutex<String>>,
    /// Its standard error has been closed: no more log will come.
    silent: Arc<AtomicBool>,
    addresses: Vec<Address>,
}

impl Exporter {
    /// On a free port of 127.0.0.1, with more flags; returns when it is ready.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut command = nettune(&["--web.listen-address=127.0.0.1:0"]);
        command.args(flags);
        let exporter = Self::launch(command);
        exporter.wait_until_ready();
        exporter
    }

    /// Runs `command`, whose log must be text; returns when it listens.
    pub(crate) fn launch(command: Command) -> Self {
        let mut exporter = Self::spawn(command);
        let line = exporter.wait_for_log("addresses=");
        let (_, listed) = line.split_once("addresses=\"").expect("addresses are quoted");
        let (listed, _) = listed.split_once('"').expect("addresses are quoted");
        exporter.addresses = listed
            .split(' ')
            .map(|address| match address.strip_prefix("unix:") {
                Some(path) => Address::Unix(path.into()),
                None => Address::Tcp(address.parse().expect("an address and a port")),
            })
            .collect();
        exporter
    }

    /// Runs `command` and keeps its log; nothing is known of its addresses.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program can be started");
        let errors = child.stderr.take().expect("standard error is a pipe");
        let log = Arc::new(Mutex::new(String::new()));
        let silent = Arc::new(AtomicBool::new(false));
        let (copy, ended) = (Arc::clone(&log), Arc::clone(&silent));
        // Ends with the child, or with the last process that holds its stderr.
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let mut log = copy.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
            ended.store(true, Ordering::Release);
        });
        Self { child, log, silent, addresses: Vec::new() }
    }

    pub(crate) fn wait_until_ready(&self) {
        eventually("it is not ready", || (self.get("/-/ready", &[]).status == 200).then_some(()));
    }

    pub(crate) fn address(&self) -> &Address {
        &self.addresses[0]
    }

    /// As a scrape configuration names it.
    pub(crate) fn target(&self) -> String {
        match self.address() {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => panic!("{} cannot be scraped", path.display()),
        }
    }

    /// All addresses, in the order they were given.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.address().get(path, headers)
    }

    /// The first line of the log that contains `text`, once there is one.
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        eventually(&format!("{text:?} is not in the log"), || {
            let silent = self.silent.load(Ordering::Acquire);
            let found = self.log().lines().find(|line| line.contains(text)).map(str::to_owned);
            assert!(found.is_some() || !silent, "it ended without {text:?} in its log");
            found
        })
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Of the process; what only starts it makes way for it (`ip netns exec`, `exec` of sh).
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("it does not end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Killed, it has left its sockets behind.
        for address in &self.addresses {
            if let Address::Unix(path) = address {
                let _ = std::fs::remove_file(path);
            }
        }
        if std::thread::panicking() {
            eprintln!("--- log of the exporter\n{}", self.log());
        }
    }
}
