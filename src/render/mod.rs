//! Catalogue and metric definitions → documents. Rendering is pure: functions
//! return (path, text) and [`run`] writes or compares.

mod alerts;
mod annotations;
mod formulas;
mod metrics;
mod overrides;
mod parameters;
mod rules;
mod runbooks;
mod values;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::catalogue::DIAGNOSES;
use crate::catalogue::diagnoses::Diagnosis;
pub use overrides::Overrides;
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
    let documents = documents(overrides).map_err(Error::Values)?;
    if !check {
        return write(output, &documents);
    }
    let mut stale = Vec::new();
    for document in documents {
        let path = output.join(&document.path);
        // Nobody writes into a pipe of that name.
        let current = path.is_file()
            && fs::read(&path).map_err(|source| Error::Io { path, source })? == document.text.as_bytes();
        if !current {
            stale.push(document.path);
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(Error::Stale(stale.join(", "))) }
}

/// All of them, each beside the file that it then replaces: a disk that fills up leaves
/// what was there, and no Prometheus loads half a file.
fn write(output: &Path, documents: &[Document]) -> Result<(), Error> {
    let places = documents.iter().map(|document| {
        let path = output.join(&document.path);
        let mut beside = path.clone().into_os_string();
        beside.push(".new");
        (path, PathBuf::from(beside))
    });
    let places: Vec<_> = places.collect();
    let written = documents.iter().zip(&places).try_for_each(|(document, (path, beside))| {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let failed = |source| Error::Io { path: path.clone(), source };
        made.and_then(|()| fs::write(beside, &document.text)).map_err(failed)
    });
    let replace = |(path, beside): &(PathBuf, PathBuf)| {
        fs::rename(beside, path).map_err(|source| Error::Io { path: path.clone(), source })
    };
    let outcome = written.and_then(|()| places.iter().try_for_each(replace));
    if outcome.is_err() {
        for (_, beside) in &places {
            let _ = fs::remove_file(beside);
        }
    }
    outcome
}
