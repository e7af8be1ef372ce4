//! Checks a store when it connects, and each connection that it makes later: whatever would break
//! safety (C22).

mod info;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use redis::{FromRedisValue, RedisResult, ServerErrorKind, Value};
use stanchion_core::clock::now;
use stanchion_core::spi::ProcessId;
use stanchion_core::{Error, ErrorKind, Result};

pub(crate) use self::info::{Demands, Server};
use self::info::{facts, field, judge, unverified};
use crate::connection::{Connection, ConnectionCheck};
use crate::error;
use crate::keys::{Keyspace, LAYOUT};
use crate::route::Route;

/// What a later connection of a store has to find at its server: what the first ones found.
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
}

/// What the user has no right to read was logged when the store connected.
#[async_trait]
impl ConnectionCheck for Expected {
    /// # Errors
    /// `UnsafeStore`, `ConfigMismatch` or `Unsupported`; `Unavailable` if the server is not a
    /// primary any more.
    async fn check(&self, connection: &mut Connection) -> Result<()> {
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
        let answers = connection.exchange(&questions).await.map_err(error::of_question)?;
        let mut answers = answers.into_iter();
        if let Some(info) = readable(answers.next())? {
            let info = text(info)?;
            // A node of a cluster that is not a primary says so with each answer.
            if !self.in_cluster && field(&info, "role").is_some_and(|role| role != "master") {
                return Err(Error::new(ErrorKind::Unavailable, "the server is a replica now, and READONLY"));
            }
            judge(&info, "the server", self.demands)?;
        }
        for keyspace in keyspaces {
            match readable(answers.next())? {
                Some(Value::Nil) => {
                    // The data are lost. A server that refuses writes refuses those of the
                    // requests, too.
                    let mut set = redis::cmd("SETNX");
                    set.arg(keyspace.layout()).arg(LAYOUT);
                    connection.exchange(&[set]).await.map(drop).map_err(error::of_question)?;
                }
                Some(found) => is_ours(&text(found)?, keyspace.namespace())?,
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns an answer; `None` if the user has no right to it, or if another node of a cluster has
/// it.
///
/// # Errors
/// Any other refusal: a server that loads its data or runs a script cannot be judged yet.
fn readable(answer: Option<RedisResult<Value>>) -> Result<Option<Value>> {
    match answer {
        None => Err(error::unexpected()),
        Some(Ok(answer)) => Ok(Some(answer)),
        Some(Err(error)) if error.is_cluster_error() => Ok(None),
        Some(Err(error)) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoPerm) => Ok(None),
        Some(Err(error)) => Err(error::of_question(error)),
    }
}

/// Checks every primary, and the namespace's layout. Connecting and each answer have the time
/// `limit`.
///
/// # Errors
/// `UnsafeStore`, `ConfigMismatch` or `Unsupported`; `InvalidArgument` if the deployment is not of
/// the kind that the URL names; or the error of a server that could not be asked.
pub(crate) async fn servers(
    route: &Route,
    keyspace: &Keyspace,
    demands: Demands,
    limit: Duration,
) -> Result<Server> {
    let striped = !route.has_all_stripes();
    if !striped {
        route.send(0, &redis::cmd("PING").into(), now() + limit).await?;
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

/// Asks every primary, of those that keep an append-only file, whether a write is on disk before
/// its answer.
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

/// Returns whether the user may wait for wake-ups, and the server knows how. If not, it is logged:
/// waiters ask once a second then. The layout of the namespace was checked.
pub(crate) async fn may_wait(route: &Route, keyspace: &Keyspace) -> bool {
    // It is no list, so that the answer comes at once.
    let mut pop = redis::cmd("BLPOP");
    match route.send_command(0, pop.arg(keyspace.layout()).arg("0.01")).await {
        Err(error) if matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Unsupported) => {
            tracing::warn!(
                name: "stanchion.wake_ups.missing",
                {
                    stanchion.store = "redis",
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                },
                "no wake-ups: waiters ask once a second"
            );
            false
        }
        // Anything else is for those who wait.
        _ => true,
    }
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
