//! Checks a store when it connects, and each connection that it makes later: whatever would break safety (C22).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult, ServerErrorKind, Value};
use stanchion_core::clock::now;
use stanchion_core::observe::events::server_fields;
use stanchion_core::spi::ProcessId;
use stanchion_core::{Error, ErrorKind, Result};

use crate::error;
use crate::keys::{Keyspace, LAYOUT};
use crate::request::{Request, exchange};
use crate::route::Route;

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

/// What the connections of a store have to find that it makes after it was checked: what the first ones found.
#[derive(Debug)]
pub(crate) struct Expected {
    keyspaces: Mutex<Vec<Weak<Keyspace>>>,
    in_cluster: bool,
    demands: Demands,
    is_checked: AtomicBool,
}

impl Expected {
    pub(crate) fn new(in_cluster: bool, demands: Demands) -> Self {
        let (keyspaces, is_checked) = (Mutex::default(), AtomicBool::new(false));
        Self { keyspaces, in_cluster, demands, is_checked }
    }

    /// Notes that the servers and this namespace were checked.
    pub(crate) fn begin(&self, keyspace: &Arc<Keyspace>) {
        let mut keyspaces = self.keyspaces();
        keyspaces.retain(|other| other.strong_count() > 0);
        keyspaces.push(Arc::downgrade(keyspace));
        drop(keyspaces);
        self.is_checked.store(true, Ordering::Relaxed);
    }

    fn keyspaces(&self) -> MutexGuard<'_, Vec<Weak<Keyspace>>> {
        self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the server of a new connection. What the user has no right to read was logged when the store connected.
    ///
    /// # Errors
    /// `UnsafeStore`, `ConfigMismatch` or `Unsupported`; `Unavailable` if the server is not a primary any more.
    pub(crate) async fn check(&self, connection: &mut MultiplexedConnection) -> Result<()> {
        if !self.is_checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let keyspaces: Vec<_> = self.keyspaces().iter().filter_map(Weak::upgrade).collect();
        let mut questions = vec![redis::cmd("INFO")];
        questions.extend(keyspaces.iter().map(|keyspace| {
            let mut get = redis::cmd("GET");
            get.arg(keyspace.layout());
            get
        }));
        let answers = exchange(connection, &questions).await.map_err(error::of_question)?;
        let mut answers = answers.into_iter();
        if let Some(info) = known(answers.next())? {
            let info = text(info)?;
            // A node of a cluster that is not a primary says so with each answer.
            if !self.in_cluster && field(&info, "role").is_some_and(|role| role != "master") {
                return Err(Error::new(ErrorKind::Unavailable, "the server is a replica now, and READONLY"));
            }
            judge(&info, "the server", self.demands)?;
        }
        for keyspace in keyspaces {
            match known(answers.next())? {
                Some(Value::Nil) => {
                    // The data are lost. A server that refuses writes refuses those of the requests, too.
                    let mut set = redis::cmd("SETNX");
                    set.arg(keyspace.layout()).arg(LAYOUT);
                    exchange(connection, &[set]).await.map(drop).map_err(error::of_question)?;
                }
                Some(found) => is_ours(&text(found)?, keyspace.namespace())?,
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns an answer; `None` if the user has no right to it, or if another node of a cluster has it.
///
/// # Errors
/// Any other refusal: a server that loads its data or runs a script cannot be judged yet.
fn known(answer: Option<RedisResult<Value>>) -> Result<Option<Value>> {
    match answer {
        None => Err(error::unexpected()),
        Some(Ok(answer)) => Ok(Some(answer)),
        Some(Err(error)) if error.is_cluster_error() => Ok(None),
        Some(Err(error)) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoPerm) => Ok(None),
        Some(Err(error)) => Err(error::of_question(error)),
    }
}

/// Checks every primary, and the namespace's layout. Connecting and each answer have the time `limit`.
///
/// # Errors
/// `UnsafeStore`, `ConfigMismatch` or `Unsupported`; `InvalidArgument` if the deployment is not of the kind that the URL
/// names; or the error of a server that could not be asked.
pub(crate) async fn servers(
    route: &Route,
    keyspace: &Keyspace,
    demands: Demands,
    limit: Duration,
) -> Result<Server> {
    let striped = !route.has_all_stripes();
    if !striped {
        route.send(0, Request::Command(&redis::cmd("PING")), now() + limit).await?;
    }
    let is_away =
        |error: &Error| striped && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
    let (mut all, mut away): (Option<Server>, _) = (None, None);
    for (node, answer) in route.send_to_each_primary(&redis::cmd("INFO"), limit).await? {
        let server = match answer {
            Ok(answer) => facts(&text(answer)?, &node, striped, demands)?,
            Err(error) if error.kind() == ErrorKind::Unauthorized => {
                unverified("role, version and maxmemory-policy", &node, Some(&error));
                Server::default()
            }
            // The names on the other nodes can be used.
            Err(error) if is_away(&error) => {
                unverified("a node of the cluster", &node, Some(&error));
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
            unverified("the layout of the namespace", "", Some(&error));
        }
        checked => checked?,
    }
    match server {
        Server { survives_restart: Some(true) } => flushes(route, limit).await,
        server => Ok(server),
    }
}

/// Asks every primary, of those that keep an append-only file, whether a write is on disk before its answer.
///
/// # Errors
/// If the primaries could not be found out.
async fn flushes(route: &Route, limit: Duration) -> Result<Server> {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg("appendfsync");
    let mut all = Server { survives_restart: Some(true) };
    for (node, answer) in route.send_to_each_primary(&get, limit).await? {
        let settings =
            answer.ok().and_then(|answer| HashMap::<String, String>::from_redis_value(answer).ok());
        let policy = settings.and_then(|mut settings| settings.remove("appendfsync"));
        if policy.is_none() {
            unverified("appendfsync", &node, None);
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

/// Tells what could not be checked. `node` is its address, or empty where there is one server only.
fn unverified(what: &'static str, node: &str, error: Option<&Error>) {
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

/// Judges the answer of a node to `INFO`. `node` is its name, or empty where there is one server only.
fn facts(info: &str, node: &str, striped: bool, demands: Demands) -> Result<Server> {
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

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

/// Checks what a server tells of itself.
fn judge(info: &str, subject: &str, demands: Demands) -> Result<()> {
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

/// Checks the layout of a namespace, and writes that of a new one.
///
/// # Errors
/// `ConfigMismatch` for another layout, or the error of a server that could not be asked.
pub(crate) async fn layout(route: &Route, keyspace: &Keyspace) -> Result<()> {
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
    is_ours(&text(found)?, keyspace.namespace())
}

/// Checks what the layout of a namespace is said to be.
fn is_ours(found: &str, namespace: &str) -> Result<()> {
    if found == LAYOUT {
        return Ok(());
    }
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
