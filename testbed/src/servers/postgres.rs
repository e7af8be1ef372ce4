//! A private Postgres.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::account::Account;
use super::error::ServerError;
use super::find;
use super::launch;
use super::postgres_access::{host_rules, log_in, psql, psql_script, url_of};
use super::postgres_data;
use super::redis_wire::url_escaped;
use super::server::Server;
use super::supervisor::Supervisor;
use super::tls::{CA, CERTIFICATE, Certificates, KEY};
use crate::faults::Clock;

const PROGRAM: &str = "postgres";
const RULES: &str = "hba.conf";

/// The options of a [`PostgresServer`]. By default it has no `fsync`, which is enough for a test
/// that kills only processes; no TLS; and no passwords.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    fsync: bool,
    on_disk: bool,
    tls: bool,
    passwords: bool,
    settings: Vec<(String, String)>,
    clock: Option<Clock>,
}

impl PostgresOptions {
    /// Sets whether a commit waits for the disk.
    #[must_use]
    pub fn fsync(mut self, on: bool) -> Self {
        self.fsync = on;
        self
    }

    /// Sets whether the data is in the system's folder of temporary files, which is mostly on a
    /// disk, also where there is enough memory: for measurements of commits that wait for the disk.
    #[must_use]
    pub fn on_disk(mut self, on: bool) -> Self {
        self.on_disk = on;
        self
    }

    /// Makes the port accept only TLS. The certificate, for `127.0.0.1` and `localhost`, is signed
    /// by an authority that is created for this server; [`PostgresServer::ca`] returns its path.
    #[must_use]
    pub fn tls(mut self, on: bool) -> Self {
        self.tls = on;
        self
    }

    /// Requires a password from every user but `postgres`.
    #[must_use]
    pub fn passwords(mut self, on: bool) -> Self {
        self.passwords = on;
        self
    }

    /// Sets the server's wall clock, which can be shifted.
    #[must_use]
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Adds a server setting, like `max_connections` and `20`. It overrides the default settings.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    fn command(&self, programs: &Path, folder: &Path, data: &Path, port: u16) -> Vec<OsString> {
        let in_folder = |file: &str| folder.join(file).to_string_lossy().into_owned();
        let mut ours = vec![
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("port", port.to_string()),
            ("unix_socket_directories", folder.to_string_lossy().into_owned()),
            ("hba_file", in_folder(RULES)),
            ("fsync", if self.fsync { "on" } else { "off" }.to_owned()),
            // In the data folder, so that a killed server leaves nothing behind in the machine's
            // memory.
            ("dynamic_shared_memory_type", "mmap".to_owned()),
        ];
        if self.tls {
            ours.extend([
                ("ssl", "on".to_owned()),
                ("ssl_cert_file", in_folder(CERTIFICATE)),
                ("ssl_key_file", in_folder(KEY)),
            ]);
        }
        let ours = ours.into_iter().map(|(name, value)| format!("{name}={value}"));
        let theirs = self.settings.iter().map(|(name, value)| format!("{name}={value}"));
        let mut command: Vec<_> = self.clock.iter().flat_map(Clock::launcher).collect();
        command.extend([programs.join(PROGRAM).into_os_string(), "-D".into(), data.into()]);
        for setting in ours.chain(theirs) {
            command.extend(["-c".into(), setting.into()]);
        }
        command
    }

    /// Writes the access rules and the TLS files into the folder.
    fn write(&self, account: Option<Account>, folder: &Path) -> Result<(), ServerError> {
        fs::write(folder.join(RULES), host_rules(self.tls, self.passwords))
            .map_err(ServerError::io("write the server's rules"))?;
        if self.tls { Certificates::new()?.write_for(account, folder) } else { Ok(()) }
    }
}

/// A private Postgres server of this process, on a free port of 127.0.0.1, with its data (in
/// `data`) in a temporary folder.
///
/// Its superuser is `postgres`, without a password. When the tests run as root, it runs as
/// `postgres` or `nobody`. It ends with this process, however the process ends. It can be killed,
/// paused and restarted like any [`Server`].
#[derive(Debug)]
pub struct PostgresServer {
    server: Server,
    programs: PathBuf,
    tls: bool,
    // A restart needs it.
    _clock: Option<Clock>,
}

