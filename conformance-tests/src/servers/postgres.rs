//! A private Postgres.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use super::account::Account;
use super::error::ServerError;
use super::find;
use super::launch;
use super::postgres_data;
use super::server::Server;
use super::supervisor::Supervisor;

const PROGRAM: &str = "postgres";
const PROTOCOL: u32 = 0x0003_0000;
const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];

/// How a [`PostgresServer`] is set up. By default: without `fsync`, which is all that a test needs that kills no
/// more than processes.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    fsync: bool,
    settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// Whether a commit waits for the disk.
    #[must_use]
    pub fn fsync(mut self, on: bool) -> Self {
        self.fsync = on;
        self
    }

    /// One more server setting, after ours and so stronger, like `max_connections` and `20`.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    fn command(&self, programs: &Path, data: &Path, port: u16) -> Vec<OsString> {
        let ours = [
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("port", port.to_string()),
            ("unix_socket_directories", String::new()),
            ("fsync", if self.fsync { "on" } else { "off" }.to_owned()),
            // In the data folder, so that a killed server leaves nothing behind in the machine's memory.
            ("dynamic_shared_memory_type", "mmap".to_owned()),
        ];
        let ours = ours.map(|(name, value)| format!("{name}={value}"));
        let theirs = self.settings.iter().map(|(name, value)| format!("{name}={value}"));
        let mut command = vec![programs.join(PROGRAM).into_os_string(), "-D".into(), data.into()];
        for setting in ours.into_iter().chain(theirs) {
            command.extend(["-c".into(), setting.into()]);
        }
        command
    }
}

/// A Postgres server of this process alone, on a free port of 127.0.0.1, with its data (in `data`) in a temporary folder.
///
/// Its superuser is `postgres`, without a password. When the tests run as root, it runs as `postgres` or `nobody`.
/// It dies with this process, however that ends. It can be killed, paused and restarted as any [`Server`].
#[derive(Debug)]
pub struct PostgresServer {
    server: Server,
    programs: PathBuf,
}

impl PostgresServer {
    /// Starts a server on an empty database and waits until it answers.
    ///
    /// The first one of a process makes the database (seconds); the others copy it.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] when there is no `postgres`, else what kept it from starting.
    pub fn start(options: PostgresOptions) -> Result<Self, ServerError> {
        let programs = find::postgres_folder()?;
        let account = Account::for_postgres()?;
        launch::on_free_port(|port| {
            let folder = postgres_data::folder(account)?;
            let data = postgres_data::copy(&programs, account, folder.path())?;
            let command = options.command(&programs, &data, port);
            let path = folder.path().to_owned();
            let supervisor = Supervisor::new(folder, account, &command)?;
            // Without the postmaster's own word it could be another server, if that one was faster to take the port.
            let probe = move |pid| Ok(postgres_data::is_ready(&path, pid)? && log_in(port)?);
            let server = Server::start(PROGRAM, supervisor, port, Box::new(probe))?;
            Ok(Self { server, programs: programs.clone() })
        })
    }

    /// The URL: `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port())
    }

    /// The folder of the server's own programs, like `pg_isready` and `psql` where they are installed.
    pub fn programs(&self) -> &Path {
        &self.programs
    }
}

impl Deref for PostgresServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Logs in without a password, waits for `ReadyForQuery` and says goodbye.
fn log_in(port: u16) -> io::Result<bool> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, launch::ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(launch::ANSWER_LIMIT))?;
    stream.write_all(&startup_message())?;
    loop {
        let mut kind = [0];
        let mut length = [0; 4];
        stream.read_exact(&mut kind)?;
        stream.read_exact(&mut length)?;
        // The length counts itself.
        let rest = u64::from(u32::from_be_bytes(length)).saturating_sub(4);
        io::copy(&mut Read::by_ref(&mut stream).take(rest), &mut io::sink())?;
        match kind {
            [b'Z'] => {
                stream.write_all(&TERMINATE)?;
                return Ok(true);
            }
            [b'E'] => return Ok(false),
            _ => {}
        }
    }
}

fn startup_message() -> Vec<u8> {
    let parameters = b"user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(parameters.len() + 8).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &PROTOCOL.to_be_bytes(), parameters].concat()
}
