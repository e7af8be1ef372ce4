//! Minimal clients of both protocols, to check the bytes that arrive and how a connection ends.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time limit of every answer.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// Time without bytes that counts as silence.
pub(crate) const STALL: Duration = Duration::from_millis(300);

/// A connection to a port.
#[derive(Debug)]
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn to(port: u16) -> Self {
        Self::try_to(port).unwrap()
    }

    pub(crate) fn try_to(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads `length` bytes.
    pub(crate) fn read(&mut self, length: usize) -> io::Result<String> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Asserts that the next bytes are exactly `answer`.
    #[track_caller]
    pub(crate) fn expect(&mut self, answer: &str) {
        assert_eq!(self.read(answer.len()).unwrap(), answer);
    }

    /// Asserts that the connection is open and nothing comes.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self) {
        self.0.set_read_timeout(Some(STALL)).unwrap();
        let error = self.0.read(&mut [0]).map_err(|error| error.kind());
        assert!(matches!(error, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{error:?}");
        self.0.set_read_timeout(Some(LIMIT)).unwrap();
    }

    /// Asserts that nothing more comes, and the connection ended in an orderly way.
    #[track_caller]
    pub(crate) fn expect_fin(&mut self) {
        assert_eq!(self.0.read(&mut [0]).map_err(|error| error.kind()), Ok(0));
    }

    /// Asserts that nothing more comes, and the connection was reset.
    #[track_caller]
    pub(crate) fn expect_reset(&mut self) {
        assert_eq!(self.0.read(&mut [0]).map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    }

    /// Reads until nothing more comes.
    pub(crate) fn read_until_quiet(&mut self) {
        self.0.set_read_timeout(Some(STALL)).unwrap();
        while self.0.read(&mut [0; 1_024]).is_ok_and(|length| length > 0) {}
        self.0.set_read_timeout(Some(LIMIT)).unwrap();
    }

    /// Returns all bytes before the end of the connection.
    pub(crate) fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        let _ = self.0.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Encodes a Redis command.
pub(crate) fn command(words: &[&str]) -> String {
    let elements: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{elements}", words.len())
}

/// Encodes a Redis value.
pub(crate) fn bulk(value: &str) -> String {
    format!("${}\r\n{value}\r\n", value.len())
}

/// Encodes a Postgres message.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// A session of Postgres.
#[derive(Debug)]
pub(crate) struct Session(pub(crate) Client);

impl Session {
    /// Logs in as `postgres`, with an application name.
    pub(crate) fn to(port: u16, name: &str) -> Self {
        let mut session = Self(Client::to(port));
        session.0.send(startup(name));
        session.until_ready().unwrap();
        session
    }

    /// Sends a statement by the simple protocol.
    pub(crate) fn send(&mut self, sql: &str) {
        self.0.send(message(b'Q', format!("{sql}\0").as_bytes()));
    }

    /// Sends a statement by the extended protocol; `parse` is its text; without it, only its name
    /// `s` is sent.
    pub(crate) fn send_extended(&mut self, parse: Option<&str>) {
        let parse = parse.map(|sql| message(b'P', format!("s\0{sql}\0\0\0").as_bytes()));
        let bind = message(b'B', b"\0s\0\0\0\0\0\0\0");
        let execute = message(b'E', b"\0\0\0\0\0");
        let sync = message(b'S', b"");
        self.0.send([parse.unwrap_or_default(), bind, execute, sync].concat());
    }

    /// Reads the next message: its type and its body.
    pub(crate) fn message(&mut self) -> io::Result<(char, String)> {
        let mut header = [0; 5];
        self.0.0.read_exact(&mut header)?;
        let length = u32::from_be_bytes(*header[1..].first_chunk().unwrap()) - 4;
        let body = self.0.read(usize::try_from(length).unwrap())?;
        Ok((char::from(header[0]), body))
    }

    /// Returns the types of all messages until the server is ready.
    pub(crate) fn until_ready(&mut self) -> io::Result<String> {
        let mut kinds = String::new();
        while !kinds.ends_with('Z') {
            kinds.push(self.message()?.0);
        }
        Ok(kinds)
    }

    /// Runs a query and returns the first value of its answer.
    pub(crate) fn ask(&mut self, sql: &str) -> io::Result<String> {
        self.send(sql);
        self.value()
    }

    /// Returns the last value of the next answer.
    pub(crate) fn value(&mut self) -> io::Result<String> {
        let mut value = String::new();
        loop {
            match self.message()? {
                // One column: the column count and the length come first.
                ('D', body) => value = body.chars().skip(6).collect(),
                ('Z', _) => return Ok(value),
                _ => {}
            }
        }
    }
}

/// Encodes the start-up message of a session.
pub(crate) fn startup(name: &str) -> Vec<u8> {
    let parameters = format!("user\0postgres\0database\0postgres\0application_name\0{name}\0\0");
    let length = u32::try_from(parameters.len() + 8).unwrap();
    [&length.to_be_bytes()[..], &[0, 3, 0, 0], parameters.as_bytes()].concat()
}
