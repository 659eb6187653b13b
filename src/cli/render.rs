//! Flags of `render`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

/// Flags of `render`.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderArgs {
    /// The folder to write to, or to compare with.
    pub output: PathBuf,
    /// Write nothing; fail when a file differs.
    pub check: bool,
    /// A file that overrides thresholds, windows, labels and addresses.
    pub values: Option<PathBuf>,
    /// The length of the usual window; others change in proportion.
    pub window: Option<String>,
    /// What every `for` is multiplied with.
    pub for_scale: Option<f64>,
}

pub(super) fn command() -> clap::Command {
    let path = |name| Arg::new(name).long(name).value_parser(value_parser!(PathBuf));
    clap::Command::new("render")
        .about("Write rules, runbooks and reference documents from the catalogue")
        .arg(path("output").value_name("DIR").default_value(".").help("Folder to write to, or to compare with"))
        .arg(
            Arg::new("check")
                .long("check")
                .action(ArgAction::SetTrue)
                .help("Write nothing; fail when a file differs from what would be written"),
        )
        .arg(path("values").value_name("FILE").help(
            "YAML file that overrides thresholds and windows (values:), the labels that tell targets apart (identity:), runbook_url and dashboard_url",
        ))
        .arg(
            Arg::new("window")
                .long("window")
                .value_name("TIME")
                .help("Length of the usual window, 5m unless given; the other windows change in proportion"),
        )
        .arg(
            Arg::new("for-scale")
                .long("for-scale")
                .value_name("FACTOR")
                .value_parser(factor)
                .help("What the time that a finding must last is multiplied with"),
        )
}

pub(super) fn args(matches: &ArgMatches) -> RenderArgs {
    RenderArgs {
        output: matches.get_one::<PathBuf>("output").cloned().unwrap_or_default(),
        check: matches.get_flag("check"),
        values: matches.get_one::<PathBuf>("values").cloned(),
        window: matches.get_one::<String>("window").cloned(),
        for_scale: matches.get_one::<f64>("for-scale").copied(),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
    factor.ok_or_else(|| "expected a number above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::cli::{Command, RenderArgs, parse};

    fn render(flags: &[&str]) -> Option<RenderArgs> {
        let line = ["nettune", "render"].iter().chain(flags).map(OsString::from);
        match parse(line) {
            Ok(Command::Render(args)) => Some(args),
            _ => None,
        }
    }

    #[test]
    fn render_is_parsed() {
        let args =
            render(&["--output", "x", "--check", "--values", "v.yaml", "--window", "10s", "--for-scale=0.1"]);
        let expected = RenderArgs {
            output: "x".into(),
            check: true,
            values: Some("v.yaml".into()),
            window: Some("10s".into()),
            for_scale: Some(0.1),
        };
        assert_eq!(args, Some(expected));
        for bad in ["0", "-1", "nan", "inf", "x"] {
            assert_eq!(render(&["--for-scale", bad]), None, "{bad}");
        }
    }
}
