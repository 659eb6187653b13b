//! What the files set at boot, kept from scrape to scrape. At most every 15 s it is asked
//! whether a file was changed, and only then are files read again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Settings;
use crate::kernel::{Error, Kernel, Result};
use crate::model::host::Facts;
use crate::model::owners::{self, Owned};
use crate::model::parameters::State;
use crate::model::persisted::{Key, Persisted, Taking, evaluate, keys};
use crate::read::owners::{self as programs, Evidence};
use crate::read::persisted::{self as files, Configuration, Content, Loader, Seen, is_pattern};
use crate::read::{cpu, sysctl};

/// Least time from one look at the files to the next.
const INTERVAL: Duration = Duration::from_secs(15);

/// What was last read, and when it was last asked for changes.
#[derive(Debug, Default)]
pub(super) struct Cache {
    looked: Option<Instant>,
    files: Vec<Seen>,
    programs: Vec<Seen>,
    configuration: Configuration,
    evidence: Evidence,
    failed: Option<Arc<Error>>,
    /// Which of the keys that the catalogue or the files name are here.
    here: BTreeSet<String>,
    keys: Vec<Key>,
    persisted: Arc<Persisted>,
}

impl Cache {
    /// What the next boot sets.
    ///
    /// # Errors
    /// A file that cannot be read, while all others are in the answer; absent where
    /// nothing sets parameters at boot.
    pub(super) fn read(
        &mut self,
        kernel: &mut Kernel,
        settings: &Settings,
        facts: Option<&Facts>,
        now: Instant,
    ) -> (Arc<Persisted>, Result<()>) {
        if self.looked.is_none_or(|looked| now.duration_since(looked) >= INTERVAL) {
            self.looked = Some(now);
            self.look(kernel, settings, facts);
        }
        let result = match &self.failed {
            Some(error) => Err(Error::Shared(Arc::clone(error))),
            None => Ok(()),
        };
        (Arc::clone(&self.persisted), result)
    }

    /// Who set values that the files do not explain. Files are applied in the initial
    /// network namespace: values of another one differ for a better reason.
    pub(super) fn owners(&self, kernel: &mut Kernel, states: &[State], facts: Option<&Facts>) -> Vec<Owned> {
        if !is_initial(kernel) {
            return Vec::new();
        }
        let cpus = cpu::read_online(kernel).map(|cpus| cpus.len() as u64);
        owners::find(states, &self.keys, &self.persisted.settings, &self.evidence, cpus, Taking::of(facts))
    }

    fn look(&mut self, kernel: &mut Kernel, settings: &Settings, facts: Option<&Facts>) {
        let files = files::look(kernel);
        let programs = programs::look(kernel, &self.evidence);
        let changed = (&files, &programs) != (&self.files, &self.programs);
        if changed {
            let (configuration, result) = files::read(kernel);
            self.configuration = configuration;
            self.failed = result.err().map(Arc::new);
            self.evidence = programs::read(kernel);
            // As they were before they were read, so that no change is missed; which files
            // of programs there are to look at, only reading them tells.
            self.files = files;
            self.programs = programs::look(kernel, &self.evidence);
        }
        let mut interfaces = sysctl::interfaces(kernel).unwrap_or_default();
        interfaces.retain(|name| settings.devices.keeps(name));
        let named = self.named();
        let (here, missing): (BTreeSet<_>, BTreeSet<_>) =
            named.into_iter().partition(|path| kernel.has_key(path));
        let keys = keys(&interfaces, |path| kernel.has_key(path));
        let same_keys = keys.iter().map(|key| &key.path).eq(self.keys.iter().map(|key| &key.path));
        if changed || here != self.here || !same_keys {
            let mut unknown = missing;
            // Keys of other namespaces are not shown in this one.
            unknown.retain(|path| !path.starts_with("net/") || is_initial(kernel));
            self.persisted = Arc::new(evaluate(&self.configuration, &keys, &unknown, Taking::of(facts)));
            (self.here, self.keys) = (here, keys);
        }
    }

    /// Every path that the files name.
    fn named(&self) -> BTreeSet<String> {
        let lines = self.configuration.files.iter().flat_map(|file| {
            Loader::BOTH.into_iter().flat_map(move |loader| file.lines(loader).unwrap_or_default())
        });
        let paths = lines.filter_map(|line| match &line.content {
            Content::Assignment { path, .. } if !is_pattern(path) => Some(path.clone()),
            _ => None,
        });
        paths.collect()
    }
}

/// The initial network namespace is known by the keys that only it has.
fn is_initial(kernel: &Kernel) -> bool {
    kernel.is_in_initial_namespace() == Some(true)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::collect::{DeviceFilter, Others, Selection};
    use crate::kernel::Roots;
    use crate::model::persisted::Stored;

    fn settings() -> Settings {
        Settings {
            enabled: Selection::all(),
            devices: DeviceFilter::Exclude(regex::Regex::new("^$").unwrap()),
            netstat_all: false,
            sample_interval: INTERVAL,
            sockets_interval: INTERVAL,
            sockets_cpu_budget: 0.01,
            close_notifications: false,
            paths: Arc::default(),
            declared: Arc::default(),
            others: Others::None,
        }
    }

    /// Files are opened in the kernel's layer alone, tests included.
    fn run(line: String) {
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{line}");
    }

    #[test]
    fn files_are_read_again_only_when_they_changed() {
        let host = std::env::temp_dir().join(format!("nettune-boot-{}", std::process::id()));
        let top = host.display().to_string();
        run(format!("rm -rf {top}; mkdir -p {top}/etc/sysctl.d"));
        let recording = Path::new("tests/fixtures/6.18-host");
        let roots = Roots { proc: recording.join("proc"), sys: recording.join("sys"), host: host.clone() };
        let mut kernel = Kernel::recorded(roots, recording).unwrap();
        let (mut cache, settings, start) = (Cache::default(), settings(), Instant::now());
        let mut after = |seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            let (found, result) = cache.read(&mut kernel, &settings, None, now);
            let value = found.settings.first().and_then(|setting| setting.value.clone());
            (value, result.map_err(|error| error.is_absent()))
        };
        let number = |number| Some(Stored::Numbers(vec![Some(number)]));
        assert_eq!(after(0), (None, Err(true)), "no program that applies files");
        run(format!("mkdir -p {top}/usr/sbin; touch {top}/usr/sbin/sysctl"));
        run(format!("echo net.core.somaxconn = 1 > {top}/etc/sysctl.d/a.conf"));
        assert_eq!(after(14), (None, Err(true)));
        assert_eq!(after(15), (number(1), Ok(())));
        run(format!("echo net.core.somaxconn = 22 > {top}/etc/sysctl.d/a.conf"));
        assert_eq!(after(29), (number(1), Ok(())));
        assert_eq!(after(30), (number(22), Ok(())));
        run(format!("rm {top}/etc/sysctl.d/a.conf"));
        assert_eq!(after(45), (None, Ok(())));
        run(format!("rm -r {top}"));
    }
}
