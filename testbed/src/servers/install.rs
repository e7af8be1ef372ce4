//! Installs missing packages, on a Debian machine and as root only.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::account::is_root;
use super::error::ServerError;
use super::find::{pgbouncer, postgres_folder, program, prometheus, redis_server};

pub use super::package::{Package, command};

const SCRIPT: &str = include_str!("install.sh");

const SERVERS: [Package; 4] = [Package::Redis, Package::Postgres, Package::PgBouncer, Package::Prometheus];

impl Package {
    /// Looks for the package's program.
    fn find(self) -> Result<PathBuf, ServerError> {
        match self {
            Self::Redis => redis_server(),
            Self::Postgres => postgres_folder(),
            Self::PgBouncer => pgbouncer(),
            Self::Prometheus => prometheus(),
            Self::Docker => program("dockerd", self),
            Self::DockerClient => program("docker", self),
            Self::Debootstrap => program("debootstrap", self),
        }
    }
}

/// The permission of [`ensure`] to change the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Missing packages are installed, if possible.
    Install,
    /// Nothing is installed.
    LookOnly,
}

/// Returns the packages whose server is missing on this machine, or is too old.
pub fn missing() -> Vec<Package> {
    missing_of(&SERVERS)
}

fn missing_of(packages: &[Package]) -> Vec<Package> {
    packages.iter().copied().filter(|package| package.find().is_err()).collect()
}

/// Ensures that every server is installed, and returns the packages that were installed for it.
///
/// Missing packages are installed if `permission` allows it, this process is root, and the system
/// is Debian or derived from it. `announce` gets the command before it runs. No service is started.
///
/// # Errors
///
/// [`ServerError::NotInstalled`] if a package is missing and must not or cannot be installed here;
/// [`ServerError::InstallFailed`] if `apt-get` failed.
pub fn ensure(permission: Permission, announce: impl FnOnce(&str)) -> Result<Vec<Package>, ServerError> {
    ensure_of(&SERVERS, permission, announce)
}

/// Ensures that these packages are installed, as [`ensure`] does for the servers.
///
/// # Errors
///
/// As [`ensure`].
pub fn ensure_of(
    packages: &[Package],
    permission: Permission,
    announce: impl FnOnce(&str),
) -> Result<Vec<Package>, ServerError> {
    let wanted = packages;
    let packages = missing_of(wanted);
    if packages.is_empty() {
        return Ok(packages);
    }
    if permission == Permission::LookOnly || !is_root() || !is_debian() {
        return Err(not_installed(&packages));
    }
    announce(&command(&packages));
    let names = packages.iter().map(|package| package.name());
    let status = Command::new("sh")
        .args(["-c", SCRIPT, "install"])
        .args(names)
        .stdin(Stdio::null())
        .status()
        .map_err(ServerError::io("start `sh` to install what is missing"))?;
    match missing_of(wanted).as_slice() {
        [] if status.success() => Ok(packages),
        _ => Err(ServerError::InstallFailed { install: command(&packages), status: status.to_string() }),
    }
}

/// Returns the error for the first missing server, with the command that installs all of them.
fn not_installed(packages: &[Package]) -> ServerError {
    let first = packages.iter().find_map(|package| package.find().err());
    let (program, version) = match first {
        Some(ServerError::NotInstalled { program, version, .. }) => (program, version),
        _ => ("a server", "any version"),
    };
    ServerError::NotInstalled { program, version, install: command(packages) }
}

fn is_debian() -> bool {
    fs::read_to_string("/etc/os-release").is_ok_and(|text| describes_debian(&text))
}

fn describes_debian(os_release: &str) -> bool {
    let values = os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")));
    values.flat_map(|value| value.trim_matches('"').split_whitespace()).any(|id| id == "debian")
}

#[cfg(test)]
mod tests {
    use super::{SERVERS, command, describes_debian};

    #[test]
    fn debian_and_its_derivatives_are_recognised() {
        assert!(describes_debian("NAME=\"Debian GNU/Linux\"\nID=debian\n"));
        assert!(describes_debian("ID=pop\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!describes_debian("ID=fedora\nHOME_URL=\"https://debian.org\"\n"));
    }

    #[test]
    fn one_command_installs_all_that_is_missing() {
        let command = command(&SERVERS);
        assert!(
            command.ends_with("apt-get install redis-server postgresql pgbouncer prometheus"),
            "{command}"
        );
    }
}
