//! Commands and exit codes, nothing else.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use nettune::cli::{self, ChangesArgs, Command, RenderArgs, ServeArgs};
use nettune::config::{self, Config, one_line};
use nettune::kernel::{Kernel, Roots};
use nettune::render::Overrides;
use nettune::{ledger, serve};

fn main() -> ExitCode {
    let outcome = match cli::parse(std::env::args_os()) {
        Ok(Command::Serve(args)) if args.config_check => check(*args),
        Ok(Command::Serve(args)) => run(*args),
        Ok(Command::Render(args)) => render(&args),
        Ok(Command::Changes(args)) => changes(&args),
        Ok(Command::Explain(name)) => explain(&name),
        // Help and version are answers too.
        Err(error) if error.exit_code() == 0 => print(&error.to_string()),
        Err(error) => Err(cli::message(&error).into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the exit code has to do.
            let _ = writeln!(io::stderr(), "nettune: {}", one_line(&chain(&*error)));
            ExitCode::FAILURE
        }
    }
}

fn run(args: ServeArgs) -> Result<(), Box<dyn Error>> {
    Ok(serve::start(Config::load(args)?)?)
}

fn check(args: ServeArgs) -> Result<(), Box<dyn Error>> {
    let config = Config::load(args)?;
    match config.args.config_file {
        Some(path) => print(&format!("{}: good\n", path.display())),
        None => print("flags: good; no --config.file was given\n"),
    }
}

fn render(args: &RenderArgs) -> Result<(), Box<dyn Error>> {
    let mut overrides: Overrides = args.values.as_deref().map(config::read).transpose()?.unwrap_or_default();
    overrides.window.clone_from(&args.window);
    overrides.for_scale = args.for_scale;
    Ok(nettune::render::run(&args.output, args.check, &overrides)?)
}

fn changes(args: &ChangesArgs) -> Result<(), Box<dyn Error>> {
    let (changes, lines) = ledger::read(&args.state_dir)?;
    if let Some(first) = lines.first {
        let count = lines.unreadable;
        // If standard error is closed, what could be read is still worth printing.
        let _ = writeln!(io::stderr(), "nettune: left out {count} lines that cannot be read; {first}");
    }
    print(&if args.json { ledger::json(changes) } else { ledger::text(changes) })
}

fn explain(name: &str) -> Result<(), Box<dyn Error>> {
    let mut kernel = Kernel::live(Roots::default());
    print(&nettune::explain::explain(name, &mut kernel)?)
}

/// A reader that has had enough, as `head` has, is no failure.
fn print(text: &str) -> Result<(), Box<dyn Error>> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The error and its causes on one line; causes that their effect already
/// quotes are not repeated.
fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line
}
