//! Captures what the exporter reads of the running kernel into a directory that
//! `--path.procfs`, `--path.sysfs` and `--path.recorded` can be pointed at.
//!
//! `cargo run --example capture -- DIRECTORY`, as root for all of it. Files
//! that are not there are not written: absence is part of a capture.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use nettune::catalogue::CATALOGUE;
use nettune::kernel::{Constants, FileKind, Kernel, Request, Root, Roots};
use nettune::read::persisted;

const PROC: &[&str] = &[
    "interrupts",
    "meminfo",
    "modules",
    "net/netstat",
    "net/snmp",
    "net/snmp6",
    "net/sockstat",
    "net/sockstat6",
    "net/softnet_stat",
    "net/stat/arp_cache",
    "net/stat/ndisc_cache",
    "net/stat/nf_conntrack",
    "self/stat",
    "softirqs",
    "stat",
    "sys/kernel/hostname",
    "sys/kernel/modprobe",
    "sys/kernel/osrelease",
    "zoneinfo",
];
const SYS: &[&str] = &["devices/system/cpu/online", "devices/system/cpu/possible"];

fn main() -> ExitCode {
    match capture() {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("capture: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn capture() -> Result<String, Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: capture DIRECTORY")?;
    let directory = Path::new(&directory);
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut kernel = Kernel::live(Roots::default());
    for path in PROC {
        copy(&mut kernel, Root::Proc, path, directory)?;
    }
    for path in SYS {
        copy(&mut kernel, Root::Sys, path, directory)?;
    }
    for path in CATALOGUE.parameters.iter().filter_map(|parameter| parameter.path()) {
        copy_all(&mut kernel, Root::Proc, &format!("sys/{path}"), directory)?;
    }
    for device in kernel.roots().list(Root::Sys, "class/net")? {
        copy_device(&mut kernel, &device, directory)?;
    }
    fs::create_dir_all(directory.join("netlink"))?;
    for request in Request::ALL {
        let whole = |all: &mut Vec<u8>, bytes: &[u8]| {
            all.extend(bytes);
            Ok(())
        };
        match kernel.ask(request, whole) {
            Ok(bytes) => fs::write(directory.join(format!("netlink/{}.bin", request.name())), bytes)?,
            Err(error) => println!("not here: {error}"),
        }
    }
    for (path, stamp) in persisted::look(&kernel) {
        if stamp.is_some_and(|stamp| stamp.kind == FileKind::Regular) {
            copy_host_file(&mut kernel, &path, directory)?;
        }
    }
    let Constants { page_size, clock_ticks, hz, machine } = Constants::live();
    let constants = format!("page_size {page_size}\nclock_ticks {clock_ticks}\nhz {hz}\nmachine {machine}\n");
    fs::write(directory.join("constants"), constants)?;
    Ok(format!("captured {} files into {}", count(directory)?, directory.display()))
}

/// One of the files that set parameters at boot. Of a program only counts that it is there,
/// and of all modules those of congestion control and queueing.
fn copy_host_file(kernel: &mut Kernel, path: &str, directory: &Path) -> Result<(), Box<dyn Error>> {
    let to = directory.join("root").join(path.trim_start_matches('/'));
    fs::create_dir_all(to.parent().ok_or("no parent")?)?;
    if path.ends_with("sysctl") {
        fs::write(to, "stands for the program\n")?;
    } else if path.contains("/modules.") {
        let list = String::from_utf8_lossy(kernel.host_file(path, 8 << 20)?).into_owned();
        let kept = list.split_inclusive('\n').filter(|line| line.contains("/tcp_") || line.contains("/sch_"));
        fs::write(to, kept.collect::<String>())?;
    } else {
        fs::write(to, kernel.host_file(path, 1 << 20)?)?;
    }
    Ok(())
}

fn count(directory: &Path) -> std::io::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        files += if path.is_dir() { count(&path)? } else { 1 };
    }
    Ok(files)
}

/// One file. Keys that nobody may write are listed in `read-only`, since a
/// version control system does not keep modes.
fn copy(kernel: &mut Kernel, root: Root, path: &str, directory: &Path) -> Result<(), Box<dyn Error>> {
    let from = kernel.roots().path(root, path);
    let to = directory.join(if root == Root::Proc { "proc" } else { "sys" }).join(path);
    match kernel.read(root, path) {
        Ok(bytes) => {
            fs::create_dir_all(to.parent().ok_or("no parent")?)?;
            fs::write(&to, bytes)?;
            if fs::metadata(&from)?.permissions().readonly() && path.starts_with("sys/net/") {
                let mut list =
                    OpenOptions::new().create(true).append(true).open(directory.join("read-only"))?;
                writeln!(list, "{}", to.strip_prefix(directory)?.display())?;
            }
        }
        Err(error) => println!("not here: {error}"),
    }
    Ok(())
}

/// As [`copy`], for every interface where the path has a `*`.
fn copy_all(kernel: &mut Kernel, root: Root, path: &str, directory: &Path) -> Result<(), Box<dyn Error>> {
    let Some((before, after)) = path.split_once('*') else {
        return copy(kernel, root, path, directory);
    };
    for name in kernel.roots().list(root, before)? {
        copy(kernel, root, &format!("{before}{name}{after}"), directory)?;
    }
    Ok(())
}

fn copy_device(kernel: &mut Kernel, device: &str, directory: &Path) -> Result<(), Box<dyn Error>> {
    let base = format!("class/net/{device}");
    copy(kernel, Root::Sys, &format!("{base}/address"), directory)?;
    copy(kernel, Root::Sys, &format!("{base}/ifindex"), directory)?;
    copy(kernel, Root::Sys, &format!("{base}/speed"), directory)?;
    for queue in kernel.roots().list(Root::Sys, format!("{base}/queues")).unwrap_or_default() {
        for file in ["rps_cpus", "rps_flow_cnt", "xps_cpus"] {
            copy(kernel, Root::Sys, &format!("{base}/queues/{queue}/{file}"), directory)?;
        }
    }
    if let Ok(bus_name) = kernel.roots().link_name(Root::Sys, format!("{base}/device")) {
        let link = directory.join("sys").join(&base).join("device");
        fs::create_dir_all(link.parent().ok_or("no parent")?)?;
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(format!("../../../devices/{bus_name}"), &link)?;
    }
    if let Ok(bytes) = kernel.driver_statistics(device) {
        let to = directory.join("driver-statistics").join(device);
        fs::create_dir_all(to.parent().ok_or("no parent")?)?;
        fs::write(to, bytes)?;
    }
    Ok(())
}
