//! A server in a container, for the tests that share one.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::docker::{Address, Docker};
use super::error::ServerError;
use super::launch;
use super::postgres_access::{log_in, url_of};
use super::redis_wire::{Door, ask};
use super::supervisor::last_lines;
use super::wait::wait_until;

/// The environment variable with the image that a Redis container is made of; `redis:7.4` without.
pub const REDIS_IMAGE_VARIABLE: &str = "STANCHION_TEST_REDIS_IMAGE";
/// The environment variable with the image that a Postgres container is made of; `postgres:17` without.
pub const POSTGRES_IMAGE_VARIABLE: &str = "STANCHION_TEST_POSTGRES_IMAGE";

const CLIENT: &str = "docker";
const REMOVER: &str = include_str!("container.sh");

/// What runs in a container.
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

    /// The command line of a server that keeps nothing after its container.
    fn command(self, address: Address) -> Vec<String> {
        let words = match self {
            Self::Redis => format!("--bind {} --port {} --protected-mode no", address.host, address.port),
            Self::Postgres => format!(
                "-c listen_addresses={} -c port={} -c max_connections=400 -c fsync=off",
                address.host, address.port
            ),
        };
        let words = words.split(' ').map(str::to_owned);
        let mut command: Vec<_> = [self.program().to_owned()].into_iter().chain(words).collect();
        if self == Self::Redis {
            // An empty word: no snapshots.
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
            Self::Redis => {
                ask(&Door::Port(port), None, &[&["PING"]]).is_ok_and(|answer| answer.contains("+PONG\r\n"))
            }
            Self::Postgres => launch::connect(port).and_then(log_in).unwrap_or(false),
        }
    }
}

/// A Redis or a Postgres in a container of this process alone, on a free port of 127.0.0.1.
///
/// It takes a Docker daemon on this machine, the program `docker`, and the image or a registry to pull it from. The
/// image has to behave as the official one does. The container is gone after this process, however that ends.
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
    /// Starts a Redis without persistence and waits until it answers. Pulls the image if it is not there.
    ///
    /// # Errors
    ///
    /// [`ServerError::Container`] when there is no daemon, client, or image, else what kept the server from starting.
    pub fn redis() -> Result<Self, ServerError> {
        Self::start(Content::Redis)
    }

    /// Starts a Postgres, with a superuser `postgres` without a password, and waits until it answers. Pulls the image if
    /// it is not there.
    ///
    /// # Errors
    ///
    /// As [`redis`](Self::redis).
    pub fn postgres() -> Result<Self, ServerError> {
        Self::start(Content::Postgres)
    }

    /// The URL, as that of a server without a container.
    pub fn url(&self) -> String {
        self.content.url(self.port)
    }

    /// The port on 127.0.0.1; a restart keeps it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The name that the daemon knows the container by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The image, with its tag.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// Whether it lets a client in and answers now. Takes at most 2 s a message.
    pub fn answers(&self) -> bool {
        self.content.answers(self.port)
    }

    /// Kills the server (`SIGKILL`) and keeps its data.
    ///
    /// # Errors
    ///
    /// [`ServerError::Container`] when the daemon refuses, for one because it does not run.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.docker.kill(&self.name)
    }

    /// Starts a killed server again on the same port and data; returns when it answers.
    ///
    /// # Errors
    ///
    /// What kept it from starting.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.docker.start(&self.name)?;
        self.await_answer()
    }

    fn start(content: Content) -> Result<Self, ServerError> {
        let docker = Docker::connect()?;
        let image = content.image();
        launch::on_free_port(|port| {
            let name = format!("stanchion-{}-{:016x}", content.program(), rand::random::<u64>());
            // From here on the container is removed, whatever happens; it need not be there for that.
            let remover = remover(&name)?;
            let container =
                Self { content, name, image: image.clone(), port, docker: docker.clone(), remover };
            let command = content.command(docker.address(port));
            // What the official image of Postgres asks for; nobody else heeds it.
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

/// A shell that outlives this process by as long as it takes to remove the container.
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
