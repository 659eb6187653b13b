//! A small HTTP/1.1 client that shows every byte.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::DEADLINE;

/// Where an exporter listens.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One connection.
pub(crate) struct Connection(BufReader<Stream>);

/// One answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }
}

impl Address {
    /// A new connection.
    pub(crate) fn connect(&self) -> io::Result<Connection> {
        let stream = match self {
            Self::Tcp(address) => Stream::Tcp(TcpStream::connect(address)?),
            Self::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        let mut connection = Connection(BufReader::new(stream));
        connection.set_timeout(DEADLINE)?;
        Ok(connection)
    }

    /// One request on a connection of its own.
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.request("GET", path, headers)
    }

    /// As [`Address::get`], with another method.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut connection = self.connect().expect("the exporter accepts connections");
        connection.send(method, path, headers).expect("the exporter reads");
        connection.receive(method).expect("the exporter answers")
    }
}

impl Connection {
    pub(crate) fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout);
        match self.0.get_ref() {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout))
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.0.get_mut() {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> io::Result<()> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        self.write(request.as_bytes())
    }

    /// The next answer; the method says whether it has a body.
    pub(crate) fn receive(&mut self, method: &str) -> io::Result<Response> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.0.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        assert_eq!(line, "\r\n", "the head ends with an empty line");
        let mut response = Response { status, headers, body: Vec::new() };
        if method != "HEAD" {
            let length = response.header("content-length").expect("every answer states its length");
            response.body.resize(length.parse().expect("a length is a number"), 0);
            self.0.read_exact(&mut response.body)?;
        }
        Ok(response)
    }

    /// Everything until the exporter closes the connection.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest)?;
        Ok(rest)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}
