//! Flags and configuration file → a checked [`Config`], once at start; and the
//! part of it that a reload changes.

mod accepted;
mod devices;
mod file;
mod limits;
mod line;
mod path;
mod reload;

use std::sync::Arc;

use crate::cli::ServeArgs;
use crate::collect::{DeviceFilter, Selection, Settings};

pub use file::{Error, read};
pub use line::one_line;
pub use reload::ReloadState;

/// Everything `serve` needs to know, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// What was typed. Only a restart changes it.
    pub args: ServeArgs,
    /// What to read; flags, and the file where no flag speaks.
    pub settings: Settings,
}

impl Config {
    /// Reads and checks the file that the flags name, if any.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is not as it should be.
    pub fn load(args: ServeArgs) -> Result<Self, Error> {
        let settings = settings(&args)?;
        Ok(Self { args, settings })
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// As [`Config::load`]; the settings in use are not touched.
    pub fn reload(&self) -> Result<Settings, Error> {
        settings(&self.args)
    }
}

fn settings(args: &ServeArgs) -> Result<Settings, Error> {
    let file = match &args.config_file {
        Some(path) => file::read::<file::File>(path)?,
        None => file::File::default(),
    };
    let said = |name: &str| args.collectors.iter().find(|(source, _)| *source == name).map(|(_, on)| *on);
    let by_flag = args.collectors.iter().filter(|(_, on)| !on).map(|(source, _)| *source);
    let by_file = file.disabled().filter(|name| said(name) != Some(true));
    let enabled = by_flag.chain(by_file).fold(Selection::all(), Selection::without);
    // A filter given as a flag replaces the file's whole, whichever way round.
    let paths = Arc::new(file.paths());
    let declared = Arc::new(file.declared());
    let devices = args.devices.clone().or(file.devices());
    Ok(Settings {
        enabled,
        devices: devices.unwrap_or_else(|| DeviceFilter::Exclude(devices::plumbing())),
        netstat_all: args.netstat_all,
        sample_interval: args.sample_interval,
        sockets_interval: args.sockets_interval,
        sockets_cpu_budget: args.sockets_cpu_budget,
        close_notifications: args.close_notifications,
        paths,
        declared,
        others: args.others.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use super::*;
    use crate::cli::{self, Command};
    use crate::collect::SOURCES;

    /// A file of the test's own, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, content: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nettune-{}-{name}.yaml", std::process::id()));
            std::fs::write(&path, content).expect("the temporary folder can be written");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn load(file: &Scratch, flags: &[&str]) -> Settings {
        let line = ["nettune", "--config.file"].map(OsString::from).into_iter();
        let line = line.chain([file.0.clone().into_os_string()]).chain(flags.iter().map(OsString::from));
        let Ok(Command::Serve(args)) = cli::parse(line) else { panic!("the flags are good") };
        Config::load(*args).expect("the file is good").settings
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = Scratch::new("devices", "devices:\n  include: ^eth\n");
        let DeviceFilter::Include(regex) = load(&file, &[]).devices else { panic!("the file includes") };
        assert_eq!(regex.as_str(), "^eth");
        let flag = ["--collector.netdev.device-exclude=^lo$"];
        let DeviceFilter::Exclude(regex) = load(&file, &flag).devices else { panic!("the flag excludes") };
        assert_eq!(regex.as_str(), "^lo$");

        let Some(source) = SOURCES.first().map(|source| source.name) else {
            return;
        };
        let file = Scratch::new("collectors", &format!("collectors:\n  disabled: [{source}]\n"));
        assert_eq!(load(&file, &[]).enabled, Selection::all().without(source));
        assert_eq!(load(&file, &[&format!("--collector.{source}")]).enabled, Selection::all());
    }

    #[test]
    fn without_a_filter_plumbing_is_left_out() {
        let DeviceFilter::Exclude(regex) = load(&Scratch::new("empty", ""), &[]).devices else {
            panic!("the default excludes")
        };
        assert!(regex.is_match("veth0") && !regex.is_match("eth0"));
    }
}
