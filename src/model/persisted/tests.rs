use super::*;
use crate::read::persisted::{File, Modules, Offered, SYSCTL_CONF, parse};

const TAKING: fn() -> Taking = || Taking::of(None, None);

fn file(path: &str, text: &str) -> File {
    let lines = |loader| Some(parse(text.as_bytes(), loader));
    File { path: path.into(), target: None, systemd: lines(Loader::Systemd), procps: lines(Loader::Procps) }
}

fn configuration(files: &[(&str, &str)]) -> Configuration {
    let files = files.iter().map(|(path, text)| file(path, text)).collect();
    Configuration { loader: Some(Loader::Systemd), both: true, files, ..Configuration::default() }
}

fn all_keys() -> Vec<Key> {
    keys(&["eth0".to_owned()], |_| true)
}

fn found(configuration: &Configuration) -> Persisted {
    evaluate(configuration, &all_keys(), &BTreeSet::new(), TAKING())
}

fn setting(persisted: &Persisted, name: &str) -> Setting {
    persisted.settings.iter().find(|setting| setting.name == name).expect("it is set").clone()
}

fn number(number: i64) -> Option<Stored> {
    Some(Stored::Numbers(vec![Some(number)]))
}

fn place(file: &str, line: usize) -> Place {
    Place { file: file.into(), line }
}

#[test]
fn the_last_line_counts_and_the_others_are_named() {
    let files = [
        ("/usr/lib/sysctl.d/10-a.conf", "net.core.somaxconn = 1\n"),
        ("/etc/sysctl.d/20-b.conf", "# b\nnet.core.somaxconn = 2\nnet/core/somaxconn = 3\n"),
        (SYSCTL_CONF, "net.core.somaxconn = 4\n"),
    ];
    let somaxconn = setting(&found(&configuration(&files)), "net.core.somaxconn");
    assert_eq!((somaxconn.value, somaxconn.place), (number(3), Some(place("/etc/sysctl.d/20-b.conf", 3))));
    let earlier = [place("/usr/lib/sysctl.d/10-a.conf", 1), place("/etc/sysctl.d/20-b.conf", 2)];
    assert_eq!(somaxconn.overridden, earlier);
    let other = Other { value: number(4), place: Some(place(SYSCTL_CONF, 1)) };
    assert_eq!(somaxconn.conflict, Some(other));
}

#[test]
fn what_only_the_other_program_sets_is_a_conflict_without_a_value() {
    let found = found(&configuration(&[(SYSCTL_CONF, "net.core.somaxconn = 4\n")]));
    let somaxconn = setting(&found, "net.core.somaxconn");
    assert!(somaxconn.value.is_none() && somaxconn.place.is_none() && somaxconn.conflict.is_some());
    assert_eq!(
        super::evaluate(&Configuration::default(), &all_keys(), &BTreeSet::new(), TAKING()),
        Persisted::default()
    );
}

#[test]
fn what_is_not_installed_is_in_no_conflict() {
    let files = configuration(&[(SYSCTL_CONF, "net.core.somaxconn = 4\n")]);
    assert_eq!(found(&Configuration { both: false, ..files }).settings, []);
}

#[test]
fn other_names_of_a_key_set_it_too() {
    let files = [("/etc/sysctl.d/a.conf", "net.ipv4.conf.all.forwarding = 1\nnet.nf_conntrack_max = 5\n")];
    let found = found(&configuration(&files));
    assert_eq!(setting(&found, "net.ipv4.ip_forward").value, number(1));
    assert_eq!(setting(&found, "net.netfilter.nf_conntrack_max").value, number(5));
}

