use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A port of every address of the host, IPv4 and IPv6.
    Port(u16),
    /// A port of the address that a name or number stands for.
    Host {
        /// Name or number; IPv6 without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A unix socket.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected :PORT, HOST:PORT, [IPV6]:PORT or unix:PATH";
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') {
                Ok(Self::Unix(path.into()))
            } else {
                Err("the path of a unix socket must start with /")
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or(EXPECTED)?;
        let port = port.parse().map_err(|_| "the port must be a number from 0 to 65535")?;
        if host.is_empty() {
            return Ok(Self::Port(port));
        }
        let number = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match number {
            Some(number) if number.split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()) => {
                number
            }
            Some(_) => return Err("between brackets must be an IPv6 address"),
            None if host.contains(':') => return Err("an IPv6 address must be in brackets: [::1]:10109"),
            None if host.contains(['[', ']', '/', ' ']) => return Err(EXPECTED),
            None => host,
        };
        Ok(Self::Host { host: host.to_owned(), port })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, ":{port}"),
            Self::Host { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed_alike() {
        for text in [
            ":10109",
            ":0",
            "127.0.0.1:1",
            "localhost:65535",
            "[::1]:9",
            "[fe80::1%eth0]:9",
            "unix:/run/n.sock",
        ] {
            let address: ListenAddress = text.parse().unwrap_or_else(|problem| panic!("{text}: {problem}"));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn other_addresses_are_refused_with_what_was_expected() {
        const FORM: &str = "expected :PORT, HOST:PORT, [IPV6]:PORT or unix:PATH";
        for (text, expected) in [
            ("", FORM),
            ("10109", FORM),
            ("localhost", FORM),
            ("http://localhost:1", "an IPv6 address must be in brackets: [::1]:10109"),
            (":port", "the port must be a number from 0 to 65535"),
            (":65536", "the port must be a number from 0 to 65535"),
            (":-1", "the port must be a number from 0 to 65535"),
            ("localhost:", "the port must be a number from 0 to 65535"),
            ("::1:9", "an IPv6 address must be in brackets: [::1]:10109"),
            ("[localhost]:9", "between brackets must be an IPv6 address"),
            ("[::1:9", "an IPv6 address must be in brackets: [::1]:10109"),
            ("a b:9", FORM),
            ("unix:", "the path of a unix socket must start with /"),
            ("unix:n.sock", "the path of a unix socket must start with /"),
        ] {
            assert_eq!(text.parse::<ListenAddress>(), Err(expected), "{text:?}");
        }
    }
}
