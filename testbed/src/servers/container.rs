//! A server in a container, for the tests that share one.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::docker::{Address, Docker};
use super::error::ServerError;
use super::launch;
use super::postgres_access::{log_in, url_of};
use super::redis_wire::{RedisEndpoint, ask};
use super::supervisor::last_lines;
use super::wait::wait_until;

/// The environment variable with the image of Redis containers; the default is `redis:7.4`.
pub const REDIS_IMAGE_VARIABLE: &str = "STANCHION_TEST_REDIS_IMAGE";
/// The environment variable with the image of Postgres containers; the default is `postgres:17`.
pub const POSTGRES_IMAGE_VARIABLE: &str = "STANCHION_TEST_POSTGRES_IMAGE";

const CLIENT: &str = "docker";
const REMOVER: &str = include_str!("container.sh");

/// The server in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Redis,
    Postgres,
}

impl Content {
    fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Postgres => "postgres",
        }
    }

    fn image(self) -> String {
        let (variable, usual) = match self {
            Self::Redis => (REDIS_IMAGE_VARIABLE, "redis:7.4"),
            Self::Postgres => (POSTGRES_IMAGE_VARIABLE, "postgres:17"),
        };
        let chosen = std::env::var(variable).ok().filter(|image| !image.is_empty());
        chosen.unwrap_or_else(|| usual.to_owned())
    }

    /// Returns the command line of a server that keeps no data beyond its container.
    fn command(self, address: Address) -> Vec<String> {
        let words = match self {
            Self::Redis => format!("--bind {} --port {} --protected-mode no", address.host, address.port),
            Self::Postgres => format!(
                "-c listen_addresses={} -c port={} -c max_connections=1000 -c fsync=off",
                address.host, address.port
            ),
        };
        let words = words.split(' ').map(str::to_owned);
        let mut command: Vec<_> = [self.program().to_owned()].into_iter().chain(words).collect();
        if self == Self::Redis {
            // An empty argument means no snapshots.
            command.extend(["--save".to_owned(), String::new()]);
        }
        command
    }

    fn url(self, port: u16) -> String {
        match self {
            Self::Redis => format!("redis://127.0.0.1:{port}/"),
            Self::Postgres => url_of("postgres", port, ""),
        }
    }

    fn answers(self, port: u16) -> bool {
        match self {
            Self::Redis => ask(&RedisEndpoint::Port(port), None, &[&["PING"]], launch::ANSWER_LIMIT)
                .is_ok_and(|answer| answer.contains("+PONG\r\n")),
            Self::Postgres => launch::connect(port).and_then(log_in).unwrap_or(false),
        }
    }
}

/// A Redis or a Postgres in a private container of this process, on a free port of 127.0.0.1.
///
/// It needs a Docker daemon on this machine, the program `docker`, and the image or a registry to
/// pull it from. The image must behave like the official one. The container is removed after this
/// process, however the process ends.
///
/// # Drop
///
/// Kills the server and removes its container and data.
#[derive(Debug)]
pub struct Container {
    content: Content,
    name: String,
    image: String,
    port: u16,
    docker: Docker,
    remover: Child,
}

impl Container {
    /// Starts a Redis without persistence and waits until it answers. Pulls the image if it is not
    /// there.
    ///
    /// # Errors
    ///
    /// [`ServerError::Container`] if there is no daemon, client, or image; otherwise the reason why
    /// the server did not start.
    pub fn redis() -> Result<Self, ServerError> {
        Self::start(Content::Redis)
    }

    /// Starts a Postgres, with a superuser `postgres` without a password, and waits until it
    /// answers. Pulls the image if it is not there.
    ///
    /// # Errors
    ///
    /// As [`redis`](Self::redis).
    pub fn postgres() -> Result<Self, ServerError> {
        Self::start(Content::Postgres)
    }

    /// Returns the URL, in the same form as for a server without a container.
    pub fn url(&self) -> String {
        self.content.url(self.port)
    }

    /// Returns the port on 127.0.0.1; a restart keeps it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the name of the container at the daemon.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the image, with its tag.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// Returns whether the server accepts a client and answers now. Takes at most 2 s a message.
    pub fn answers(&self) -> bool {
        self.content.answers(self.port)
    }

    /// Kills the server (`SIGKILL`) and keeps its data.
    ///
    /// # Errors
    ///
    /// [`ServerError::Container`] if the daemon refuses, for example because the container does not
    /// run.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.docker.kill(&self.name)
    }

    /// Restarts a killed server on the same port and data; returns when it answers.
    ///
    /// # Errors
    ///
    /// The reason why it did not start.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.docker.start(&self.name)?;
        self.await_answer()
    }

    fn start(content: Content) -> Result<Self, ServerError> {
        let docker = Docker::connect()?;
        let image = content.image();
        launch::on_free_port(|port| {
            let name = format!("stanchion-{}-{:016x}", content.program(), rand::random::<u64>());
            // From here on the container will be removed, whatever happens, even if it does not
            // exist yet.
            let remover = remover(&name)?;
            let container =
                Self { content, name, image: image.clone(), port, docker: docker.clone(), remover };
            let command = content.command(docker.address(port));
            // The official image of Postgres needs it; other images ignore it.
            let environment = [("POSTGRES_HOST_AUTH_METHOD", "trust")];
            docker.run(&container.name, &container.image, port, &command, &environment)?;
            container.await_answer()?;
            Ok(container)
        })
    }

    fn await_answer(&self) -> Result<(), ServerError> {
        let program = self.content.program();
        let probe = || {
            if self.answers() {
                return Some(Ok(()));
            }
            let ended = !self.docker.is_running(&self.name).unwrap_or(true);
            ended.then(|| Err(ServerError::Ended { program, log: self.log() }))
        };
        wait_until(launch::READY_LIMIT, probe)
            .unwrap_or_else(|| Err(ServerError::Silent { program, log: self.log() }))
    }

    fn log(&self) -> String {
        let output = Command::new(CLIENT).args(["logs", "--tail", "20", &self.name]).output();
        let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&text))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.remover.stdin = None;
        let _ = self.remover.wait();
    }
}

/// Starts a shell that outlives this process until it has removed the container.
fn remover(name: &str) -> Result<Child, ServerError> {
    let found = Command::new(CLIENT).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map_err(ServerError::container("find the program `docker`"))?;
    Command::new("sh")
        .args(["-c", REMOVER, "remover", name].map(OsStr::new))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(ServerError::io("start the shell that removes the container"))
}

#[cfg(test)]
mod tests {
    use super::{Address, Content};

    #[test]
    fn a_command_line_says_where_to_listen() {
        let address = Address { host: "0.0.0.0", port: 17_000 };
        let redis = Content::Redis.command(address);
        assert_eq!(redis[..5], ["redis-server", "--bind", "0.0.0.0", "--port", "17000"]);
        assert_eq!(redis[redis.len() - 2..], ["--save", ""]);
        let postgres = Content::Postgres.command(address).join(" ");
        assert!(postgres.starts_with("postgres -c listen_addresses=0.0.0.0 -c port=17000 -c "), "{postgres}");
    }
}
