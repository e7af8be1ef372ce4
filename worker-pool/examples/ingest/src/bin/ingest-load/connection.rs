//! One keep-alive connection with many requests under way.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::payload;
use crate::settings::Settings;

/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(5);
const ACCEPTED: u16 = 202;

/// The requests and answers of a connection.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) number: u32,
    /// Number of requests that were sent, at least in part.
    pub(crate) sent: usize,
    /// The answers, in the order of the requests; the server may have ended before the last
    /// requests.
    pub(crate) answers: Vec<u16>,
    /// Number of answers that came before `SIGTERM`.
    pub(crate) in_time: usize,
}

/// A client with the part of HTTP/1.1 that this program needs.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    depth: usize,
    payloads: usize,
    bytes: usize,
    record: Record,
    body: Vec<u8>,
    output: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, number: u32, settings: &Settings) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            depth: settings.depth as usize,
            payloads: settings.payloads as usize,
            bytes: settings.bytes,
            record: Record { number, sent: 0, answers: Vec::new(), in_time: 0 },
            body: Vec::new(),
            output: Vec::new(),
            input: Vec::new(),
        })
    }

    /// Sends and reads until the server ends the connection; an error before `SIGTERM` is reported.
    pub(crate) async fn run(mut self, stopping: Arc<AtomicBool>) -> io::Result<Record> {
        loop {
            let exchanged = self.exchange().await;
            let in_time = !stopping.load(Ordering::Acquire);
            if in_time {
                self.record.in_time = self.record.answers.len();
            }
            match exchanged {
                Ok(refused) if refused => sleep(PAUSE).await,
                Ok(_) => {}
                Err(error) if in_time => return Err(error),
                Err(_) => return Ok(self.record),
            }
        }
    }

    /// Sends requests up to the depth once half of them are answered, and reads the answers that
    /// have come. Returns whether a request was refused.
    async fn exchange(&mut self) -> io::Result<bool> {
        let under_way = self.record.sent - self.record.answers.len();
        if under_way <= self.depth / 2 {
            self.output.clear();
            for _ in under_way..self.depth {
                self.push_request();
            }
            // The requests are counted before they are written, because the server may store what
            // it has seen of them.
            self.stream.write_all(&self.output).await?;
        }
        if self.stream.read_buf(&mut self.input).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let known = self.record.answers.len();
        let mut rest = self.input.as_slice();
        while let Some((status, length)) = answer(rest)? {
            self.record.answers.push(status);
            rest = &rest[length..];
        }
        let read = self.input.len() - rest.len();
        self.input.drain(..read);
        Ok(self.record.answers[known..].iter().any(|status| *status != ACCEPTED))
    }

    fn push_request(&mut self) {
        self.body.clear();
        self.body.extend_from_slice(b"{\"payloads\":[");
        let first = self.record.sent * self.payloads;
        for number in first..first + self.payloads {
            if number > first {
                self.body.push(b',');
            }
            payload::push(&mut self.body, self.record.number, number, self.bytes);
        }
        self.body.extend_from_slice(b"]}");
        // Writing to memory does not fail.
        let _ = write!(
            self.output,
            "POST /payloads HTTP/1.1\r\nhost: ingest\r\ncontent-length: {}\r\n\r\n",
            self.body.len()
        );
        self.output.extend_from_slice(&self.body);
        self.record.sent += 1;
    }
}

/// Returns the status and the whole length of the first answer, once it is complete.
fn answer(input: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&input[..end]).map_err(|_| ErrorKind::InvalidData)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let (status, length) = status.zip(length).ok_or(ErrorKind::InvalidData)?;
    let whole = end + 4 + length;
    Ok((input.len() >= whole).then_some((status, whole)))
}
