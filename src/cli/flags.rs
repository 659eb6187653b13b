//! The definitions of the flags of `serve`, and looking them up.

use std::any::Any;
use std::path::PathBuf;

use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use regex::Regex;
use tracing::level_filters::LevelFilter;

use super::{ListenAddress, LogFormat, interval};
use crate::collect::{Others, SOURCES};

pub(super) const AFTER_HELP: &str = "\
Every flag of the exporter is an environment variable too: NETTUNE_ and the \
flag in capitals, with underscores for dots and dashes, for example \
NETTUNE_WEB_LISTEN_ADDRESS. Several addresses or names there are separated by commas. \
The command line wins over the environment, and both over the file.";

/// Every flag of `serve`.
pub(super) fn serve() -> Vec<Arg> {
    let mut args = [web(), paths(), sources(), process()].concat();
    for arg in &mut args {
        *arg = with_environment(arg.clone());
    }
    args
}

fn web() -> Vec<Arg> {
    let args = vec![
        Arg::new("web.listen-address")
            .long("web.listen-address")
            .value_name("ADDRESS")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(str::parse::<ListenAddress>)
            .default_value(":10109")
            .help("Listen here: :PORT (IPv4 and IPv6), HOST:PORT, [IPV6]:PORT or unix:PATH; repeatable"),
        value("web.telemetry-path", "PATH")
            .value_parser(telemetry_path)
            .default_value("/metrics")
            .help("Serve the metrics under this path"),
        switch("web.systemd-socket")
            .help("Use the sockets that systemd passes instead of listening on addresses"),
        value("web.max-connections", "COUNT")
            .value_parser(value_parser!(u32).range(1..=65536))
            .default_value("64")
            .help("Serve at most this many connections at once; others wait"),
    ];
    args.into_iter().map(|arg| arg.help_heading("Web")).collect()
}

fn paths() -> Vec<Arg> {
    let path = |name: &'static str| value(name, "DIR").value_parser(value_parser!(PathBuf));
    let args = vec![
        path("path.procfs").default_value("/proc").help("Mount point of procfs"),
        path("path.sysfs").default_value("/sys").help("Mount point of sysfs"),
        path("path.rootfs")
            .default_value("/")
            .help("The host's root directory: where the files are that set parameters at boot"),
        path("path.recorded").hide(true).help("Serve the netlink answers recorded in this folder"),
    ];
    args.into_iter().map(|arg| arg.help_heading("Paths")).collect()
}

fn sources() -> Vec<Arg> {
    let mut args = Vec::new();
    for source in SOURCES {
        let (on, off) = (format!("collector.{}", source.name), format!("no-collector.{}", source.name));
        args.push(switch(on).help(source.help));
        args.push(switch(off).hide(true));
    }
    args.extend([
        switch("collector.netstat.all").help("Export every counter of netstat, snmp and snmp6, not only the curated ones"),
        value("collector.netdev.device-include", "REGEX")
            .value_parser(regex)
            .help("Export only devices whose name matches, in every source that knows devices"),
        value("collector.netdev.device-exclude", "REGEX")
            .value_parser(regex)
            .help("Export all devices but those whose name matches, in every source that knows devices [default: the plumbing of containers and virtual machines]"),
    ]);
    let heading = "Collectors (all are on; --no-collector.NAME switches one off)";
    args.into_iter().map(|arg| arg.help_heading(heading)).collect()
}

fn process() -> Vec<Arg> {
    let levels = PossibleValuesParser::new(["error", "warn", "info", "debug", "trace"]);
    let formats = PossibleValuesParser::new(["text", "json"]);
    let args = vec![
        value("sample.interval", "DURATION")
            .value_parser(interval::parse)
            .default_value("15s")
            .help("Interval that ratios are taken over, 1s to 10m"),
        value("sockets.interval", "DURATION").value_parser(interval::parse).default_value("15s").help(
            "Time from pass to pass over TCP connections, and from look to look at UDP sockets, 1s to 10m",
        ),
        value("sockets.cpu-budget", "PERCENT").value_parser(percent).default_value("1%").help(
            "Share of one CPU that these passes may take, 0.1% to 100%; where one costs more, they are rarer",
        ),
        switch("sockets.close-notifications").help(
            "Hear of TCP connections that are closed between passes; on unless --no-sockets.close-notifications",
        ),
        switch("no-sockets.close-notifications").hide(true),
        state_dir(),
        Arg::new("netns")
            .long("netns")
            .value_name("NAME")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .default_value("self")
            .help("Network namespaces: self for the exporter's own alone, all, or names of others to read besides, as nettune_netns_info has them; repeatable"),
        value("config.file", "FILE")
            .value_parser(value_parser!(PathBuf))
            .help("YAML file with devices and collectors; read again on SIGHUP"),
        switch("config.check").help("Check flags and file, print one line and exit with 0 or 1"),
        value("log.level", "LEVEL")
            .value_parser(levels.map(|level| level.parse::<LevelFilter>().unwrap_or(LevelFilter::INFO)))
            .default_value("info")
            .help("Log what is at least this important"),
        value("log.format", "FORMAT")
            .value_parser(formats.map(
                |format| {
                    if format == "json" { LogFormat::Json } else { LogFormat::Text }
                },
            ))
            .default_value("text")
            .help("How log lines look on standard error"),
    ];
    args.into_iter().map(|arg| arg.help_heading("Process")).collect()
}

/// Given twice, the later one wins, so that a unit's drop-in can append.
fn value(name: &'static str, value_name: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value_name).overrides_with(name)
}

fn switch(name: impl Into<String>) -> Arg {
    let name = name.into();
    Arg::new(name.clone())
        .long(name.clone())
        .action(ArgAction::SetTrue)
        .value_parser(BoolishValueParser::new())
        .overrides_with(name)
}