impl PostgresServer {
    /// Starts a server on an empty database and waits until it answers.
    ///
    /// The first server of a process creates the database (seconds); the others copy it.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] if there is no `postgres`; otherwise the reason why it did not
    /// start.
    pub fn start(options: PostgresOptions) -> Result<Self, ServerError> {
        Self::start_with(options, postgres_data::copy)
    }

    /// Starts a server on the data that `make` puts into its folder.
    pub(super) fn start_with(
        options: PostgresOptions,
        make: impl Fn(&Path, Option<Account>, &Path) -> Result<PathBuf, ServerError>,
    ) -> Result<Self, ServerError> {
        let programs = find::postgres_folder()?;
        let account = Account::for_postgres()?;
        launch::on_free_port(|port| {
            let folder = postgres_data::folder(account, options.on_disk)?;
            let data = make(&programs, account, folder.path())?;
            options.write(account, folder.path())?;
            let command = options.command(&programs, folder.path(), &data, port);
            let path = folder.path().to_owned();
            let supervisor = Supervisor::new(folder, account, &command)?;
            // The postmaster's lock file must confirm the pid: another server may have taken the
            // port first.
            let login = SuperuserLogin { folder: path, port, tls: options.tls };
            let probe = move |pid| Ok(postgres_data::is_ready(&login.folder, pid)? && login.log_in()?);
            let server = Server::start(PROGRAM, supervisor, port, Box::new(probe))?;
            options.clock.iter().try_for_each(|clock| clock.check(server.pid()))?;
            let (programs, clock) = (programs.clone(), options.clock.clone());
            Ok(Self { server, programs, tls: options.tls, _clock: clock })
        })
    }

    /// Returns the URL: `postgres://postgres@127.0.0.1:PORT/postgres`; with TLS also the parameters
    /// to trust only its authority.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Returns the URL for a user, with `:` and a password if it needs one.
    pub fn url_of(&self, user: &str) -> String {
        let ca = self.ca().map(|ca| url_escaped(&ca.to_string_lossy()));
        let trust = ca.map(|ca| format!("?sslmode=verify-full&sslrootcert={ca}"));
        url_of(user, self.port(), &trust.unwrap_or_default())
    }

    /// Returns the certificate of the authority that signed the server's, if the port uses TLS.
    pub fn ca(&self) -> Option<PathBuf> {
        self.tls.then(|| self.dir().join(CA))
    }

    /// Returns the folder of the server's programs, like `pg_isready` and `psql` if they are
    /// installed.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Runs statements as the superuser, by `psql`: all or none of them. Returns the values of the
    /// last one, one row a line.
    ///
    /// # Errors
    ///
    /// [`ServerError::Ended`] with the server's message.
    pub fn sql(&self, statements: &str) -> Result<String, ServerError> {
        psql(&self.programs, &self.superusers_door(), statements)
    }

    /// Runs a script as the superuser, by `psql`, one statement after the other until one fails. It
    /// may have any length, unlike in [`sql`](Self::sql). Returns the output.
    ///
    /// # Errors
    ///
    /// [`ServerError::Ended`] with the server's message.
    pub fn script(&self, script: &str) -> Result<String, ServerError> {
        psql_script(&self.programs, &self.superusers_door(), script)
    }

    fn superusers_door(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.dir().display(), self.port())
    }

    /// Creates a role that can log in, runs `grants` for it, and returns its URL. The name is not
    /// quoted.
    ///
    /// # Errors
    ///
    /// As [`sql`](Self::sql); then the role does not exist.
    pub fn role(&self, name: &str, password: &str, grants: &str) -> Result<String, ServerError> {
        let literal = password.replace('\'', "''");
        self.sql(&format!("CREATE ROLE {name} LOGIN PASSWORD '{literal}'; {grants}"))?;
        Ok(self.url_of(&format!("{name}:{}", url_escaped(password))))
    }
}

impl Deref for PostgresServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The superuser's login without TLS.
struct SuperuserLogin {
    folder: PathBuf,
    port: u16,
    tls: bool,
}

impl SuperuserLogin {
    fn log_in(&self) -> io::Result<bool> {
        if !self.tls {
            return log_in(launch::connect(self.port)?);
        }
        let stream = UnixStream::connect(self.folder.join(format!(".s.PGSQL.{}", self.port)))?;
        stream.set_read_timeout(Some(launch::ANSWER_LIMIT))?;
        log_in(stream)
    }
}
