//! Fixtures of all tests: servers, deployments, and stores of both mutex modes.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod deployment;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use stanchion_core::{Error, MutexMode, Store};
use stanchion_postgres::{PostgresBuilder, PostgresStore};
use stanchion_testbed::servers::{PgBouncer, PostgresOptions, PostgresServer};

pub(crate) const MODES: [MutexMode; 2] = [MutexMode::Lease, MutexMode::Session];

/// Longer than a busy machine keeps a request, or a login: what a request's limit does has cases of
/// its own.
pub(crate) const REQUEST: Duration = Duration::from_secs(10);

/// Starts a server.
pub(crate) fn server() -> PostgresServer {
    PostgresServer::start(PostgresOptions::default()).expect("a postgres")
}

/// Makes a builder in lease mode.
pub(crate) fn lease(url: &str) -> PostgresBuilder {
    PostgresStore::builder(url).expect("a URL").request_timeout(REQUEST).mutex(MutexMode::Lease)
}

/// Makes a builder for the namespace of a mutex mode.
pub(crate) fn builder(url: &str, mode: MutexMode) -> PostgresBuilder {
    let namespace = if mode == MutexMode::Session { "by-session" } else { "by-lease" };
    PostgresStore::builder(url).expect("a URL").request_timeout(REQUEST).namespace(namespace).mutex(mode)
}

/// Connects a store in the namespace of a mutex mode.
pub(crate) async fn store(url: &str, mode: MutexMode, ttl: Duration) -> Arc<dyn Store> {
    Arc::new(builder(url, mode).session_ttl(ttl).connect().await.expect("a store"))
}

/// Runs a statement on a connection of its own, and returns its first row.
pub(crate) async fn row(url: &str, sql: &str) -> PgRow {
    let mut raw = PgConnection::connect(url).await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut raw).await.expect("a row")
}

/// Returns the error of a builder that must not connect.
pub(crate) async fn refused(builder: PostgresBuilder) -> Error {
    builder.connect().await.expect_err("it is refused")
}

/// A standby that runs on the data of another server. It ends when it is dropped.
pub(crate) struct Standby(Child);

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a standby on the data and on the port of a killed server.
pub(crate) fn standby(server: &PostgresServer) -> Standby {
    let data = server.dir().join("data");
    fs::write(data.join("standby.signal"), "").expect("a signal file");
    let owner = fs::metadata(&data).expect("a folder");
    let mut command = Command::new(server.programs().join("postgres"));
    command.arg("-D").arg(&data).current_dir(&data).stdout(Stdio::null()).stderr(Stdio::null());
    let port = format!("port={}", server.port());
    let settings =
        ["listen_addresses=127.0.0.1", "unix_socket_directories=", "dynamic_shared_memory_type=mmap"];
    for setting in settings.into_iter().chain([port.as_str()]) {
        command.args(["-c", setting]);
    }
    command.uid(owner.uid()).gid(owner.gid());
    Standby(command.spawn().expect("a postgres"))
}

/// Makes a pooler refuse start-up settings, as poolers do by default.
pub(crate) fn forbid_settings(pooler: &PgBouncer) {
    change(pooler, "ignore_startup_parameters = extra_float_digits,options", "");
}

/// Makes a pooler give each client a session of its own.
pub(crate) fn pool_sessions(pooler: &PgBouncer) {
    change(pooler, "pool_mode = transaction", "pool_mode = session");
}

/// Makes a pooler that knows no transactions.
pub(crate) fn pool_statements(pooler: &PgBouncer) {
    change(pooler, "pool_mode = transaction", "pool_mode = statement");
}

fn change(pooler: &PgBouncer, from: &str, to: &str) {
    let file = pooler.dir().join("pgbouncer.ini");
    let text = fs::read_to_string(&file).expect("its settings");
    assert!(text.contains(from), "{text}");
    fs::write(&file, text.replace(from, to)).expect("written");
    pooler.restart().expect("a restart");
}
