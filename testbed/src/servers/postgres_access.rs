//! Access to a Postgres: a minimal login that shows that it answers, and `psql` for the rest.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::error::ServerError;
use super::supervisor::last_lines;

const PROTOCOL: u32 = 0x0003_0000;
const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];

/// Returns the access rules, for TCP and for the socket in the server's folder.
pub(super) fn host_rules(tls: bool, passwords: bool) -> String {
    let kind = if tls { "hostssl" } else { "host" };
    let method = if passwords { "scram-sha-256" } else { "trust" };
    // A standby connects by the socket; `all` does not include replication.
    format!(
        "local all all trust\nlocal replication all trust\n{kind} all postgres all trust\n{kind} all all all {method}\n"
    )
}

/// Returns a URL of the database `postgres`, for a user with or without `:password`.
pub(super) fn url_of(user: &str, port: u16, query: &str) -> String {
    format!("postgres://{user}@127.0.0.1:{port}/postgres{query}")
}

/// Logs in without a password, waits for `ReadyForQuery`, and terminates.
pub(super) fn log_in(mut stream: impl Read + Write) -> io::Result<bool> {
    stream.write_all(&startup_message())?;
    loop {
        let mut kind = [0];
        let mut length = [0; 4];
        stream.read_exact(&mut kind)?;
        stream.read_exact(&mut length)?;
        // The length includes itself.
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

/// Runs statements by `psql` and returns the values of the last one, unaligned.
pub(super) fn psql(programs: &Path, database: &str, sql: &str) -> Result<String, ServerError> {
    let child = psql_command(programs, database).args(["--command", sql]).stdin(Stdio::null()).spawn();
    finished(child.map_err(ServerError::io("run `psql`"))?)
}

/// Runs statements of any length one by one, by `psql`.
pub(super) fn psql_script(programs: &Path, database: &str, script: &str) -> Result<String, ServerError> {
    let child = psql_command(programs, database).stdin(Stdio::piped()).spawn();
    let mut child = child.map_err(ServerError::io("run `psql`"))?;
    if let Some(mut input) = child.stdin.take() {
        // At an error, `psql` stops reading: its own message will say so.
        let _ = input.write_all(script.as_bytes());
    }
    finished(child)
}

fn psql_command(programs: &Path, database: &str) -> Command {
    let mut command = Command::new(programs.join("psql"));
    command
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"])
        .args(["--dbname", database])
        .env("LC_ALL", "C")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn finished(child: Child) -> Result<String, ServerError> {
    let output = child.wait_with_output().map_err(ServerError::io("run `psql`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(ServerError::Ended { program: "psql", log: last_lines(&String::from_utf8_lossy(&output.stderr)) })
}
