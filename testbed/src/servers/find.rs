//! Finds the servers' programs on this machine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::ServerError;
use super::package::{Package, command};

/// The major and the minor version.
type Version = (u32, u32);

const OLDEST_REDIS: Version = (6, 2);
const OLDEST_POSTGRES: Version = (14, 0);
const OLDEST_PGBOUNCER: Version = (1, 16);
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"];
const DEBIAN_POSTGRES: &str = "/usr/lib/postgresql";

/// Names the server program to use in place of the one that is found, for tests of other versions.
const REDIS_SERVER: &str = "STANCHION_TEST_REDIS_SERVER";

/// Returns the path of the newest `redis-server` or `valkey-server`, 6.2 or later; of the program
/// that `STANCHION_TEST_REDIS_SERVER` names, if that is set.
///
/// # Errors
///
/// [`ServerError::NotInstalled`], with the command that installs it.
pub fn redis_server() -> Result<PathBuf, ServerError> {
    match env::var_os(REDIS_SERVER) {
        Some(program) => newest_redis(std::iter::once(program.into())),
        None => redis_server_in(&search_folders()),
    }
}

/// Returns the folder with `initdb`, `postgres` and the other programs of the newest PostgreSQL, 14
/// or later.
///
/// # Errors
///
/// [`ServerError::NotInstalled`], with the command that installs it.
pub fn postgres_folder() -> Result<PathBuf, ServerError> {
    let mut folders = search_folders();
    let installed = fs::read_dir(DEBIAN_POSTGRES).into_iter().flatten().flatten();
    folders.extend(installed.map(|entry| entry.path().join("bin")));
    postgres_folder_in(&folders)
}

/// Returns the path of the newest `pgbouncer`, 1.16 or later.
///
/// # Errors
///
/// [`ServerError::NotInstalled`], with the command that installs it.
pub fn pgbouncer() -> Result<PathBuf, ServerError> {
    pgbouncer_in(&search_folders())
}

/// Returns the path of `prometheus`, of any version.
///
/// # Errors
///
/// [`ServerError::NotInstalled`], with the command that installs it.
pub(super) fn prometheus() -> Result<PathBuf, ServerError> {
    program("prometheus", Package::Prometheus)
}

/// Returns the path of a program, of any version.
pub(super) fn program(name: &'static str, package: Package) -> Result<PathBuf, ServerError> {
    let mut found = search_folders().into_iter().map(|folder| folder.join(name));
    found.find(|path| path.is_file()).ok_or_else(|| ServerError::NotInstalled {
        program: name,
        version: "of any version",
        install: command(&[package]),
    })
}

fn search_folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from)).collect()
}

fn redis_server_in(folders: &[PathBuf]) -> Result<PathBuf, ServerError> {
    let programs = ["redis-server", "valkey-server"];
    newest_redis(folders.iter().flat_map(|folder| programs.map(|program| folder.join(program))))
}

fn newest_redis(programs: impl Iterator<Item = PathBuf>) -> Result<PathBuf, ServerError> {
    newest(programs, OLDEST_REDIS).ok_or_else(|| ServerError::NotInstalled {
        program: "redis-server",
        version: "6.2",
        install: command(&[Package::Redis]),
    })
}

fn postgres_folder_in(folders: &[PathBuf]) -> Result<PathBuf, ServerError> {
    let found = folders.iter().filter(|folder| folder.join("initdb").is_file());
    // A link in PATH leads to the folder where the other programs are.
    let found = found.filter_map(|folder| fs::canonicalize(folder.join("postgres")).ok());
    let program = newest(found, OLDEST_POSTGRES);
    let folder = program.and_then(|program| program.parent().map(Path::to_owned));
    folder.ok_or_else(|| ServerError::NotInstalled {
        program: "postgres",
        version: "14",
        install: command(&[Package::Postgres]),
    })
}

fn pgbouncer_in(folders: &[PathBuf]) -> Result<PathBuf, ServerError> {
    let found = folders.iter().map(|folder| folder.join("pgbouncer"));
    newest(found, OLDEST_PGBOUNCER).ok_or_else(|| ServerError::NotInstalled {
        program: "pgbouncer",
        version: "1.16",
        install: command(&[Package::PgBouncer]),
    })
}

