//! Bytes to every parser of kernel files and answers, and as a configuration file.
#![no_main]

#[path = "../../tests/support/parsers.rs"]
mod parsers;

use std::path::PathBuf;
use std::sync::LazyLock;

use nettune::cli::{self, Command, ServeArgs};
use nettune::config::{Config, one_line};

static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("nettune-fuzz-{}.yaml", std::process::id())));

static ARGUMENTS: LazyLock<ServeArgs> = LazyLock::new(|| {
    let line = ["nettune".into(), "--config.file".into(), FILE.clone().into_os_string()];
    match cli::parse(line) {
        Ok(Command::Serve(arguments)) => *arguments,
        _ => panic!("the flags are good"),
    }
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    parsers::all_survive(bytes);
    std::fs::write(&*FILE, bytes).expect("the temporary folder can be written");
    if let Err(error) = Config::load(ARGUMENTS.clone()) {
        assert!(!one_line(&error.to_string()).contains('\n'));
    }
});