#[test]
fn problems_are_counted_by_file() {
    let text = "net.core.somaxconn = many\nnet.core.no_such = 1\n-net.core.no_such = 1\nsysctl -p\n\
                net.netfilter.nf_conntrack_max = 5\nnet.bridge.bridge-nf-call-iptables = 1\n";
    let mut configuration = configuration(&[("/etc/sysctl.d/a.conf", text)]);
    configuration.files.push(File { systemd: None, procps: None, ..file("/etc/sysctl.d/b.conf", "") });
    let missing =
        ["net/core/no_such", "net/netfilter/nf_conntrack_max", "net/bridge/bridge-nf-call-iptables"];
    let unknown = missing.map(str::to_owned).into_iter().collect();
    let problems = |configuration: &Configuration| -> Vec<_> {
        let found = evaluate(configuration, &all_keys(), &unknown, TAKING());
        let problems = found.problems.iter();
        problems
            .map(|problem| format!("{} {} {}", problem.file, problem.problem.name(), problem.lines))
            .collect()
    };
    let expected = [
        "/etc/sysctl.d/b.conf unreadable 1",
        "/etc/sysctl.d/a.conf syntax 1",
        "/etc/sysctl.d/a.conf refused_value 1",
        "/etc/sysctl.d/a.conf module_missing 2",
        "/etc/sysctl.d/a.conf unknown_key 1",
    ];
    assert_eq!(problems(&configuration), expected);
    let at_boot = ["nf_conntrack", "br_netfilter"].map(str::to_owned).into_iter().collect();
    configuration.modules = Modules { at_boot, ..Modules::default() };
    assert!(!problems(&configuration).iter().any(|problem| problem.contains("module_missing")));
}

#[test]
fn problems_are_bounded() {
    let paths: Vec<_> = (0..100).map(|number| format!("/etc/sysctl.d/{number}.conf")).collect();
    let files: Vec<_> = paths.iter().map(|path| (path.as_str(), "word\n")).collect();
    assert_eq!(found(&configuration(&files)).problems.len(), 20);
}

fn keep(configuration: &Configuration, name: &str, value: &str) -> Option<Persisting> {
    let keys = all_keys();
    let key = keys.iter().find(|key| key.name == name).expect("it is in the catalogue");
    let found = evaluate(configuration, &keys, &BTreeSet::new(), TAKING());
    let setting = found.settings.iter().find(|setting| setting.name == name);
    persisting(configuration, key, &keys, setting, value, TAKING())
}

#[test]
fn a_value_that_nobody_sets_gets_a_file_of_its_own() {
    let steps = keep(&configuration(&[]), "net.ipv4.tcp_wmem", "4096 16384 33554432").unwrap();
    let file = "/etc/sysctl.d/99-zz-nettune-tcp_wmem.conf";
    assert_eq!(steps.files, [file]);
    let line = "net.ipv4.tcp_wmem = 4096 16384 33554432";
    assert_eq!(steps.keep, [format!("printf '%s\\n' '{line}' | tee -a {file}")]);
    assert_eq!(steps.undo, [format!("rm -f {file}")]);
    let steps = keep(&configuration(&[]), "net.ipv6.neigh.default.gc_thresh1", "1").unwrap();
    assert_eq!(steps.files, ["/etc/sysctl.d/99-zz-nettune-net.ipv6.neigh.default.gc_thresh1.conf"]);
    assert_eq!(keep(&configuration(&[]), "net.ipv4.tcp_wmem", "lots"), None);
}

#[test]
fn the_hosts_own_file_that_wins_is_added_to() {
    let own = "/etc/sysctl.d/50-own.conf";
    let mut configuration = configuration(&[(own, "net.core.somaxconn = 1\n")]);
    let steps = keep(&configuration, "net.core.somaxconn", "4096").unwrap();
    assert_eq!(steps.files, [own]);
    assert_eq!(steps.keep, [format!("printf '\\n%s\\n' 'net.core.somaxconn = 4096' | tee -a {own}")]);
    assert_eq!(steps.undo, [format!("sed -i '\\|^net[.]core[.]somaxconn = 4096$|d' {own}")]);
    // A package's file is left alone.
    configuration.packaged.insert(own.into());
    let steps = keep(&configuration, "net.core.somaxconn", "4096").unwrap();
    assert_eq!(steps.files, ["/etc/sysctl.d/99-zz-nettune-somaxconn.conf"]);
}

#[test]
fn a_line_that_is_there_already_is_not_added_where_undoing_would_take_it() {
    let text = "net.core.somaxconn = 4096\nnet.core.somaxconn = 1\n";
    let steps =
        keep(&configuration(&[("/etc/sysctl.d/50-a.conf", text)]), "net.core.somaxconn", "4096").unwrap();
    assert_eq!(steps.files, ["/etc/sysctl.d/99-zz-nettune-somaxconn.conf"]);
}

