//! What is looked at when a store connects: whatever would break safety (C22).

use std::time::Duration;

use redis::Value;
use stanchion_core::{Error, ErrorKind, Result};

use crate::error;
use crate::keys::{Keyspace, LAYOUT};
use crate::link::Link;

const OLDEST: (u32, u32) = (6, 2);

/// What the server says about itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    /// Whether it keeps its data through a restart; `None` if that could not be read.
    pub(crate) survives_restart: Option<bool>,
}

/// Checks the server and the namespace's layout.
///
/// # Errors
/// `UnsafeStore`, `ConfigMismatch`, `Unsupported`, or why the server could not be asked.
pub(crate) async fn server(link: &Link, keyspace: &Keyspace) -> Result<Server> {
    let limit = link.limit();
    link.send(&redis::cmd("PING"), limit).await?;
    let server = match link.send(&redis::cmd("INFO"), limit).await {
        Ok(answer) => facts(&text(answer)?)?,
        Err(error) if error.kind() == ErrorKind::Unauthorized => {
            tracing::warn!("unverified: role, version and maxmemory-policy, for want of the right to INFO");
            Server::default()
        }
        Err(error) => return Err(error),
    };
    layout(link, keyspace, limit).await?;
    Ok(server)
}

fn facts(info: &str) -> Result<Server> {
    let field = |name: &str| {
        info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':').map(str::to_owned))
    };
    if let Some(version) = field("redis_version")
        && older(&version)
    {
        let detail = format!("Redis {}.{} or later is needed, this is {version}", OLDEST.0, OLDEST.1);
        return Err(Error::new(ErrorKind::Unsupported, detail));
    }
    if field("cluster_enabled").is_some_and(|enabled| enabled == "1") {
        let detail = "the server is a node of a cluster, which this store does not offer yet";
        return Err(Error::new(ErrorKind::Unsupported, detail));
    }
    match field("role") {
        Some(role) if role != "master" => {
            return Err(Error::new(
                ErrorKind::UnsafeStore,
                format!("the server's role is {role}, not master"),
            ));
        }
        Some(_) => {}
        None => tracing::warn!("unverified: the server does not tell its role"),
    }
    let evicts = field("maxmemory").is_none_or(|maxmemory| maxmemory != "0");
    match field("maxmemory_policy") {
        Some(policy) if evicts && policy != "noeviction" => {
            let detail =
                format!("maxmemory-policy is {policy}: the server may evict holds; it must be noeviction");
            return Err(Error::new(ErrorKind::UnsafeStore, detail));
        }
        Some(_) => {}
        None => tracing::warn!("unverified: the server does not tell its maxmemory-policy"),
    }
    Ok(Server { survives_restart: field("aof_enabled").map(|enabled| enabled == "1") })
}

/// A version that cannot be read counts as new.
fn older(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < OLDEST,
        _ => false,
    }
}

async fn layout(link: &Link, keyspace: &Keyspace, limit: Duration) -> Result<()> {
    let key = keyspace.layout();
    let mut set = redis::cmd("SETNX");
    link.send(set.arg(&key).arg(LAYOUT), limit).await?;
    let mut get = redis::cmd("GET");
    let found = text(link.send(get.arg(&key), limit).await?)?;
    if found == LAYOUT {
        return Ok(());
    }
    let namespace = keyspace.namespace();
    let detail = format!("namespace {namespace} has layout {found:.20}, this version writes layout {LAYOUT}");
    Err(Error::new(ErrorKind::ConfigMismatch, detail))
}

fn text(answer: Value) -> Result<String> {
    match answer {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Ok(text),
        _ => Err(error::unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &[&str]) -> std::result::Result<Option<bool>, ErrorKind> {
        facts(&lines.join("\r\n")).map(|server| server.survives_restart).map_err(|error| error.kind())
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
        assert_eq!(judged(&["redis_version:6.2.0", "role:master", "aof_enabled:1"]), Ok(Some(true)));
        assert_eq!(judged(&["redis_version:10.0", "aof_enabled:0"]), Ok(Some(false)));
        assert_eq!(judged(&["cluster_enabled:1"]), Err(ErrorKind::Unsupported));
    }
}
