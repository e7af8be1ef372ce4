//! A private PgBouncer in front of a Postgres.

use std::fs;
use std::io;
use std::ops::Deref;
use std::path::Path;

use super::account::Account;
use super::error::ServerError;
use super::find;
use super::launch;
use super::postgres::PostgresServer;
use super::postgres_access::{log_in, url_of};
use super::server::Server;
use super::supervisor::Supervisor;

const PROGRAM: &str = "pgbouncer";
const SETTINGS: &str = "pgbouncer.ini";
const USERS: &str = "users.txt";

/// A private transaction pooler of this process, on a free port of 127.0.0.1. Between two
/// transactions, a client has no connection to the server.
///
/// It runs as the account of the server behind it, and ends with this process, however the process
/// ends. It can be killed, paused and restarted like any [`Server`].
#[derive(Debug)]
pub struct PgBouncer {
    server: Server,
}

impl PgBouncer {
    /// Starts a pooler in front of `behind` with at most `connections` to it for each user, and
    /// waits until it answers.
    ///
    /// Its users are `postgres` and `users`, by name; it needs no passwords.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] if there is no `pgbouncer`; otherwise the reason why it did
    /// not start.
    pub fn start(behind: &PostgresServer, connections: usize, users: &[&str]) -> Result<Self, ServerError> {
        let program = find::pgbouncer()?;
        let account = Account::for_postgres()?;
        launch::on_free_port(|port| {
            let folder = launch::folder(PROGRAM)?;
            write(folder.path(), SETTINGS, &settings(behind.port(), port, connections))?;
            let names = ["postgres"].into_iter().chain(users.iter().copied());
            let list: String = names.map(|name| format!("\"{name}\" \"\"\n")).collect();
            write(folder.path(), USERS, &list)?;
            if let Some(account) = account {
                account.own(folder.path())?;
            }
            let command = [program.clone().into_os_string(), SETTINGS.into()];
            let log = folder.path().join("server.log");
            let supervisor = Supervisor::new(folder, account, &command)?;
            // The log must confirm the pid: another server may have taken the port first.
            let probe = move |pid| Ok(is_up(&fs::read_to_string(&log)?, pid) && log_in_by_port(port)?);
            Server::start(PROGRAM, supervisor, port, Box::new(probe)).map(|server| Self { server })
        })
    }

    /// Returns the URL: `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        url_of("postgres", self.port(), "")
    }
}

impl Deref for PgBouncer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn log_in_by_port(port: u16) -> io::Result<bool> {
    log_in(launch::connect(port)?)
}

fn write(folder: &Path, file: &str, text: &str) -> Result<(), ServerError> {
    fs::write(folder.join(file), text).map_err(ServerError::io("write the pooler's configuration"))
}

/// Returns the settings. `sqlx` sends two start-up parameters that a pooler does not know.
fn settings(behind: u16, port: u16, connections: usize) -> String {
    let lines = [
        "[databases]".to_owned(),
        format!("* = host=127.0.0.1 port={behind}"),
        "[pgbouncer]".to_owned(),
        "listen_addr = 127.0.0.1".to_owned(),
        format!("listen_port = {port}"),
        "unix_socket_dir =".to_owned(),
        "auth_type = trust".to_owned(),
        format!("auth_file = {USERS}"),
        "pool_mode = transaction".to_owned(),
        format!("default_pool_size = {connections}"),
        "max_client_conn = 1000".to_owned(),
        "ignore_startup_parameters = extra_float_digits,options".to_owned(),
        // Reconnects at once to a server that was away.
        "server_login_retry = 1".to_owned(),
    ];
    lines.join("\n") + "\n"
}

/// Returns whether the process with this id has logged that it listens.
fn is_up(log: &str, pid: u32) -> bool {
    let pid = format!("[{pid}]");
    log.lines().any(|line| line.contains(&pid) && line.contains("process up"))
}

#[cfg(test)]
mod tests {
    use super::is_up;

    #[test]
    fn a_pooler_is_up_by_its_own_word() {
        let log =
            "2026-01-01 [7] LOG listening on 127.0.0.1:1\n2026-01-01 [7] LOG process up: PgBouncer 1.18.0\n";
        assert!(is_up(log, 7) && !is_up(log, 8));
    }
}