#[test]
fn the_file_sorts_after_all_that_set_the_key() {
    let late = ("/usr/lib/sysctl.d/99-zzz.conf", "net.core.somaxconn = 1\n");
    let steps = keep(&configuration(&[late]), "net.core.somaxconn", "4096").unwrap();
    assert_eq!(steps.files, ["/etc/sysctl.d/zzz-nettune-somaxconn.conf"]);
    // What is read last by procps alone needs the line as well.
    let last = (SYSCTL_CONF, "net.core.somaxconn = 1\n");
    let steps = keep(&configuration(&[last]), "net.core.somaxconn", "4096").unwrap();
    assert_eq!(steps.files, ["/etc/sysctl.d/99-zz-nettune-somaxconn.conf", SYSCTL_CONF]);
    // A link leads systemd there, too.
    let mut linked = configuration(&[("/etc/sysctl.d/99-sysctl.conf", last.1), last]);
    linked.files[0].target = Some(SYSCTL_CONF.into());
    assert_eq!(keep(&linked, "net.core.somaxconn", "4096").unwrap().files, [SYSCTL_CONF]);
    // Nothing comes after a name of the last characters.
    assert_eq!(
        keep(&configuration(&[("/usr/lib/sysctl.d/~.conf", late.1)]), "net.core.somaxconn", "4096"),
        None
    );
}

#[test]
fn names_that_a_shell_would_take_for_more_are_left_alone() {
    let file = "/etc/sysctl.d/50 $(reboot).conf";
    let steps =
        keep(&configuration(&[(file, "net.core.somaxconn = 1\n")]), "net.core.somaxconn", "4096").unwrap();
    assert_eq!(steps.files, ["/etc/sysctl.d/99-zz-nettune-somaxconn.conf"]);
    assert_eq!(keep(&configuration(&[]), "net.core.somaxconn", "1 '; reboot"), None);
}

#[test]
fn a_module_is_loaded_first() {
    let steps = keep(&configuration(&[]), "net.netfilter.nf_conntrack_max", "262144").unwrap();
    let files = [
        "/etc/modules-load.d/nettune-nf_conntrack.conf",
        "/etc/sysctl.d/99-zz-nettune-nf_conntrack_max.conf",
    ];
    assert_eq!(steps.files, files);
    assert_eq!(steps.undo, files.map(|file| format!("rm -f {file}")));
}

/// Modules of a kernel of Debian's, with cubic and fq_codel built in.
fn modular() -> Modules {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let offered = Offered {
        built_in: Some(set(&["tcp_cubic", "sch_fq_codel"])),
        on_disk: Some(set(&["tcp_bbr", "tcp_htcp", "tcp_vegas", "sch_fq", "sch_ingress"])),
        congestion_controls: set(&["reno", "cubic"]),
        is_fixed: false,
        on_demand: true,
    };
    Modules { offered, ..Modules::default() }
}

const CHOSEN: &str = "net.ipv4.tcp_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";
const QDISC: &str = "net.core.default_qdisc";

/// The problem that a file with these lines has, if any.
fn problem(modules: Modules, lines: &str) -> Option<Problem> {
    let files = [("/etc/sysctl.d/a.conf", lines)];
    let configuration = Configuration { modules, ..configuration(&files) };
    let mut taking = TAKING();
    taking.by_alias = true;
    let found = evaluate(&configuration, &all_keys(), &BTreeSet::new(), taking);
    assert!(found.problems.len() < 2, "{found:?}");
    found.problems.first().map(|found| found.problem)
}

/// What kernels 6.1 and 6.12 of Debian were seen to do with systemd-sysctl and with
/// `sysctl --system` at boot.
#[test]
fn names_are_loaded_when_they_are_written_and_exist() {
    let of = |key: &str, name: &str| problem(modular(), &format!("{key} = {name}\n"));
    for name in ["reno", "cubic", "bbr", "vegas"] {
        assert_eq!(of(CHOSEN, name), None, "{name}");
    }
    for name in ["nosuch", "tcp_bbr", "BBR", "dctcp-reno", "bbr # fast", "fq"] {
        assert_eq!(of(CHOSEN, name), Some(Problem::RefusedValue), "{name}");
    }
    for name in ["pfifo_fast", "bfifo", "noqueue", "mq", "fq_codel", "fq", "clsact"] {
        assert_eq!(of(QDISC, name), None, "{name}");
    }
    assert_eq!(of(QDISC, "nosuch"), Some(Problem::RefusedValue));
    // Being allowed loads nothing.
    assert_eq!(of(ALLOWED, "reno cubic"), None);
    assert_eq!(of(ALLOWED, "reno cubic htcp"), Some(Problem::ModuleMissing));
    assert_eq!(of(ALLOWED, "reno htcp nosuch"), Some(Problem::RefusedValue));
    let order = [format!("{CHOSEN} = htcp"), format!("{ALLOWED} = reno htcp")];
    assert_eq!(problem(modular(), &order.join("\n")), None);
    assert_eq!(problem(modular(), &format!("{}\n{}", order[1], order[0])), Some(Problem::ModuleMissing));
}

