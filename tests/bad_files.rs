//! Files of sysctl.d that nobody would write on purpose, against what systemd-sysctl and
//! `sysctl --system` make of them, and some on which these two hang.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nettune::kernel::{Kernel, Roots};
use nettune::model::persisted::{Problem, Stored, Taking, evaluate, keys};
use nettune::read::persisted::{Loader, read};

use crate::persisted::{compare, namespaced, runs};
use crate::support::Scratch;

/// What makes each, run in etc/sysctl.d of a tree that has a good file before and one after.
const BAD: &[(&str, &str)] = &[
    (
        "long value",
        r"(printf 'net.ipv4.tcp_retries2 = 9'; head -c 1000000 /dev/zero | tr '\0' ' '; echo) > 50.conf",
    ),
    (
        "number of 5000 digits",
        r"(printf 'net.ipv4.tcp_retries2 = '; head -c 5000 /dev/zero | tr '\0' 0; echo 9) > 50.conf",
    ),
    (
        "line that systemd gives up on",
        r"(echo net.ipv4.tcp_retries2=9; printf net.ipv4.tcp_syn_retries=4; head -c 1100000 /dev/zero | tr '\0' ' ';
           echo; echo net.ipv4.tcp_retries1=4) > 50.conf",
    ),
    (
        "long key",
        r"(printf net.; head -c 1000000 /dev/zero | tr '\0' a; echo =1; echo net.ipv4.tcp_retries1=4) > 50.conf",
    ),
    (
        "long comment",
        r"(printf '#'; head -c 3000000 /dev/zero | tr '\0' x; echo; echo net.ipv4.tcp_retries1=4) > 50.conf",
    ),
    (
        "large file",
        r"(yes '# filler filler filler filler' | head -c 2000000; echo; echo net.ipv4.tcp_retries1=4) > 50.conf",
    ),
    (
        "NUL",
        r"printf 'net.ipv4.tcp_retries1 = 4\0 5\nnet.ipv4.tcp_retries2\0 = 9\n\0net.ipv4.tcp_syn_retries = 3\n' > 50.conf",
    ),
    ("CRLF", r"printf 'net.ipv4.tcp_retries1 = 4\r\nnet.ipv4.tcp_rmem = 1 2 3\r\n\r\n' > 50.conf"),
    (
        "no UTF-8",
        r"printf '# \377\nnet.ipv4.tcp_retries1 = 4\nnet.ipv4.tcp_retries2 = 9\377\nnet.ipv4.tcp_syn\377 = 1\n' > 50.conf",
    ),
    (
        "byte order mark",
        r"printf '\357\273\277net.ipv4.tcp_retries1 = 4\nnet.ipv4.tcp_retries2 = 9\n' > 50.conf",
    ),
    ("UTF-16", r"printf 'n\0e\0t\0.\0x\0=\0001\0\n\0' > 50.conf"),
    ("program", "cp /bin/true 50.conf"),
    (
        "names",
        r"echo net.ipv4.tcp_retries1=4 > .conf; echo net.ipv4.tcp_retries2=9 > a.conf~; echo net.ipv4.tcp_syn_retries=3 > 'a
b.conf'; echo net.ipv4.tcp_orphan_retries=2 > 'c d.conf'",
    ),
    (
        "many files",
        "for i in $(seq 10000 19999); do echo net.ipv4.tcp_retries2=$((i % 7 + 5)) > $i.conf; done",
    ),
    ("socket", r#"python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("50.conf")'"#),
    ("folder over a file", "echo net.ipv4.tcp_retries1=4 > ../../usr/lib/sysctl.d/50.conf; mkdir 50.conf"),
    (
        "loop over a file",
        "echo net.ipv4.tcp_retries1=4 > ../../usr/lib/sysctl.d/50.conf; ln -s 50.conf 50.conf",
    ),
    ("file for a directory", "cd ..; rm -r sysctl.d; echo net.ipv4.tcp_retries1=4 > sysctl.d"),
    ("pipe for a directory", "cd ..; rm -r sysctl.d; mkfifo sysctl.d"),
    ("directory that loops", "cd ..; rm -r sysctl.d; ln -s sysctl.d sysctl.d"),
    ("directory that is not there", "cd ..; rm -r sysctl.d; ln -s none sysctl.d"),
    ("pipe for sysctl.conf", "mkfifo ../sysctl.conf"),
];

/// Keys that they set.
const SET: [&str; 7] = [
    "net.core.somaxconn",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_orphan_retries",
    "net.ipv4.tcp_retries1",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syn_retries",
];

fn tree(scratch: &Scratch, make: &str) -> PathBuf {
    let tree = scratch.path("tree");
    for folder in ["etc/sysctl.d", "usr/lib/sysctl.d"] {
        fs::create_dir_all(tree.join(folder)).unwrap();
    }
    fs::write(tree.join("usr/lib/sysctl.d/05-first.conf"), "net.core.somaxconn = 101\n").unwrap();
    fs::write(tree.join("etc/sysctl.d/90-last.conf"), "net.ipv4.tcp_fin_timeout = 91\n").unwrap();
    let made = Command::new("sh").args(["-ec", make]).current_dir(tree.join("etc/sysctl.d")).status();
    assert!(made.unwrap().success(), "{make}");
    tree
}

