//! Checks a store when it connects: whatever would break safety (C22).

use std::collections::HashMap;

use redis::{FromRedisValue, Value};
use stanchion_core::steps::ProcessId;
use stanchion_core::{Error, ErrorKind, Result};

use crate::error;
use crate::keys::{Keyspace, LAYOUT};
use crate::route::Route;

/// Minimum version of the server, major and minor.
const MIN_VERSION: (u32, u32) = (6, 2);

/// What the server says about itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    /// Whether the server keeps what it has answered through a crash; `None` if that could not be read.
    pub(crate) survives_restart: Option<bool>,
}

impl Server {
    /// Combines two servers: what is `true` here is true of both.
    fn and(self, other: Self) -> Self {
        let survives_restart = match (self.survives_restart, other.survives_restart) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (one, other) => one.and(other),
        };
        Self { survives_restart }
    }
}

/// Checks every primary, and the namespace's layout.
///
/// # Errors
/// `UnsafeStore`, `ConfigMismatch` or `Unsupported`; `InvalidArgument` if the deployment is not of the kind that the URL
/// names; or the error of a server that could not be asked.
pub(crate) async fn servers(route: &Route, keyspace: &Keyspace) -> Result<Server> {
    let striped = route.lane(1) != route.lane(0);
    if !striped {
        route.send_command(0, &redis::cmd("PING")).await?;
    }
    let is_away =
        |error: &Error| striped && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
    let (mut all, mut away): (Option<Server>, _) = (None, None);
    for (node, answer) in route.send_to_each_primary(&redis::cmd("INFO")).await? {
        let server = match answer {
            Ok(answer) => facts(&text(answer)?, &node, striped)?,
            Err(error) if error.kind() == ErrorKind::Unauthorized => {
                tracing::warn!(
                    node,
                    "unverified: role, version and maxmemory-policy, for want of the right to INFO"
                );
                Server::default()
            }
            // The names on the other nodes can be used.
            Err(error) if is_away(&error) => {
                tracing::warn!(node, %error, "unverified: a node of the cluster does not answer");
                away = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        all = Some(all.map_or(server, |all| all.and(server)));
    }
    let server = match (all, away.is_some()) {
        (None, true) => return Err(away.unwrap_or_else(error::unexpected)),
        (Some(server), true) => server.and(Server::default()),
        (server, false) => server.unwrap_or_default(),
    };
    match layout(route, keyspace).await {
        Err(error) if away.is_some() && is_away(&error) => {
            tracing::warn!(%error, "unverified: the layout of the namespace, whose node does not answer");
        }
        checked => checked?,
    }
    match server {
        Server { survives_restart: Some(true) } => flushes(route).await,
        server => Ok(server),
    }
}

/// Asks every primary, of those that keep an append-only file, whether a write is on disk before its answer.
///
/// # Errors
/// If the primaries could not be found out.
async fn flushes(route: &Route) -> Result<Server> {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg("appendfsync");
    let mut all = Server { survives_restart: Some(true) };
    for (node, answer) in route.send_to_each_primary(&get).await? {
        let settings =
            answer.ok().and_then(|answer| HashMap::<String, String>::from_redis_value(answer).ok());
        let policy = settings.and_then(|mut settings| settings.remove("appendfsync"));
        if policy.is_none() {
            tracing::warn!(node, "unverified: appendfsync, which CONFIG GET does not tell");
        }
        all = all.and(Server { survives_restart: policy.map(|policy| policy == "always") });
    }
    Ok(all)
}

/// Checks that two routes lead to the same database.
///
/// # Errors
/// `InvalidArgument` if they do not, or the error of the one that could not be asked.
pub(crate) async fn same(one: &Route, other: &Route, keyspace: &Keyspace, process: ProcessId) -> Result<()> {
    // No waiter of this process exists yet, so that its mailbox is not in use.
    let (key, value) = (keyspace.boxes(process).swap_remove(0), process.to_string());
    let mut set = redis::cmd("SET");
    one.send_command(0, set.arg(&key).arg(&value).arg("PX").arg(10_000)).await?;
    let mut get = redis::cmd("GET");
    let found = other.send_command(0, get.arg(&key)).await?;
    let mut delete = redis::cmd("DEL");
    one.send_command(0, delete.arg(&key)).await?;
    if matches!(found, Value::BulkString(found) if found == value.as_bytes()) {
        return Ok(());
    }
    Err(Error::invalid_argument("the wake client does not lead to the database of the connection"))
}

/// Judges the answer of a node to `INFO`. `node` is its name, or empty where there is one server only.
fn facts(info: &str, node: &str, striped: bool) -> Result<Server> {
    let subject = if node.is_empty() { "the server".to_owned() } else { format!("node {node}") };
    let field = |name: &str| {
        info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':').map(str::to_owned))
    };
    if let Some(version) = field("redis_version")
        && older(&version)
    {
        let detail =
            format!("Redis {}.{} or later is needed, {subject} is {version}", MIN_VERSION.0, MIN_VERSION.1);
        return Err(Error::new(ErrorKind::Unsupported, detail));
    }
    if !striped && field("cluster_enabled").is_some_and(|enabled| enabled == "1") {
        return Err(Error::invalid_argument(
            "the server is a node of a cluster: its URL begins with redis+cluster:// or rediss+cluster://",
        ));
    }
    match field("role") {
        Some(role) if role != "master" => {
            return Err(Error::new(
                ErrorKind::UnsafeStore,
                format!("the role of {subject} is {role}, not master"),
            ));
        }
        Some(_) => {}
        None => tracing::warn!("unverified: {subject} does not tell its role"),
    }
    let evicts = field("maxmemory").is_none_or(|maxmemory| maxmemory != "0");
    match field("maxmemory_policy") {
        Some(policy) if evicts && policy != "noeviction" => {
            let detail = format!(
                "maxmemory-policy of {subject} is {policy}: it may evict holds; it must be noeviction"
            );
            return Err(Error::new(ErrorKind::UnsafeStore, detail));
        }
        Some(_) => {}
        None => tracing::warn!("unverified: {subject} does not tell its maxmemory-policy"),
    }
    Ok(Server { survives_restart: field("aof_enabled").map(|enabled| enabled == "1") })
}

/// Whether a version is below the minimum. One that cannot be read counts as new.
fn older(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < MIN_VERSION,
        _ => false,
    }
}

async fn layout(route: &Route, keyspace: &Keyspace) -> Result<()> {
    let key = keyspace.layout();
    let mut get = redis::cmd("GET");
    get.arg(&key);
    let mut found = route.send_command(0, &get).await?;
    // A server without memory refuses writes, but a namespace that is there can be used.
    if found == Value::Nil {
        let mut set = redis::cmd("SETNX");
        route.send_command(0, set.arg(&key).arg(LAYOUT)).await?;
        found = route.send_command(0, &get).await?;
    }
    let found = text(found)?;
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
        facts(&lines.join("\r\n"), "", false)
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
        assert_eq!(judged(&["redis_version:6.2.0", "role:master", "aof_enabled:1"]), Ok(Some(true)));
        assert_eq!(judged(&["redis_version:10.0", "aof_enabled:0"]), Ok(Some(false)));
        assert_eq!(judged(&["cluster_enabled:1"]), Err(ErrorKind::InvalidArgument));
        assert!(facts("cluster_enabled:1", "a:1", true).is_ok());
    }
}
