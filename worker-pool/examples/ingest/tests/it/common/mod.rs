//! The program under test, and a client that sends given text.

#![allow(dead_code, reason = "no test needs everything")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Timeout far above what anything takes, for a machine that is busy with other tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The program `ingest` on a free port; killed when dropped.
pub(crate) struct Ingest {
    child: Child,
    address: SocketAddr,
    output: BufReader<ChildStdout>,
}

impl Ingest {
    pub(crate) fn start(folder: &Path, options: &[&str]) -> Self {
        Self::start_at(folder.to_str().unwrap(), options, &[])
    }

    pub(crate) fn start_at(place: &str, options: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ingest"))
            .args(["--listen", "127.0.0.1:0", "--store", place])
            .args(options)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").unwrap().parse().unwrap();
        Self { child, address, output }
    }

    pub(crate) fn connect(&self) -> Client {
        self.try_connect().unwrap()
    }

    pub(crate) fn try_connect(&self) -> Option<Client> {
        let stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Some(Client(stream))
    }

    /// Sends one request on a connection of its own, and returns the answer.
    pub(crate) fn post(&self, body: &str) -> Answer {
        self.connect().post(body)
    }

    /// Sends `SIGTERM`.
    pub(crate) fn terminate(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Waits for the program to end, and returns its status and its last output.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let mut words = String::new();
        self.output.read_to_string(&mut words).unwrap();
        (self.child.wait().unwrap(), words)
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn post(&mut self, body: &str) -> Answer {
        self.send(&format!(
            "POST /payloads HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        self.answer()
    }

    /// Reads the next answer, which must have a length.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut answer = Answer { status: head[9..12].parse().unwrap(), head, body: String::new() };
        let mut body = vec![0; answer.header("content-length").map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find_map(|(header, value)| header.eq_ignore_ascii_case(name).then_some(value))
    }
}

/// Returns a body with one payload.
pub(crate) fn payload(id: &str) -> String {
    format!("{{\"payloads\":[{{\"id\":\"{id}\"}}]}}")
}

/// Returns the lines of all objects below a folder, sorted.
pub(crate) fn stored(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            lines.extend(stored(&path));
        } else {
            lines.extend(fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
    }
    lines.sort();
    lines
}

/// Returns the lines that payloads with these ids become, sorted.
pub(crate) fn lines_of(ids: &[String]) -> Vec<String> {
    let mut lines: Vec<_> = ids.iter().map(|id| format!("{{\"id\":\"{id}\"}}")).collect();
    lines.sort();
    lines
}
