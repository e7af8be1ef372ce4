//! Servers and builders of the tests.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use stanchion_core::{Error, MutexMode};
use stanchion_postgres::{PostgresBuilder, PostgresStore};
use stanchion_testbed::servers::{PgBouncer, PostgresOptions, PostgresServer};

pub(crate) fn server() -> PostgresServer {
    PostgresServer::start(PostgresOptions::default()).expect("a Postgres")
}

/// A builder whose mutexes are leases.
pub(crate) fn lease(url: &str) -> PostgresBuilder {
    PostgresStore::builder(url).expect("a URL").mutex(MutexMode::Lease)
}

/// The error of a builder that must not connect.
pub(crate) async fn refused(builder: PostgresBuilder) -> Error {
    builder.connect().await.expect_err("it is refused")
}

/// A server that runs on another's data as a standby, until it is dropped.
pub(crate) struct Standby(Child);

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a killed server's data, on its port, as a standby.
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

/// Lets a pooler refuse settings of the start-up, as it does unless it is told to ignore them.
pub(crate) fn forbid_settings(pooler: &PgBouncer) {
    let file = pooler.dir().join("pgbouncer.ini");
    let text = fs::read_to_string(&file).expect("its settings");
    fs::write(&file, text.replace("ignore_startup_parameters = extra_float_digits,options", ""))
        .expect("written");
    pooler.restart().expect("a restart");
}