#[test]
fn the_programs_make_of_bad_files_what_is_predicted() {
    let Some(mut keys) = namespaced() else { return };
    keys.retain(|key| SET.contains(&key.name.as_str()));
    assert_eq!(keys.len(), SET.len());
    for loader in Loader::BOTH.into_iter().filter(|loader| runs(*loader)) {
        for (name, make) in BAD {
            let scratch = Scratch::new();
            let started = Instant::now();
            match compare(&tree(&scratch, make), "", &keys, loader) {
                Some(changed) => assert!(changed > 0, "{name} by {loader:?}"),
                None => return,
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{name}");
        }
    }
}

/// What is read of a tree: problems by file, whether there was an error, and whether the
/// good files count.
fn found(make: &str) -> (Vec<(String, Problem)>, Option<String>, bool) {
    let scratch = Scratch::new();
    let tree = tree(&scratch, make);
    let mut kernel = Kernel::live(Roots { host: tree.clone(), ..Roots::default() });
    let (mut configuration, result) = read(&mut kernel);
    configuration.loader = Some(Loader::Systemd);
    let keys = keys(&[], |_| true);
    let found = evaluate(&configuration, &keys, &BTreeSet::new(), Taking::of(None, None));
    let value = |name| found.settings.iter().find(|setting| setting.name == name).map(|found| &found.value);
    let number = |number| Some(Stored::Numbers(vec![Some(number)]));
    let good = value("net.core.somaxconn") == Some(&number(101))
        && value("net.ipv4.tcp_fin_timeout").is_none_or(|value| *value == number(91));
    let problems = found.problems.into_iter().map(|found| (found.file, found.problem)).collect();
    // Where no program is that applies files, that is the error.
    let error = result.err().filter(|error| !error.is_absent());
    let error = error.map(|error| error.to_string().replace(&tree.display().to_string(), ""));
    (problems, error, good)
}

/// A pipe and an endless device hold both programs up for good; whoever reads them here
/// must not be held up, and says which they are.
#[test]
fn what_would_hold_up_the_programs_holds_up_nobody_here() {
    let file = "/etc/sysctl.d/50.conf";
    for make in [
        "mkfifo 50.conf",
        "mkfifo ../pipe; ln -s ../pipe 50.conf",
        "mknod 50.conf c 1 5",
        "mknod ../zero c 1 5; ln -s /etc/zero 50.conf",
    ] {
        let started = Instant::now();
        let (problems, error, good) = found(make);
        assert!(started.elapsed() < Duration::from_secs(10), "{make}");
        assert_eq!(problems, [(file.to_owned(), Problem::Unreadable)], "{make}");
        assert_eq!(error.as_deref(), Some("/etc/sysctl.d/50.conf: it is not a regular file"), "{make}");
        assert!(good, "{make}");
    }
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_counts() {
    let folder = "/etc/sysctl.d";
    for (make, file, expected) in [
        ("cd ..; rm -r sysctl.d; : > sysctl.d", folder, "it is no directory"),
        (
            "cd ..; rm -r sysctl.d; ln -s sysctl.d sysctl.d",
            folder,
            "Too many levels of symbolic links (os error 40)",
        ),
        ("truncate -s 1T 50.conf", "/etc/sysctl.d/50.conf", "it is larger than 4194304 bytes"),
        (
            "seq 49999 | sed 's/$/=1/' > 50.conf; seq 9 > 60.conf",
            "/etc/sysctl.d/60.conf",
            "it and those before have more than 50000 lines",
        ),
        (r"echo a=1 > $(printf '50-\377.conf')", "/etc/sysctl.d/50-\u{fffd}.conf", "its name is no text"),
    ] {
        let (problems, error, good) = found(make);
        assert!(problems.contains(&(file.to_owned(), Problem::Unreadable)), "{make}: {problems:?}");
        assert_eq!(error, Some(format!("{file}: {expected}")), "{make}");
        assert!(good, "{make}");
    }
    // Such a link hides a file of its name, which may be meant.
    let (problems, error, good) = found("ln -s none 50.conf");
    assert_eq!(problems, [("/etc/sysctl.d/50.conf".to_owned(), Problem::Unreadable)]);
    assert!(error.is_none() && good);
    assert_eq!(found("ln -s /dev/null 50.conf"), (Vec::new(), None, true));
}

/// Files come and go while they are read.
#[test]
fn files_that_vanish_meanwhile_are_nothing_to_stumble_over() {
    let scratch = Scratch::new();
    let tree = tree(&scratch, "");
    let mut child = Command::new("sh")
        // It ends with its folder.
        .args(["-c", "while [ -e 90-last.conf ]; do for i in 1 2 3 4; do echo a.b=1 > $i.conf; done; rm -f [1-4].conf; done"])
        .current_dir(tree.join("etc/sysctl.d"))
        .spawn()
        .unwrap();
    let mut kernel = Kernel::live(Roots { host: tree, ..Roots::default() });
    for _ in 0..500 {
        let (configuration, result) = read(&mut kernel);
        // No program is here; nothing else is an error.
        assert!(result.unwrap_err().is_absent());
        assert!(configuration.files.iter().any(|file| file.path == "/etc/sysctl.d/90-last.conf"));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