fn newest(programs: impl Iterator<Item = PathBuf>, oldest: Version) -> Option<PathBuf> {
    let dated = programs.filter(|program| program.is_file()).filter_map(|program| {
        let version = version_of(&program).filter(|&version| version >= oldest)?;
        Some((version, program))
    });
    // Among equal versions the first one, as in PATH.
    let best = dated.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map(|(_, program)| program)
}

fn version_of(program: &Path) -> Option<Version> {
    let output = Command::new(program).arg("--version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// Reads `Redis server v=7.0.15 sha=…` and `postgres (PostgreSQL) 15.18 (Debian …)`, also
/// `17beta1`.
fn parse_version(text: &str) -> Option<Version> {
    let words = text.split_whitespace().map(|word| word.trim_start_matches("v="));
    let mut numbers = words.filter(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let mut parts = numbers.next()?.split('.').map(leading_number);
    Some((parts.next()??, parts.next().flatten().unwrap_or(0)))
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::{newest_redis, parse_version, pgbouncer_in, postgres_folder_in, redis_server_in};

    fn folder_with(program: &str, version: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(program);
        fs::write(&path, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[test]
    fn versions_are_read_from_what_the_programs_print() {
        assert_eq!(parse_version("Redis server v=7.0.15 sha=0:0 malloc=jemalloc-5.3.0"), Some((7, 0)));
        assert_eq!(parse_version("Valkey server v=8.1.3 sha=0"), Some((8, 1)));
        assert_eq!(parse_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"), Some((15, 18)));
        assert_eq!(parse_version("postgres (PostgreSQL) 19beta1"), Some((19, 0)));
        assert_eq!(parse_version("PgBouncer 1.18.0\nlibevent 2.1.12-stable\n"), Some((1, 18)));
        assert_eq!(parse_version("nothing"), None);
    }

    #[test]
    fn the_newest_redis_is_taken_and_an_old_one_refused() {
        let old = folder_with("redis-server", "Redis server v=6.0.16 sha=0");
        let good = folder_with("redis-server", "Redis server v=6.2.0 sha=0");
        let newer = folder_with("valkey-server", "Valkey server v=8.0.1 sha=0");
        let paths: Vec<PathBuf> = [&old, &good, &newer].map(|folder| folder.path().to_owned()).to_vec();
        assert_eq!(redis_server_in(&paths).unwrap(), newer.path().join("valkey-server"));
        assert_eq!(redis_server_in(&paths[..2]).unwrap(), good.path().join("redis-server"));
        let named =
            |folder: &tempfile::TempDir| newest_redis(std::iter::once(folder.path().join("redis-server")));
        assert_eq!(named(&good).unwrap(), good.path().join("redis-server"));
        assert!(named(&old).is_err(), "6.0 is named, and too old");
        let error = redis_server_in(&paths[..1]).unwrap_err().to_string();
        assert!(error.contains("apt-get install") && error.contains("redis-server"), "{error}");
    }

    #[test]
    fn a_postgres_without_initdb_is_not_taken() {
        let folder = folder_with("postgres", "postgres (PostgreSQL) 15.18");
        let error = postgres_folder_in(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("apt-get install") && error.contains("postgresql"), "{error}");
        fs::write(folder.path().join("initdb"), "").unwrap();
        let found = postgres_folder_in(&[folder.path().to_owned()]).unwrap();
        assert_eq!(found, fs::canonicalize(folder.path()).unwrap());
    }

    #[test]
    fn an_old_pgbouncer_is_refused() {
        let old = folder_with("pgbouncer", "PgBouncer 1.15.0");
        let good = folder_with("pgbouncer", "PgBouncer 1.25.0");
        let paths: Vec<PathBuf> = [&old, &good].map(|folder| folder.path().to_owned()).to_vec();
        assert_eq!(pgbouncer_in(&paths).unwrap(), good.path().join("pgbouncer"));
        let error = pgbouncer_in(&paths[..1]).unwrap_err().to_string();
        assert!(error.contains("apt-get install pgbouncer"), "{error}");
    }
}
