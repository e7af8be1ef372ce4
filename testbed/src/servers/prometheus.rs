//! A private Prometheus.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;

use super::error::ServerError;
use super::find;
use super::launch::{self, ANSWER_LIMIT};
use super::server::Server;
use super::supervisor::Supervisor;

const PROGRAM: &str = "prometheus";
const SETTINGS: &str = "prometheus.yml";

/// A private Prometheus of this process, on a free port of 127.0.0.1, that scrapes one address five
/// times a second.
///
/// It ends with this process, however the process ends.
#[derive(Debug)]
pub struct Prometheus {
    server: Server,
}

impl Prometheus {
    /// Starts a server that scrapes `http://TARGET/metrics`, and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] if there is no `prometheus`; otherwise the reason why it did
    /// not start.
    pub fn start(target: SocketAddr) -> Result<Self, ServerError> {
        let program = find::prometheus()?;
        launch::on_free_port(|port| {
            let folder = launch::folder(PROGRAM)?;
            let settings = format!(
                "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\nscrape_configs:\n- job_name: tested\n  \
                 static_configs: [{{targets: ['{target}']}}]\n"
            );
            let written = fs::write(folder.path().join(SETTINGS), settings);
            written.map_err(ServerError::io("write the configuration of Prometheus"))?;
            let command = [
                program.clone().into_os_string(),
                format!("--config.file={SETTINGS}").into(),
                "--storage.tsdb.path=data".into(),
                format!("--web.listen-address=127.0.0.1:{port}").into(),
            ];
            let supervisor = Supervisor::new(folder, None, &command)?;
            // Another process that took the port does not answer to that path.
            let probe = move |_| Ok(get(port, "/-/ready").is_ok());
            Server::start(PROGRAM, supervisor, port, Box::new(probe)).map(|server| Self { server })
        })
    }

    /// Returns the answer to a query of this moment: JSON, as of `/api/v1/query`.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or refuses the expression.
    pub fn query(&self, expression: &str) -> io::Result<String> {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        get(self.port(), &format!("/api/v1/query?query={escaped}"))
    }
}

impl Deref for Prometheus {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Returns the body of a page.
fn get(port: u16, path: &str) -> io::Result<String> {
    let mut stream = launch::connect(port)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    // HTTP 1.0, so that the body is neither chunked nor followed by anything.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").as_bytes())?;
    read(&mut stream)
}

fn read(stream: &mut TcpStream) -> io::Result<String> {
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.0 200") => Ok(body.to_owned()),
        _ => Err(io::Error::other(answer)),
    }
}