#[test]
fn what_keeps_a_module_from_being_loaded_keeps_its_name_out() {
    let both = format!("{CHOSEN} = vegas\n");
    let modules = |change: fn(&mut Modules)| {
        let mut modules = modular();
        change(&mut modules);
        modules
    };
    let replaced = modules(|modules| modules.replaced.extend(["tcp_vegas".to_owned(), "sch_fq".to_owned()]));
    assert_eq!(problem(replaced.clone(), &both), Some(Problem::RefusedValue));
    assert_eq!(problem(replaced, &format!("{QDISC} = fq\n")), Some(Problem::RefusedValue));
    // A blacklist hides aliases alone.
    let listed =
        || modules(|modules| modules.blacklisted.extend(["tcp_vegas".to_owned(), "sch_fq".to_owned()]));
    assert_eq!(problem(listed(), &both), None);
    assert_eq!(problem(listed(), &format!("{QDISC} = fq\n")), Some(Problem::RefusedValue));
    let files = [("/etc/sysctl.d/a.conf", "net.core.default_qdisc = fq\n")];
    let before_aliases = Configuration { modules: listed(), ..configuration(&files) };
    assert_eq!(found(&before_aliases).problems, []);
    // The kernel may ask nobody: only what is loaded early is there.
    let alone = || modules(|modules| modules.offered.on_demand = false);
    assert_eq!(problem(alone(), &both), Some(Problem::ModuleMissing));
    let mut early = alone();
    early.at_boot.insert("tcp_vegas".to_owned());
    assert_eq!(problem(early, &both), None);
}

#[test]
fn what_nothing_tells_is_said_to_be_unverified() {
    let none = Modules::default;
    let set = |name: &str| Some(BTreeSet::from([name.to_owned()]));
    assert_eq!(problem(none(), &format!("{CHOSEN} = bbr\n")), Some(Problem::Unverified));
    assert_eq!(problem(none(), &format!("{CHOSEN} = reno\n{QDISC} = pfifo\n")), None);
    let mut loaded = none();
    loaded.loaded.insert("sch_fq".to_owned(), Vec::new());
    loaded.offered.on_demand = true;
    assert_eq!(problem(loaded, &format!("{QDISC} = fq\n")), None);
    // A kernel without modules lists all of its congestion controls, and no disciplines.
    let mut fixed = none();
    fixed.offered.is_fixed = true;
    fixed.offered.congestion_controls.insert("bbr".to_owned());
    assert_eq!(problem(fixed.clone(), &format!("{CHOSEN} = bbr\n{ALLOWED} = bbr\n")), None);
    assert_eq!(problem(fixed.clone(), &format!("{CHOSEN} = vegas\n")), Some(Problem::RefusedValue));
    assert_eq!(problem(fixed.clone(), &format!("{QDISC} = fq\n")), Some(Problem::Unverified));
    fixed.offered.built_in = set("sch_fq");
    assert_eq!(problem(fixed.clone(), &format!("{QDISC} = fq\n")), None);
    assert_eq!(problem(fixed, &format!("{QDISC} = sfq\n")), Some(Problem::RefusedValue));
}

#[test]
fn a_name_whose_module_comes_late_is_kept_with_its_module() {
    let keys = all_keys();
    let files = configuration(&[]);
    let steps = |key: &str, value: &str, modules: Modules| {
        let configuration = Configuration { modules, ..files.clone() };
        let key = keys.iter().find(|other| other.name == key).unwrap();
        persisting(&configuration, key, &keys, None, value, TAKING())
    };
    assert_eq!(steps(CHOSEN, "nosuch", modular()), None);
    assert_eq!(steps(CHOSEN, "bbr", modular()).unwrap().files.len(), 1);
    let late = steps(ALLOWED, "reno htcp", modular()).unwrap();
    assert_eq!(late.files[0], "/etc/modules-load.d/nettune-tcp_htcp.conf");
    let mut alone = modular();
    alone.offered.on_demand = false;
    assert_eq!(steps(QDISC, "fq", alone).unwrap().files[0], "/etc/modules-load.d/nettune-sch_fq.conf");
}
