//! The configuration file: its form, and errors that say where.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};

use super::accepted::Findings;
use super::limits;
use super::path::DeclaredPaths;
use crate::collect::{DeviceFilter, SOURCES};
use crate::model::Declared;
use crate::model::connections::Paths;

/// The file, or something in it, is not as it should be. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The file was read and not understood.
    #[error("{}:{line}:{column}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1.
        column: usize,
        /// The field, and what was expected there.
        problem: String,
    },
}

/// The file as a whole; everything in it is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping with devices, collectors, paths, limits or accepted")]
pub(super) struct File {
    devices: Option<Devices>,
    collectors: Option<Collectors>,
    paths: Option<DeclaredPaths>,
    limits: Option<limits::Declared>,
    accepted: Option<Findings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping with disabled")]
struct Collectors {
    disabled: Option<Vec<SourceName>>,
}

// The parser places an error where the visitor that raised it was at work,
// which is why every check below is made inside of one.

#[derive(Debug, Default)]
struct Devices(Option<DeviceFilter>);

impl<'de> Deserialize<'de> for Devices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DevicesVisitor)
    }
}

struct DevicesVisitor;

impl<'de> Visitor<'de> for DevicesVisitor {
    type Value = Devices;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping with include or exclude")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Devices, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            include: Option<Pattern>,
            exclude: Option<Pattern>,
        }
        let fields = Fields::deserialize(MapAccessDeserializer::new(map))?;
        match (fields.include, fields.exclude) {
            (Some(_), Some(_)) => Err(A::Error::custom("include and exclude exclude each other")),
            (Some(include), None) => Ok(Devices(Some(DeviceFilter::Include(include.0)))),
            (None, exclude) => Ok(Devices(exclude.map(|exclude| DeviceFilter::Exclude(exclude.0)))),
        }
    }
}

#[derive(Debug)]
struct Pattern(Regex);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(PatternVisitor)
    }
}

struct PatternVisitor;

impl Visitor<'_> for PatternVisitor {
    type Value = Pattern;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a regular expression")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Pattern, E> {
        crate::cli::regex(text).map(Pattern).map_err(E::custom)
    }
}

#[derive(Debug)]
struct SourceName(&'static str);

impl<'de> Deserialize<'de> for SourceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(SourceNameVisitor)
    }
}

struct SourceNameVisitor;

impl Visitor<'_> for SourceNameVisitor {
    type Value = SourceName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a collector")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SourceName, E> {
        let known = SOURCES.iter().map(|source| source.name);
        known.clone().find(|name| *name == text).map(SourceName).ok_or_else(|| {
            let known = known.collect::<Vec<_>>().join(", ");
            E::custom(format!("unknown collector `{text}`, expected one of {known}"))
        })
    }
}

impl File {
    /// Names of the sources that the file switches off.
    pub(super) fn disabled(&self) -> impl Iterator<Item = &'static str> {
        self.collectors.iter().flat_map(|collectors| &collectors.disabled).flatten().map(|name| name.0)
    }

    /// Declared paths.
    pub(super) fn paths(&self) -> Paths {
        self.paths.as_ref().map_or_else(Paths::default, DeclaredPaths::paths)
    }

    /// What the host cannot know and people declared.
    pub(super) fn declared(&self) -> Declared {
        Declared {
            limits: self.limits.as_ref().map(limits::Declared::limits).unwrap_or_default(),
            accepted: self.accepted.as_ref().map(Findings::accepted).unwrap_or_default(),
        }
    }

    /// The device filter, when the file has one.
    pub(super) fn devices(self) -> Option<DeviceFilter> {
        self.devices.and_then(|devices| devices.0)
    }
}

/// Largest file, bytes; a hundred times what anybody needs.
const SIZE_LIMIT: u64 = 1 << 20;

/// Deepest nesting of brackets; the parser's time grows with its square.
const DEPTH_LIMIT: usize = 32;

/// Reads and checks a file of YAML: this one, or that which overrides values of rules.
///
/// # Errors
/// The file cannot be read, or something in it is not as it should be.
pub fn read<T: DeserializeOwned + Default>(path: &Path) -> Result<T, Error> {
    let bytes = read_bytes(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let parsed = as_text(&bytes).and_then(parse);
    parsed.map_err(|(line, column, problem)| Error::Invalid { path: path.into(), line, column, problem })
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    // Not to wait for somebody to write into a pipe of that name.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(SIZE_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return Err(io::Error::other(format!("larger than {SIZE_LIMIT} bytes")));
    }
    Ok(bytes)
}

fn as_text(bytes: &[u8]) -> Result<&str, (usize, usize, String)> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        (line, 1 + before.len() - line_start, "not UTF-8".to_owned())
    })
}

/// Line and column of the bracket that is nested too deeply, if there is one.
fn too_deep(text: &str) -> Option<(usize, usize)> {
    let mut depth = 0usize;
    for (line, content) in (1..).zip(text.lines()) {
        for (column, byte) in (1..).zip(content.bytes()) {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > DEPTH_LIMIT {
                return Some((line, column));
            }
        }
    }
    None
}

