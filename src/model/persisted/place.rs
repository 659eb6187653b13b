//! Where a value is kept so that it survives the next boot, and how that is undone.

use super::boot::boot;
use super::names::missing_module;
use super::writes::{Taking, write};
use super::{Key, Setting};
use crate::read::persisted::{Configuration, File, Loader, SYSCTL_CONF, parse};

/// Where files of the host's own are; those elsewhere are packages'.
const OWN: &str = "/etc/sysctl.d/";

/// How a value is kept: shell commands that add, and never replace what is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Persisting {
    /// Files that are added to or made, absolute on the host.
    pub files: Vec<String>,
    /// In the order in which they are given.
    pub keep: Vec<String>,
    /// What takes all of that back.
    pub undo: Vec<String>,
}

/// How `value` is kept for `key`: in the file that wins today if that is the host's own,
/// else in a new one that is read after all others; and also in `/etc/sysctl.conf` where
/// that would win under procps. `None` where no file would win under both programs, or
/// the kernel would refuse the value.
pub fn persisting(
    configuration: &Configuration,
    key: &Key,
    keys: &[Key],
    setting: Option<&Setting>,
    value: &str,
    taking: Taking,
) -> Option<Persisting> {
    let has_no_place = configuration.files.iter().any(|file| OWN.strip_suffix('/') == Some(&file.path));
    if has_no_place || !is_plain(value) || !is_plain(&key.name) {
        return None;
    }
    let wanted = match write(key.parameter, value, None, taking) {
        (Some(wanted), true) => wanted,
        _ => return None,
    };
    let index = keys.iter().position(|other| other.path == key.path)?;
    let wins = |configuration: &Configuration| {
        Loader::BOTH
            .iter()
            .all(|loader| boot(configuration, *loader, keys, taking)[index].value.as_ref() == Some(&wanted))
    };
    let line = format!("{} = {value}", key.name);
    let winner = setting.and_then(|setting| setting.place.as_ref());
    let winner = winner.and_then(|place| own_file(configuration, &place.file, &line));
    let names =
        [format!("{OWN}99-zz-nettune-{}.conf", short(key)), format!("{OWN}zzz-nettune-{}.conf", short(key))];
    let first = winner.into_iter().chain(names);
    let mut choices = first.flat_map(|file| [vec![file.clone()], vec![file, SYSCTL_CONF.to_owned()]]);
    let files = choices.find(|files| {
        let changed =
            files.iter().fold(configuration.clone(), |changed, file| with_line(changed, file, &line));
        wins(&changed)
    })?;
    let mut steps = Persisting::default();
    let modules = &configuration.modules;
    let module = key.parameter.module.clone().filter(|module| !modules.is_early(module));
    if let Some(module) = module.or_else(|| missing_module(modules, &key.name, value, taking)) {
        let file = format!("/etc/modules-load.d/nettune-{module}.conf");
        steps.add(file, &module, true);
    }
    for file in files {
        let is_new = configuration
            .files
            .iter()
            .all(|known| known.path != file && known.target.as_ref() != Some(&file));
        steps.add(file, &line, is_new);
    }
    Some(steps)
}

impl Persisting {
    /// A line at the end of a file. That may not end with a newline, so one goes before.
    fn add(&mut self, file: String, line: &str, is_new: bool) {
        let start = if is_new { "" } else { "\\n" };
        self.keep.push(format!("printf '{start}%s\\n' '{line}' | tee -a {file}"));
        self.undo.push(if is_new {
            format!("rm -f {file}")
        } else {
            format!("sed -i '\\|^{}$|d' {file}", literal(line))
        });
        self.files.push(file);
    }
}

/// Whether a shell takes this as it stands between apostrophes, and without blanks also
/// bare: interfaces and files may be called anything.
fn is_plain(text: &str) -> bool {
    text.chars().all(|character| character.is_ascii_alphanumeric() || " ._-/,:@+".contains(character))
}

/// For sed: characters that mean others stand in a class of their own.
fn literal(line: &str) -> String {
    let mut pattern = String::new();
    for character in line.chars() {
        match character {
            '.' | '*' | '[' | '|' | '$' => pattern.extend(['[', character, ']']),
            other => pattern.push(other),
        }
    }
    pattern
}

/// The file behind `path` if it is for people to edit: below /etc, no package's, and
/// without this very line, which taking it back would remove as well.
fn own_file(configuration: &Configuration, path: &str, line: &str) -> Option<String> {
    let file = configuration.files.iter().find(|file| file.path == path)?;
    let real = file.target.as_deref().unwrap_or(path);
    let own = real == SYSCTL_CONF || (real.starts_with(OWN) && !configuration.packaged.contains(real));
    let wanted = parse(line.as_bytes(), Loader::Systemd).pop()?.content;
    let has_line = file.systemd.iter().flatten().any(|line| line.content == wanted);
    (own && !has_line && is_plain(real) && !real.contains(' ')).then(|| real.to_owned())
}

/// The parameter's short name; for an interface all of it. A slash, as in the
/// interface, would be a folder.
fn short(key: &Key) -> String {
    match key.interface() {
        Some(_) => key.name.replace('/', "_"),
        None => key.parameter.short_name().to_owned(),
    }
}

/// The files as they would be with one more line.
fn with_line(mut configuration: Configuration, path: &str, line: &str) -> Configuration {
    let lines = |loader, number| {
        let mut lines = parse(line.as_bytes(), loader);
        lines.iter_mut().for_each(|line| line.number = number);
        lines
    };
    let mut found = false;
    for file in &mut configuration.files {
        if file.path == path || file.target.as_deref() == Some(path) {
            let number = file.systemd.iter().flatten().map(|line| line.number).max().unwrap_or(0) + 1;
            file.systemd.get_or_insert_default().extend(lines(Loader::Systemd, number));
            file.procps.get_or_insert_default().extend(lines(Loader::Procps, number));
            found = true;
        }
    }
    if !found {
        let systemd = Some(lines(Loader::Systemd, 1));
        let file =
            File { path: path.to_owned(), target: None, systemd, procps: Some(lines(Loader::Procps, 1)) };
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let is_after = |other: &File| other.path == SYSCTL_CONF || name(&other.path) > name(path);
        let at = configuration.files.iter().position(is_after).unwrap_or(configuration.files.len());
        let at = if path == SYSCTL_CONF { configuration.files.len() } else { at };
        configuration.files.insert(at, file);
    }
    configuration
}
