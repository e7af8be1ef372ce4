//! A private Redis.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use super::error::ServerError;
use super::find;
use super::launch;
use super::supervisor::Supervisor;

const PROGRAM: &str = "redis-server";

/// How a [`RedisServer`] is set up. By default: no password, nothing on disk, `noeviction`.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    password: Option<String>,
    append_only: bool,
    config: Vec<String>,
}

impl RedisOptions {
    /// Clients must authenticate with this password.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Every write is on disk before it is answered (`appendonly yes`, `appendfsync always`), so that
    /// [`RedisServer::restart`] keeps the data.
    #[must_use]
    pub fn append_only(mut self, on: bool) -> Self {
        self.append_only = on;
        self
    }

    /// One more line of `redis.conf`, after ours and so stronger, like `maxmemory 1mb`.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.config.push(line.into());
        self
    }

    fn file(&self, port: u16, folder: &Path) -> String {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            format!("dir {}", quoted(&folder.to_string_lossy())),
            "daemonize no".to_owned(),
            "save \"\"".to_owned(),
            "appendfsync always".to_owned(),
            format!("appendonly {}", if self.append_only { "yes" } else { "no" }),
        ];
        lines.extend(self.password.iter().map(|password| format!("requirepass {}", quoted(password))));
        lines.extend(self.config.iter().cloned());
        lines.join("\n") + "\n"
    }
}

/// A Redis server of this process alone, on a free port of 127.0.0.1, with its data in a temporary folder.
///
/// It dies with this process, however that ends.
///
/// # Drop
///
/// Kills the server, waits for its end and removes its folder.
#[derive(Debug)]
pub struct RedisServer {
    supervisor: Supervisor,
    port: u16,
    password: Option<String>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] when there is no `redis-server`, else what kept it from starting.
    pub fn start(options: RedisOptions) -> Result<Self, ServerError> {
        let program = find::redis_server()?;
        launch::on_free_port(|port| {
            let folder = launch::folder("redis")?;
            let file = folder.path().join("redis.conf");
            fs::write(&file, options.file(port, folder.path()))
                .map_err(ServerError::io("write redis.conf"))?;
            let command = [program.clone().into_os_string(), file.into_os_string()];
            let supervisor = Supervisor::new(folder, None, &command)?;
            let server = Self { supervisor, port, password: options.password.clone() };
            server.launch()?;
            Ok(server)
        })
    }

    /// The URL, with the password: `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        let user =
            self.password.as_ref().map(|password| format!(":{}@", escaped(password))).unwrap_or_default();
        format!("redis://{user}127.0.0.1:{}/", self.port)
    }

    /// The port on 127.0.0.1; a restart keeps it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process id; `None` after [`kill`](Self::kill). A restart changes it.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }

    /// The folder with its data, its `redis.conf` and its `server.log`.
    pub fn dir(&self) -> &Path {
        self.supervisor.folder()
    }

    /// Whether it answers a `PING` now. Takes at most 2 s.
    pub fn answers(&self) -> bool {
        self.pid().is_some_and(|pid| self.ask(pid).unwrap_or(false))
    }

    /// Kills the server (`SIGKILL`); returns when it is gone.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] when the supervising shell is gone.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.supervisor.kill()
    }

    /// Stops the server where it is (`SIGSTOP`): connections stay open, nothing is answered.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] when the supervising shell is gone.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.supervisor.pause()
    }

    /// Lets a paused server go on (`SIGCONT`).
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] when the supervising shell is gone.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.supervisor.resume()
    }

    /// Kills the server if it runs, and starts it again on the same port and data; returns when it answers.
    ///
    /// # Errors
    ///
    /// What kept it from starting.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.launch()
    }

    fn launch(&self) -> Result<(), ServerError> {
        launch::start(PROGRAM, &self.supervisor, |pid| self.ask(pid))
    }

    /// Whether the process with this id answers on our port: another server may sit there, if it was faster.
    fn ask(&self, pid: u32) -> io::Result<bool> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut stream = TcpStream::connect_timeout(&address, launch::ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(launch::ANSWER_LIMIT))?;
        let mut request = Vec::new();
        if let Some(password) = &self.password {
            request.extend(encoded(&["AUTH", password]));
        }
        for command in [&["PING"][..], &["INFO", "server"], &["QUIT"]] {
            request.extend(encoded(command));
        }
        stream.write_all(&request)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        Ok(answer.contains("+PONG\r\n") && answer.contains(&format!("process_id:{pid}\r\n")))
    }
}

/// A command in the Redis protocol.
fn encoded(words: &[&str]) -> Vec<u8> {
    let count = words.len();
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{count}\r\n{words}").into_bytes()
}

/// A value in `redis.conf`.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A password in a URL.
fn escaped(password: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    password.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::{escaped, quoted};

    #[test]
    fn any_password_survives_the_url_and_the_file() {
        assert_eq!(escaped("a b@c:é"), "a%20b%40c%3A%C3%A9");
        assert_eq!(quoted(r#"a "b\c"#), r#""a \"b\\c""#);
    }
}