/// `web.listen-address` is `NETTUNE_WEB_LISTEN_ADDRESS`. An empty variable is
/// one that is not set, as templates of units and pods produce them.
fn with_environment(arg: Arg) -> Arg {
    let variable = format!("NETTUNE_{}", arg.get_id().as_str().to_uppercase().replace(['.', '-'], "_"));
    if std::env::var_os(&variable).is_none_or(|value| value.is_empty()) {
        return arg;
    }
    arg.env(variable).hide_env(true)
}

fn state_dir() -> Arg {
    value("state.dir", "DIR").value_parser(value_parser!(PathBuf)).help(
        "Keep changes of parameters in this folder, so that they survive a restart [default: $STATE_DIRECTORY, else in memory only]",
    )
}

/// Every flag of `changes`.
pub(super) fn changes() -> Vec<Arg> {
    let format = value("format", "FORMAT")
        .value_parser(PossibleValuesParser::new(["text", "json"]))
        .default_value("text")
        .help("How changes are printed");
    let directory = state_dir().help("Folder where the exporter keeps them [default: $STATE_DIRECTORY]");
    vec![with_environment(directory), format]
}

fn telemetry_path(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>%".contains(&byte));
    if !text.starts_with('/') || !plain {
        return Err("must start with / and consist of plain path characters".to_owned());
    }
    if matches!(text, "/" | "/changes") || text.starts_with("/-/") {
        return Err("/, /changes and /-/ are taken by the exporter's own pages".to_owned());
    }
    Ok(text.to_owned())
}

/// A share of one CPU, with the sign: `1%`, `0.5%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("expected a number and a percent sign, such as 1% or 0.5%")?;
    match number.parse::<f64>() {
        Ok(percent) if (0.1..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("must be between 0.1% and 100%".to_owned()),
    }
}

/// The last line of the crate's message says what is wrong; the others draw it.
pub(crate) fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        format!("not a regular expression: {}", last.trim_start_matches("error: "))
    })
}

/// The flags of `serve`, which may stand before and after the command's name.
pub(super) struct Flags<'a> {
    root: &'a ArgMatches,
    below: Option<&'a ArgMatches>,
}

impl<'a> Flags<'a> {
    pub(super) fn new(root: &'a ArgMatches, below: Option<&'a ArgMatches>) -> Self {
        Self { root, below }
    }

    /// `--netns`; `self` is served whatever else is.
    pub(super) fn others(&self) -> Others {
        let mut names: Vec<String> = self.all("netns");
        names.retain(|name| !name.is_empty() && name != "self");
        match names {
            _ if names.iter().any(|name| name == "all") => Others::All,
            _ if names.is_empty() => Others::None,
            _ => Others::Named(names),
        }
    }

    /// What was typed last; else the environment, else the default, which are
    /// the same in both places.
    fn decisive(&self, name: &str) -> &'a ArgMatches {
        self.typed(name).last().unwrap_or(self.root)
    }

    fn typed(&self, name: &str) -> impl DoubleEndedIterator<Item = &'a ArgMatches> {
        let name = name.to_owned();
        std::iter::once(self.root)
            .chain(self.below)
            .filter(move |matches| matches.value_source(&name) == Some(ValueSource::CommandLine))
    }

    pub(super) fn one<T: Any + Clone + Send + Sync>(&self, name: &str) -> Option<T> {
        self.decisive(name).get_one::<T>(name).cloned()
    }

    /// All values of a repeatable flag, in the order they were typed.
    pub(super) fn all<T: Any + Clone + Send + Sync>(&self, name: &str) -> Vec<T> {
        let values = |matches: &'a ArgMatches| matches.get_many::<T>(name).into_iter().flatten().cloned();
        let typed: Vec<T> = self.typed(name).flat_map(values).collect();
        if typed.is_empty() { values(self.root).collect() } else { typed }
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.decisive(name).get_flag(name)
    }

    /// Whether this was switched on, or off by `no-`; `None` when nothing was said.
    pub(super) fn switch(&self, name: &str) -> Option<bool> {
        let (on, off) = (name.to_owned(), format!("no-{name}"));
        let typed = [(&on, true), (&off, false)].into_iter().flat_map(|(name, value)| {
            self.typed(name).map(move |matches| {
                // Those below stand after the command's name.
                let below = self.below.is_some_and(|below| std::ptr::eq(below, matches));
                ((below, matches.index_of(name)), value)
            })
        });
        if let Some((_, value)) = typed.max() {
            return Some(value);
        }
        let environment = |name: &str| {
            (self.root.value_source(name) == Some(ValueSource::EnvVariable)).then(|| self.root.get_flag(name))
        };
        match (environment(&on), environment(&off)) {
            (_, Some(true)) => Some(false),
            (on, _) => on,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_their_sign() {
        assert_eq!((percent("1%"), percent("0.5%"), percent("100%")), (Ok(0.01), Ok(0.005), Ok(1.0)));
        for bad in ["1", "0.01", "0%", "101%", "-1%", "NaN%", "%", "1 %", ""] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_regex_is_one_line() {
        assert_eq!(regex("(").unwrap_err(), "not a regular expression: unclosed group");
        assert!(regex(r"^eth\d+$").is_ok());
    }

    #[test]
    fn telemetry_paths_leave_the_own_pages_alone() {
        assert!(telemetry_path("/metrics").is_ok());
        assert!(telemetry_path("/a/b-c_d.e").is_ok());
        for bad in ["", "metrics", "/", "/changes", "/-/ready", "/a b", "/a?b", "/ä"] {
            assert!(telemetry_path(bad).is_err(), "{bad:?}");
        }
    }
}
