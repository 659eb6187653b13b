//! Catalogue and metric definitions → documents. Rendering is pure: functions
//! return (path, text) and [`run`] writes or compares.

mod alerts;
mod annotations;
mod formulas;
mod metrics;
mod parameters;
mod rules;
mod runbooks;
mod values;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::catalogue::DIAGNOSES;
use crate::catalogue::diagnoses::Diagnosis;
pub use values::Overrides;
use values::Values;

/// One rendered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Relative to the root of the source tree.
    pub path: String,
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
    /// A value is not as it should be.
    #[error("{0}")]
    Values(String),
    /// Files differ from what is rendered.
    #[error("not current, render again: {0}")]
    Stale(String),
}

/// Every document.
///
/// # Errors
/// What is wrong with the overrides; of the embedded diagnoses a test knows that they
/// can be rendered.
pub fn documents(overrides: &Overrides) -> Result<Vec<Document>, String> {
    let values = Values::new(&DIAGNOSES, overrides)?;
    let rules = rules::rules(&DIAGNOSES, &values)?;
    let document = |path: &str, text| Document { path: path.to_owned(), text };
    let mut documents = vec![
        document("docs/metrics.md", metrics::render()),
        document("docs/parameters.md", parameters::render()),
        document("docs/alerts.md", alerts::render(&DIAGNOSES, &values)?),
        document("alerts/nettune.rules.yml", rules::plain(&rules)),
        document("alerts/nettune.prometheusrule.yaml", rules::resource(&rules)),
    ];
    for diagnosis in &DIAGNOSES.diagnoses {
        let path = format!("alerts/runbooks/{}.md", diagnosis.alert);
        documents.push(Document { path, text: runbooks::render(diagnosis, &values)? });
    }
    Ok(documents)
}

/// The runbook of an alert, with the usual values.
///
/// # Errors
/// None that a test of the embedded diagnoses does not find.
pub fn runbook(diagnosis: &Diagnosis) -> Result<String, String> {
    runbooks::render(diagnosis, &Values::new(&DIAGNOSES, &Overrides::default())?)
}

/// Writes every document below `output`; with `check`, compares and writes
/// nothing.
///
/// # Errors
/// [`Error::Io`], [`Error::Values`]; with `check` [`Error::Stale`], which names the files.
pub fn run(output: &Path, check: bool, overrides: &Overrides) -> Result<(), Error> {
    let mut stale = Vec::new();
    for document in documents(overrides).map_err(Error::Values)? {
        let path = output.join(&document.path);
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
