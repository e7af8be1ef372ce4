//! What a server says about itself, by its answer to `INFO`: whether it would break safety (C22).

use stanchion_core::observe::events::server_fields;
use stanchion_core::{Error, ErrorKind, Result};

/// Minimum version of the server, major and minor.
const MIN_VERSION: (u32, u32) = (6, 2);
/// The first version that has `WAITAOF`.
const FSYNC_VERSION: (u32, u32) = (7, 2);

/// What a store asks of its servers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demands {
    pub(crate) accept_eviction: bool,
    /// Grants wait until the server has them on disk.
    pub(crate) fsync: bool,
}

/// What the server says about itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    /// Whether the server keeps what it has answered through a crash; `None` if that could not be
    /// read.
    pub(crate) survives_restart: Option<bool>,
}

impl Server {
    /// Combines two servers: what is `true` here is true of both.
    pub(super) fn and(self, other: Self) -> Self {
        let survives_restart = match (self.survives_restart, other.survives_restart) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (one, other) => one.and(other),
        };
        Self { survives_restart }
    }
}

/// Logs what could not be checked. `node` is its address, or empty where there is one server only.
pub(super) fn unverified(what: &'static str, node: &str, error: Option<&Error>) {
    let (address, port) = server_fields(node);
    tracing::warn!(
        name: "stanchion.server.unverified",
        {
            stanchion.unverified = what,
            server.address = Some(address).filter(|address| !address.is_empty()),
            server.port = port,
            error.type = error.map(|error| error.kind().as_str()),
            exception.message = error.map(tracing::field::debug),
        },
        "unverified: the server does not tell it, or not to this user"
    );
}

/// Judges the answer of a node to `INFO`. `node` is its name, or empty where there is one server
/// only.
pub(super) fn facts(info: &str, node: &str, striped: bool, demands: Demands) -> Result<Server> {
    let subject = if node.is_empty() { "the server".to_owned() } else { format!("node {node}") };
    judge(info, &subject, demands)?;
    if !striped && field(info, "cluster_enabled").is_some_and(|enabled| enabled == "1") {
        return Err(Error::invalid_argument(
            "the server is a node of a cluster: its URL begins with redis+cluster:// or rediss+cluster://",
        ));
    }
    match field(info, "role") {
        Some(role) if role != "master" => {
            return Err(Error::new(
                ErrorKind::UnsafeStore,
                format!("the role of {subject} is {role}, not master"),
            ));
        }
        Some(_) => {}
        None => unverified("role", node, None),
    }
    if field(info, "maxmemory_policy").is_none() {
        unverified("maxmemory-policy", node, None);
    }
    if demands.fsync && field(info, "aof_enabled").is_none() {
        unverified("appendonly", node, None);
    }
    Ok(Server { survives_restart: field(info, "aof_enabled").map(|enabled| enabled == "1") })
}

pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

/// Checks what a server says about itself.
pub(super) fn judge(info: &str, subject: &str, demands: Demands) -> Result<()> {
    version(info, subject, MIN_VERSION)?;
    if field(info, "arch_bits").is_some_and(|bits| bits == "32") {
        // `%d` of a script is an integer of that many bits.
        let detail =
            format!("{subject} is a 32-bit build, whose scripts cannot write times and tokens exactly");
        return Err(Error::new(ErrorKind::Unsupported, detail));
    }
    eviction(info, subject, demands.accept_eviction)?;
    if !demands.fsync {
        return Ok(());
    }
    version(info, subject, FSYNC_VERSION)?;
    if field(info, "aof_enabled").is_some_and(|enabled| enabled == "0") {
        let detail = format!("appendonly of {subject} is no: there is no file that fsync could wait for");
        return Err(Error::new(ErrorKind::UnsafeStore, detail));
    }
    Ok(())
}

fn version(info: &str, subject: &str, minimum: (u32, u32)) -> Result<()> {
    match field(info, "redis_version") {
        Some(version) if older(version, minimum) => {
            let (major, minor) = minimum;
            let detail = format!("Redis {major}.{minor} or later is needed, {subject} is {version}");
            Err(Error::new(ErrorKind::Unsupported, detail))
        }
        _ => Ok(()),
    }
}

fn eviction(info: &str, subject: &str, is_accepted: bool) -> Result<()> {
    let has_limit = field(info, "maxmemory").is_none_or(|maxmemory| maxmemory != "0");
    match field(info, "maxmemory_policy") {
        Some(policy) if has_limit && policy != "noeviction" && !is_accepted => {
            let detail = format!(
                "maxmemory-policy of {subject} is {policy}: it may evict holds; it must be noeviction"
            );
            Err(Error::new(ErrorKind::UnsafeStore, detail))
        }
        _ => Ok(()),
    }
}

/// Whether a version is below the minimum. One that cannot be read counts as new.
fn older(version: &str, minimum: (u32, u32)) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < minimum,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &[&str]) -> std::result::Result<Option<bool>, ErrorKind> {
        facts(&lines.join("\r\n"), "", false, Demands::default())
            .map(|server| server.survives_restart)
            .map_err(|error| error.kind())
    }

    #[test]
    fn c22_unsafe_servers_are_refused() {
        let limited = "maxmemory:1000";
        assert_eq!(judged(&[limited, "maxmemory_policy:allkeys-lru"]), Err(ErrorKind::UnsafeStore));
        assert_eq!(judged(&[limited, "maxmemory_policy:volatile-ttl"]), Err(ErrorKind::UnsafeStore));
        assert_eq!(judged(&[limited, "maxmemory_policy:noeviction"]), Ok(None));
        assert_eq!(judged(&["maxmemory:0", "maxmemory_policy:allkeys-lru"]), Ok(None));
        assert_eq!(judged(&["role:slave"]), Err(ErrorKind::UnsafeStore));
        assert_eq!(judged(&["redis_version:6.0.16"]), Err(ErrorKind::Unsupported));
        assert_eq!(judged(&["arch_bits:32"]), Err(ErrorKind::Unsupported));
        assert_eq!(judged(&["arch_bits:64"]), Ok(None));
        assert_eq!(judged(&["redis_version:6.2.0", "role:master", "aof_enabled:1"]), Ok(Some(true)));
        assert_eq!(judged(&["redis_version:10.0", "aof_enabled:0"]), Ok(Some(false)));
        assert_eq!(judged(&["cluster_enabled:1"]), Err(ErrorKind::InvalidArgument));
        assert!(facts("cluster_enabled:1", "a:1", true, Demands::default()).is_ok());
    }

    #[test]
    fn c22_a_server_without_a_file_cannot_be_waited_for() {
        let judged = |info| {
            let demands = Demands { fsync: true, ..Demands::default() };
            facts(info, "", false, demands).map(drop).map_err(|error| error.kind())
        };
        assert_eq!(judged("redis_version:7.0.15\r\naof_enabled:1"), Err(ErrorKind::Unsupported));
        assert_eq!(judged("redis_version:7.2.0\r\naof_enabled:0"), Err(ErrorKind::UnsafeStore));
        assert_eq!(judged("redis_version:7.2.0\r\naof_enabled:1"), Ok(()));
        assert_eq!(judged(""), Ok(()));
    }
}
