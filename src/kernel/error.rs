use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Result of anything that asks the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a source gave nothing. Every variant says where, and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// A file is larger than anything the kernel prints there.
    #[error("{}: larger than {limit} bytes, which no kernel prints here", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read, bytes.
        limit: usize,
    },
    /// A netlink request failed.
    #[error("netlink {request}: {source}")]
    Netlink {
        /// Name of the request.
        request: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
    /// An ioctl failed.
    #[error("{what} of {device}: {source}")]
    Ioctl {
        /// What was asked.
        what: &'static str,
        /// The network device.
        device: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Bytes that are not what the kernel prints there.
    #[error("{}: {source}", path.display())]
    Malformed {
        /// The file, or the name of the netlink request.
        path: PathBuf,
        /// Where in it, and what was expected.
        source: Malformed,
    },
    /// What another thread met; several scrapes are told of it.
    #[error("{0}")]
    Shared(Arc<Error>),
    /// What is read elsewhere has not come for too long.
    #[error("no {what} was finished in the last {} s", limit.as_secs())]
    Late {
        /// What is done regularly.
        what: &'static str,
        /// The longest time that is normal.
        limit: Duration,
    },
}

impl Error {
    /// The thing asked for does not exist on this kernel, in this namespace or
    /// for this device. That is an answer, not a failure.
    pub fn is_absent(&self) -> bool {
        let errno = match self {
            Self::Shared(error) => return error.is_absent(),
            Self::Io { source, .. } | Self::Netlink { source, .. } | Self::Ioctl { source, .. } => {
                source.raw_os_error()
            }
            _ => None,
        };
        matches!(
            errno,
            Some(
                libc::ENOENT
                    | libc::ENOTDIR
                    | libc::ENODEV
                    | libc::ENXIO
                    | libc::EOPNOTSUPP
                    | libc::ENOPROTOOPT
                    | libc::EPROTONOSUPPORT
                    | libc::EAFNOSUPPORT
            )
        )
    }

    /// The system refused for lack of privilege.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Io { source, .. } | Self::Netlink { source, .. } | Self::Ioctl { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            Self::Shared(error) => error.is_permission(),
            _ => false,
        }
    }
}

/// What a parser met instead of what the kernel prints. Parsers do not know
/// file names; the reader adds the path ([`Malformed::at`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {item}: expected {expected}, found {found:?}")]
pub struct Malformed {
    /// Line, counted from 1; for netlink the message, counted from 1.
    pub line: usize,
    /// Column, counter or attribute.
    pub item: String,
    /// What should stand there.
    pub expected: &'static str,
    /// What stands there, shortened.
    pub found: String,
}

/// Longest piece of a bad file that an error repeats, characters.
const FOUND_LIMIT: usize = 40;

impl Malformed {
    /// `line` counts from 1; `found` is shortened and need not be UTF-8.
    pub fn new(line: usize, item: impl Into<String>, expected: &'static str, found: &[u8]) -> Self {
        let shown = &found[..found.len().min(FOUND_LIMIT)];
        Self { line, item: item.into(), expected, found: String::from_utf8_lossy(shown).into_owned() }
    }

    /// The error with the path it happened in.
    pub fn at(self, path: impl Into<PathBuf>) -> Error {
        Error::Malformed { path: path.into(), source: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(errno: i32) -> Error {
        Error::Io { path: "net/x".into(), source: io::Error::from_raw_os_error(errno) }
    }

    #[test]
    fn absent_is_not_failed() {
        assert!(io(libc::ENOENT).is_absent());
        assert!(!io(libc::EACCES).is_absent());
        assert!(!io(libc::EINVAL).is_absent());
        assert!(io(libc::EACCES).is_permission());
    }

    #[test]
    fn error_names_path_line_item_and_expectation() {
        let error = Malformed::new(3, "RetransSegs", "an unsigned integer", b"12x4").at("/proc/net/snmp");
        assert_eq!(
            error.to_string(),
            "/proc/net/snmp: line 3: RetransSegs: expected an unsigned integer, found \"12x4\""
        );
    }
}
