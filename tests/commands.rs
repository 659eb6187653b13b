//! The commands of a page, pasted as they are.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::namespace::Namespace;
use crate::netns;
use crate::pages::overload;
use crate::prometheus::Prometheus;
use crate::support::{Scratch, eventually, run};

/// Runs a text as whoever is on call pastes it into a shell of the host.
fn paste(text: &str) {
    let output = Command::new("bash").args(["-ec", text]).output().unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The annotations of a finding in a namespace.
fn page(prometheus: &Prometheus, alert: &str, namespace: &Namespace) -> Option<Value> {
    let found = prometheus.get("/api/v1/alerts")?;
    let of = |finding: &&Value| {
        let labels = &finding["labels"];
        labels["alertname"] == alert && labels["netns"] == namespace.name() && finding["state"] == "firing"
    };
    Some(found["data"]["alerts"].as_array()?.iter().find(of)?["annotations"].clone())
}

#[test]
fn commands_of_a_page_work_as_they_are_in_three_namespaces() {
    let Some(namespaces) = (0..3).map(|_| Namespace::new()).collect::<Option<Vec<_>>>() else { return };
    let somaxconn = |namespace: &Namespace| -> u32 {
        namespace.run("sysctl -n net.core.somaxconn").trim().parse().unwrap()
    };
    let before = somaxconn_of_host();
    let stop = Arc::new(AtomicBool::new(false));
    for (namespace, limit) in namespaces.iter().zip([16, 24, 32]) {
        namespace.run(&format!("sysctl -qw net.core.somaxconn={limit}"));
        namespace.inside(|| overload(80, 1000, Arc::clone(&stop)));
    }
    let names: Vec<_> = namespaces.iter().map(Namespace::name).collect();
    let exporter = netns::exporter(&names.join(","));
    let scratch = Scratch::new();
    let folder = scratch.path("");
    let arguments = ["render", "--window=10s", "--for-scale=0.1", "--output", folder.to_str().unwrap()];
    assert!(run(&arguments).status.success());
    let prometheus = Prometheus::judge(&scratch.path("alerts/nettune.rules.yml"), &[("nettune", &exporter)]);

    let pages = namespaces.iter().map(|namespace| {
        let wanted = || page(&prometheus, "NettuneAcceptQueueFullSomaxconn", namespace);
        eventually("each namespace has its page", wanted)
    });
    let pages: Vec<_> = pages.collect();
    for ((namespace, limit), page) in namespaces.iter().zip([16, 24, 32]).zip(&pages) {
        assert_eq!(page["current"], limit.to_string());
        paste(page["apply"].as_str().unwrap());
        // Such a listener had a limit of 4096 if nothing had clamped it (Linux 5.4).
        assert_eq!((page["recommended"].as_str(), somaxconn(namespace)), (Some("4096"), 4096), "{page}");
        let undo = page["rollback"].as_str().unwrap();
        paste(undo);
        assert_eq!(somaxconn(namespace), limit, "{undo}");
    }
    assert_eq!(somaxconn_of_host(), before, "a command went to the host");
    stop.store(true, Ordering::Relaxed);
}

fn somaxconn_of_host() -> String {
    std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap()
}