fn parse<T: DeserializeOwned + Default>(text: &str) -> Result<T, (usize, usize, String)> {
    // A file of comments alone is no document for the parser.
    if text.lines().all(|line| line.trim_start().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(T::default());
    }
    if let Some((line, column)) = too_deep(text) {
        return Err((line, column, format!("brackets nested deeper than {DEPTH_LIMIT}")));
    }
    serde_yaml::from_str::<Option<T>>(text).map(Option::unwrap_or_default).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
        let problem = error.to_string().replacen(&format!(" at line {line} column {column}"), "", 1);
        (line, column, problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, (usize, usize, String)> {
        super::parse(text)
    }

    #[test]
    fn what_is_missing_is_left_to_the_defaults() {
        for text in
            ["", "# devices:\n", "---\n", "devices:\n", "devices: {}\ncollectors:\n  disabled:\n", "{}"]
        {
            let file = parse(text).unwrap_or_else(|problem| panic!("{text:?}: {problem:?}"));
            assert_eq!(file.disabled().count(), 0, "{text:?}");
            assert!(file.devices().is_none(), "{text:?}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_before_it_costs_time() {
        let (line, column, problem) = parse(&format!("\ndevices: {}", "[".repeat(200_000))).unwrap_err();
        assert_eq!((line, column, problem.as_str()), (2, 42, "brackets nested deeper than 32"));
    }

    #[test]
    fn only_regular_files_of_a_sane_size_are_read() {
        assert_eq!(read_bytes(Path::new("/dev/zero")).unwrap_err().to_string(), "not a regular file");
    }

    #[test]
    fn what_is_no_text_is_refused_where_it_stands() {
        let problem = as_text(b"devices:\n  include: \xff\n").unwrap_err();
        assert_eq!(problem, (2, 12, "not UTF-8".to_owned()));
    }

    #[test]
    fn filters_are_read() {
        let Some(DeviceFilter::Include(regex)) = parse("devices: {include: '^eth\\d'}").unwrap().devices()
        else {
            panic!("it includes")
        };
        assert_eq!(regex.as_str(), r"^eth\d");
        let Some(DeviceFilter::Exclude(regex)) = parse("devices:\n  exclude: lo\n").unwrap().devices() else {
            panic!("it excludes")
        };
        assert_eq!(regex.as_str(), "lo");
    }

    #[test]
    fn problems_say_where_and_what_was_expected() {
        for (text, line, column, expected) in [
            (
                "device: 1\n",
                1,
                1,
                "unknown field `device`, expected one of `devices`, `collectors`, `paths`, `limits`, `accepted`",
            ),
            (
                "devices:\n  include: a\nfoo: b\n",
                3,
                1,
                "unknown field `foo`, expected one of `devices`, `collectors`, `paths`, `limits`, `accepted`",
            ),
            (
                "- a\n",
                1,
                1,
                "invalid type: sequence, expected a mapping with devices, collectors, paths, limits or accepted",
            ),
            (
                "devices: 7\n",
                1,
                10,
                "devices: invalid type: integer `7`, expected a mapping with include or exclude",
            ),
            (
                "devices:\n  include: a\n  foo: b\n",
                3,
                3,
                "devices: unknown field `foo`, expected `include` or `exclude`",
            ),
            ("devices:\n  include: (\n", 2, 12, "devices.include: not a regular expression: unclosed group"),
            (
                "devices:\n  include: [1]\n",
                2,
                12,
                "devices.include: invalid type: sequence, expected a regular expression",
            ),
            ("devices:\n  include: a\n  include: b\n", 2, 3, "devices: duplicate field `include`"),
            ("devices:\n  include: a\ndevices:\n", 1, 1, "duplicate field `devices`"),
            (
                "devices:\n  include: a\n  exclude: b\n",
                2,
                3,
                "devices: include and exclude exclude each other",
            ),
            (
                "collectors:\n  disabled: netstat\n",
                2,
                13,
                "collectors.disabled: invalid type: string \"netstat\", expected a sequence",
            ),
            (
                "collectors: [a]\n",
                1,
                13,
                "collectors: invalid type: sequence, expected a mapping with disabled",
            ),
            ("devices: {\n", 2, 1, "did not find expected node content, while parsing a flow node"),
            (
                "devices:\n  include: \"(\n",
                3,
                1,
                "found unexpected end of stream, while scanning a quoted scalar at line 2 column 12",
            ),
        ] {
            let problem = parse(text).expect_err(text);
            assert_eq!(problem, (line, column, expected.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn an_unknown_collector_is_named_where_it_stands() {
        let Some(source) = SOURCES.first() else { return };
        let text = format!("collectors:\n  disabled:\n    - {}\n    - nope\n", source.name);
        let (line, column, problem) = parse(&text).expect_err("nope is unknown");
        assert_eq!((line, column), (4, 7));
        let expected = "collectors.disabled[1]: unknown collector `nope`, expected one of ";
        assert!(problem.starts_with(expected) && problem.contains(source.name), "{problem}");
        assert_eq!(
            parse(&text.replace("    - nope\n", "")).unwrap().disabled().collect::<Vec<_>>(),
            [source.name]
        );
    }
}
