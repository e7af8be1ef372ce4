//! The packages that tests need, and the command that installs them.

use super::account::is_root;

/// A Debian package that tests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Package {
    /// `redis-server`.
    Redis,
    /// `postgresql`.
    Postgres,
    /// `pgbouncer`.
    PgBouncer,
    /// `prometheus`.
    Prometheus,
    /// `docker.io`, the daemon and, on older systems, the client.
    Docker,
    /// `docker-cli`, the client where it is a package of its own.
    DockerClient,
    /// `debootstrap`, which unpacks a system into a folder.
    Debootstrap,
}

impl Package {
    /// Returns its name for `apt-get`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Postgres => "postgresql",
            Self::PgBouncer => "pgbouncer",
            Self::Prometheus => "prometheus",
            Self::Docker => "docker.io",
            Self::DockerClient => "docker-cli",
            Self::Debootstrap => "debootstrap",
        }
    }
}

/// Returns the command that installs `packages`, to show to a person.
pub fn command(packages: &[Package]) -> String {
    let names: Vec<_> = packages.iter().map(|package| package.name()).collect();
    let sudo = if is_root() { "" } else { "sudo " };
    format!("{sudo}apt-get install {}", names.join(" "))
}
