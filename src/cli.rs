//! Flags and environment variables: what the user typed, not yet what it means.

mod address;
mod flags;
mod interval;
mod render;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches};
use tracing::level_filters::LevelFilter;

use crate::REVISION;
use crate::collect::{DeviceFilter, Others, SOURCES};
use crate::kernel::Roots;

use flags::Flags;

pub use address::ListenAddress;
pub(crate) use flags::regex;
pub(crate) use interval::duration;
pub use render::RenderArgs;

/// What the program is asked to do.
#[derive(Debug)]
pub enum Command {
    /// The exporter.
    Serve(Box<ServeArgs>),
    /// Rules, dashboards and documents from the catalogue.
    Render(RenderArgs),
    /// Changes of parameters that an exporter wrote down.
    Changes(ChangesArgs),
    /// What there is to know about a parameter or an alert.
    Explain(String),
}

/// Flags of `changes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesArgs {
    /// Where the exporter keeps them.
    pub state_dir: PathBuf,
    /// As JSON, not as text.
    pub json: bool,
}

/// Flags of `serve`.
#[derive(Debug, Clone)]
pub struct ServeArgs {
    /// Where to listen; not used with `systemd_socket`.
    pub listen_addresses: Vec<ListenAddress>,
    /// Use the sockets that systemd passed.
    pub systemd_socket: bool,
    /// Path of the metrics.
    pub telemetry_path: String,
    /// Most connections that are served at once.
    pub max_connections: usize,
    /// Where procfs, sysfs and the host's root are mounted.
    pub roots: Roots,
    /// A recording to serve instead of the running kernel.
    pub recorded: Option<PathBuf>,
    /// Sources switched on or off, by name; those not mentioned are left out.
    pub collectors: Vec<(&'static str, bool)>,
    /// Export every counter of netstat and snmp.
    pub netstat_all: bool,
    /// The device filter, when one was given.
    pub devices: Option<DeviceFilter>,
    /// Interval of the ticker behind ratios.
    pub sample_interval: Duration,
    /// `--sockets.interval`
    pub sockets_interval: Duration,
    /// `--sockets.cpu-budget`, as a share of one CPU
    pub sockets_cpu_budget: f64,
    /// `--sockets.close-notifications`
    pub close_notifications: bool,
    /// Where changes of parameters are kept; `None` for memory alone.
    pub state_dir: Option<PathBuf>,
    /// `--netns`
    pub others: Others,
    /// The configuration file.
    pub config_file: Option<PathBuf>,
    /// Check flags and file, then exit.
    pub config_check: bool,
    /// Least important log lines that are written.
    pub log_level: LevelFilter,
    /// How log lines are written.
    pub log_format: LogFormat,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Reads the command line (with the program's name first) and the environment.
///
/// # Errors
/// Whatever clap objects to; `--help` and `--version` are errors of this kind
/// too. [`message`] makes one line of it.
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let mut command = command();
    let root = command.try_get_matches_from_mut(line)?;
    let (name, below) = match root.subcommand() {
        Some((name, below)) => (name, Some(below)),
        None => ("serve", None),
    };
    match (name, below) {
        ("render", Some(render)) => Ok(Command::Render(render::args(render))),
        ("explain", Some(explain)) => {
            Ok(Command::Explain(explain.get_one::<String>("name").cloned().unwrap_or_default()))
        }
        ("changes", Some(changes)) => match changes_args(&Flags::new(&root, below), changes) {
            Some(args) => Ok(Command::Changes(args)),
            None => Err(command.error(ErrorKind::MissingRequiredArgument, NO_STATE_DIR)),
        },
        _ => match serve_args(&Flags::new(&root, below)) {
            Ok(args) => Ok(Command::Serve(Box::new(args))),
            Err(conflict) => Err(command.error(ErrorKind::ArgumentConflict, conflict)),
        },
    }
}

/// What clap objects to, on one line, without usage and pointers to help.
pub fn message(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let mut message = String::new();
    for line in lines {
        if line.is_empty() {
            continue;
        }
        if !message.is_empty() {
            message.push_str(if line.starts_with("tip:") { "; " } else { " " });
        }
        message.push_str(line);
    }
    message.strip_prefix("error: ").map(str::to_owned).unwrap_or(message)
}

const NO_STATE_DIR: &str = "neither '--state.dir' nor $STATE_DIRECTORY says where changes are kept; a running exporter shows its own at /changes";

fn command() -> clap::Command {
    let serve = clap::Command::new("serve")
        .about("Run the exporter (the default)")
        .args(flags::serve())
        .next_line_help(true)
        .after_help(flags::AFTER_HELP);
    let changes = clap::Command::new("changes")
        .about("Print the changes of parameters that an exporter wrote down")
        .args(flags::changes())
        .next_line_help(true);
    let explain = clap::Command::new("explain")
        .about("Tell what a parameter bounds, what it is here, and what an alert proves")
        .arg(
            Arg::new("name")
                .value_name("PARAMETER|ALERT")
                .required(true)
                .help("As in docs/parameters.md and docs/alerts.md"),
        );
    clap::Command::new("nettune")
        .about("Prometheus exporter for Linux networking. Reads only; never writes a parameter.")
        .version(format!("{} (revision {REVISION})", env!("CARGO_PKG_VERSION")))
        .args(flags::serve())
        .subcommand(serve)
        .subcommand(render::command())
        .subcommand(changes)
        .subcommand(explain)
        .disable_help_subcommand(true)
        .subcommand_value_name("COMMAND")
        .next_line_help(true)
        .max_term_width(80)
        .after_help(flags::AFTER_HELP)
}

/// `None` where nothing says where changes are kept.
fn changes_args(flags: &Flags, matches: &ArgMatches) -> Option<ChangesArgs> {
    let state_dir = state_dir(flags.one("state.dir"))?;
    let json = matches.get_one::<String>("format").is_some_and(|format| format == "json");
    Some(ChangesArgs { state_dir, json })
}

/// Without a flag the first of the folders that the service manager made; an empty name
/// is none.
fn state_dir(flag: Option<PathBuf>) -> Option<PathBuf> {
    let made = || {
        let made = std::env::var_os("STATE_DIRECTORY")?;
        let first = made.as_bytes().split(|byte| *byte == b':').next()?;
        Some(PathBuf::from(OsStr::from_bytes(first)))
    };
    flag.or_else(made).filter(|directory| !directory.as_os_str().is_empty())
}

/// The error is a pair of flags that exclude each other.
fn serve_args(flags: &Flags) -> Result<ServeArgs, String> {
    let defaults = Roots::default();
    Ok(ServeArgs {
        listen_addresses: flags.all("web.listen-address"),
        systemd_socket: flags.is_set("web.systemd-socket"),
        telemetry_path: flags.one("web.telemetry-path").unwrap_or_else(|| "/metrics".to_owned()),
        max_connections: flags.one::<u32>("web.max-connections").unwrap_or(64) as usize,
        roots: Roots {
            proc: flags.one("path.procfs").unwrap_or(defaults.proc),
            sys: flags.one("path.sysfs").unwrap_or(defaults.sys),
            host: flags.one("path.rootfs").unwrap_or(defaults.host),
        },
        recorded: flags.one("path.recorded"),
        collectors: SOURCES
            .iter()
            .filter_map(|source| Some((source.name, flags.switch(&format!("collector.{}", source.name))?)))
            .collect(),
        netstat_all: flags.is_set("collector.netstat.all"),
        devices: devices(flags)?,
        sample_interval: flags.one("sample.interval").unwrap_or(Duration::from_secs(15)),
        sockets_interval: flags.one("sockets.interval").unwrap_or(Duration::from_secs(15)),
        sockets_cpu_budget: flags.one("sockets.cpu-budget").unwrap_or(0.01),
        close_notifications: flags.switch("sockets.close-notifications").unwrap_or(true),
        state_dir: state_dir(flags.one("state.dir")),
        others: flags.others(),
        config_file: flags.one("config.file"),
        config_check: flags.is_set("config.check"),
        log_level: flags.one("log.level").unwrap_or(LevelFilter::INFO),
        log_format: flags.one("log.format").unwrap_or(LogFormat::Text),
    })
}

fn devices(flags: &Flags) -> Result<Option<DeviceFilter>, String> {
    let include = flags.one("collector.netdev.device-include");
    let exclude = flags.one("collector.netdev.device-exclude");
    match (include, exclude) {
        (Some(_), Some(_)) => Err("'--collector.netdev.device-include' and \
             '--collector.netdev.device-exclude' exclude each other"
            .to_owned()),
        (Some(include), None) => Ok(Some(DeviceFilter::Include(include))),
        (None, exclude) => Ok(exclude.map(DeviceFilter::Exclude)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(line: &[&str]) -> ServeArgs {
        let line = std::iter::once("nettune").chain(line.iter().copied()).map(OsString::from);
        match parse(line) {
            Ok(Command::Serve(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn refused(line: &[&str]) -> String {
        let line = std::iter::once("nettune").chain(line.iter().copied()).map(OsString::from);
        message(&parse(line).expect_err("the line is wrong"))
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn flags_work_before_and_after_the_command_and_the_later_one_wins() {
        let args = serve(&["--log.level=debug", "serve", "--web.telemetry-path", "/m"]);
        assert_eq!(args.log_level, LevelFilter::DEBUG);
        assert_eq!(args.telemetry_path, "/m");
        assert_eq!(args.max_connections, 64);

        assert_eq!(serve(&["--log.level=debug", "serve", "--log.level=warn"]).log_level, LevelFilter::WARN);
        assert_eq!(serve(&["--log.level=debug", "--log.level=error"]).log_level, LevelFilter::ERROR);
    }

    #[test]
    fn listen_addresses_add_up() {
        let shown = |line: &[&str]| {
            let addresses = serve(line).listen_addresses;
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&[]), ":10109");
        assert_eq!(
            shown(&["--web.listen-address=[::1]:1", "serve", "--web.listen-address=unix:/run/n.sock"]),
            "[::1]:1 unix:/run/n.sock"
        );
    }

    #[test]
    fn every_source_has_a_pair_of_switches_and_the_later_one_wins() {
        for source in SOURCES {
            let on = format!("--collector.{}", source.name);
            let off = format!("--no-collector.{}", source.name);
            assert_eq!(serve(&[&on, &off]).collectors, [(source.name, false)]);
            assert_eq!(serve(&[&off, &on]).collectors, [(source.name, true)]);
            assert_eq!(serve(&[&off, "serve", &on]).collectors, [(source.name, true)]);
            assert_eq!(serve(&[&on, "serve", &off]).collectors, [(source.name, false)]);
            assert_eq!(serve(&[&on, "serve"]).collectors, [(source.name, true)]);
        }
        assert!(serve(&[]).collectors.is_empty());
    }

    #[test]
    fn close_notifications_are_on_unless_switched_off() {
        let (on, off) = ("--sockets.close-notifications", "--no-sockets.close-notifications");
        for (line, expected) in
            [(&[][..], true), (&[off], false), (&[off, "serve", on], true), (&[on, off], false)]
        {
            assert_eq!(serve(line).close_notifications, expected, "{line:?}");
        }
    }

    #[test]
    fn other_namespaces_are_none_all_or_named() {
        let named = |names: &[&str]| Others::Named(names.iter().map(|name| (*name).to_owned()).collect());
        for (line, expected) in [
            (&[][..], Others::None),
            (&["--netns=self"], Others::None),
            (&["--netns=self,all"], Others::All),
            (&["--netns=web", "--netns", "db,a b"], named(&["web", "db", "a b"])),
            (&["--netns=web", "serve", "--netns=self,db"], named(&["web", "db"])),
        ] {
            assert_eq!(serve(line).others, expected, "{line:?}");
        }
    }

    #[test]
    fn device_filters_exclude_each_other_wherever_they_stand() {
        let (include, exclude) =
            ("--collector.netdev.device-include=eth", "--collector.netdev.device-exclude=lo");
        let expected =
            "'--collector.netdev.device-include' and '--collector.netdev.device-exclude' exclude each other";
        assert_eq!(refused(&[include, exclude]), expected);
        assert_eq!(refused(&[exclude, "serve", include]), expected);
        assert!(matches!(serve(&[include]).devices, Some(DeviceFilter::Include(_))));
        assert!(matches!(serve(&["serve", exclude]).devices, Some(DeviceFilter::Exclude(_))));
    }

    #[test]
    fn changes_are_parsed() {
        for line in [
            ["nettune", "changes", "--state.dir=x", "--format=json"],
            ["nettune", "--state.dir=x", "changes", "--format=json"],
        ] {
            let parsed = parse(line.map(OsString::from));
            let Ok(Command::Changes(args)) = parsed else { panic!("{parsed:?}") };
            assert_eq!(args, ChangesArgs { state_dir: "x".into(), json: true });
        }
        assert_eq!(serve(&["--state.dir=/x"]).state_dir, Some("/x".into()));
    }

    #[test]
    fn help_fits_eighty_columns() {
        let help = command().render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
        assert!(help.contains("--web.listen-address"));
        assert!(!help.contains("--path.recorded"));
    }
}
