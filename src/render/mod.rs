//! Catalogue and metric definitions → documents. Rendering is pure: functions
//! return (path, text) and [`run`] writes or compares.

mod formulas;
mod metrics;
mod parameters;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One rendered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Relative to the root of the source tree.
    pub path: &'static str,
    /// The whole text.
    pub text: String,
}

/// Why documents could not be rendered or are not current.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// Files differ from what is rendered.
    #[error("not current, render again: {0}")]
    Stale(String),
}

/// Every document.
pub fn documents() -> Vec<Document> {
    vec![
        Document { path: "docs/metrics.md", text: metrics::render() },
        Document { path: "docs/parameters.md", text: parameters::render() },
    ]
}

/// Writes every document below `output`; with `check`, compares and writes
/// nothing.
///
/// # Errors
/// [`Error::Io`]; with `check` [`Error::Stale`], which names the files.
pub fn run(output: &Path, check: bool) -> Result<(), Error> {
    let mut stale = Vec::new();
    for document in documents() {
        let path = output.join(document.path);
        let failed = |source| Error::Io { path: path.clone(), source };
        if check {
            match fs::read_to_string(&path) {
                Ok(text) if text == document.text => {}
                Ok(_) => stale.push(document.path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => stale.push(document.path),
                Err(error) => return Err(failed(error)),
            }
        } else {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory).map_err(failed)?;
            }
            fs::write(&path, document.text).map_err(failed)?;
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(Error::Stale(stale.join(", "))) }
}
