//! Checks, when a store connects, whether the server and its settings are safe (C22).

use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sqlx::postgres::{PgConnectOptions, PgRow, PgSslMode};
use sqlx::{PgConnection, Row, raw_sql};
use stanchion_core::observe::events::server_fields;
use stanchion_core::{Error, ErrorKind, MutexMode, Result};

use crate::connector::backend_pid;
use crate::error;
use crate::migrate;
use crate::schema::{LAYOUT, Schema, Statement, literal};
use crate::session_settings::{Route, SessionSettings};
use crate::writable::why_unfit;

/// Minimum version of the server, as `server_version_num`.
const MIN_VERSION: i32 = 140_000;
/// The order in which two connections are asked for their session, to see whether each keeps a
/// session of its own while the other is used. A pooler assigns the session that became free last,
/// or the next one in turn. Other clients of the pooler can make it look like two sessions once,
/// but hardly three times.
const PROBES: [usize; 12] = [0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0];

/// The server's own settings, and the settings of a session.
pub(crate) struct Facts {
    version: i32,
    standby: bool,
    read_only: String,
    encoding: String,
    pub(crate) fsync: String,
    encrypted: bool,
    pub(crate) synchronous_commit: String,
    /// In milliseconds.
    statement_timeout: String,
    isolation: String,
}

/// Whether a connection without TLS crosses a network, and nobody has said that it may.
fn is_open_by_chance(options: &PgConnectOptions) -> bool {
    let is_local = match options.get_host().parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => options.get_host() == "localhost",
    };
    let is_asked_for = matches!(options.get_ssl_mode(), PgSslMode::Disable);
    let is_socket = options.get_socket().is_some() || options.get_host().starts_with('/');
    !is_socket && !is_local && !is_asked_for
}

/// Checks whether mutexes can be kept in this mode.
///
/// # Errors
/// `UnsafeStore` for session mode through a pooler.
pub(crate) fn mode(mode: MutexMode, route: Route) -> Result<()> {
    if mode == MutexMode::Session && route == Route::Pooled {
        let detail = "a pooler stands before the server that shares sessions, or drops their settings: two clients could \
                      hold the same mutex, so use mutex=lease, or connect to the server itself";
        return Err(Error::new(ErrorKind::UnsafeStore, detail));
    }
    Ok(())
}

/// Checks whether a session has the settings that the steps need.
///
/// # Errors
/// `UnsafeStore` for another isolation level, or if commits do not wait for the disk although the
/// session was made with `synchronous_commit=on`.
pub(crate) fn session(isolation: &str, synchronous_commit: &str, ours: bool) -> Result<()> {
    if isolation != "read committed" {
        let detail = format!("the sessions' isolation level is {isolation}, it must be read committed");
        return Err(Error::new(ErrorKind::UnsafeStore, detail));
    }
    if ours && synchronous_commit == "off" {
        let detail = "synchronous_commit is off and could not be raised: a crash would forget grants";
        return Err(Error::new(ErrorKind::UnsafeStore, detail));
    }
    Ok(())
}

/// Returns a mutex mode as it is written in the namespace.
pub(crate) fn written(mode: MutexMode) -> &'static str {
    if mode == MutexMode::Session { "session" } else { "lease" }
}

/// Checks what is written of a namespace.
///
/// # Errors
/// `ConfigMismatch` for another layout or mutex mode.
pub(crate) fn namespace(namespace: &str, wanted: &str, mode: &str, layout: i32) -> Result<()> {
    let mismatch = |detail| Err(Error::new(ErrorKind::ConfigMismatch, detail));
    if layout != LAYOUT {
        return mismatch(format!(
            "namespace {namespace} has layout {layout}, this version writes layout {LAYOUT}"
        ));
    }
    if mode != wanted {
        return mismatch(format!(
            "namespace {namespace} keeps its mutexes by {mode}, this store asks for mutex={wanted}"
        ));
    }
    Ok(())
}

/// What each connection of a store must find that was made after the store was connected.
#[derive(Debug)]
pub(crate) struct Expected {
    schema: Schema,
    mode: &'static str,
    /// The namespaces, each for as long as its engine lives.
    namespaces: Mutex<BTreeMap<Arc<str>, Owner>>,
}

/// Whatever lives as long as a namespace is open.
type Owner = Weak<dyn Any + Send + Sync>;

/// Namespaces of one statement at most.
const PART: usize = 100;

impl Expected {
    pub(crate) fn new(schema: &Schema, mode: MutexMode) -> Self {
        Self { schema: schema.clone(), mode: written(mode), namespaces: Mutex::default() }
    }

    /// From now on this namespace is checked, too, while its owner lives.
    pub(crate) fn begin(&self, namespace: &Arc<str>, owner: Owner) {
        self.namespaces().insert(Arc::clone(namespace), owner);
    }

    fn namespaces(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Owner>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn statement(&self, namespaces: &[Arc<str>]) -> Statement {
        let names: Vec<_> = namespaces.iter().map(|name| literal(name)).collect();
        let values = [
            ("{namespaces}", names.join(",")),
            ("{mode}", literal(self.mode)),
            ("{layout}", LAYOUT.to_string()),
        ];
        self.schema.filled(
            include_str!("sql/recheck.sql"),
            &values.each_ref().map(|(name, value)| (*name, value.as_str())),
        )
    }

    /// Checks a new connection. Where others do not let it look, it is used.
    ///
    /// # Errors
    /// `Unavailable` for a standby, which may become the primary; `ConfigMismatch` as
    /// [`namespace`], or for a schema of a later version that does not work with this one; or the
    /// reason why the server could not be asked.
    pub(crate) async fn check(&self, connection: &mut PgConnection) -> Result<()> {
        let namespaces: Vec<_> = {
            let mut all = self.namespaces();
            all.retain(|_, owner| owner.strong_count() > 0);
            all.keys().cloned().collect()
        };
        // Also without a namespace: the server may be a standby.
        let none: &[Arc<str>] = &[];
        let parts = namespaces.chunks(PART).chain(namespaces.is_empty().then_some(none));
        for part in parts {
            let rows = match raw_sql(self.statement(part).sql()).fetch_all(&mut *connection).await {
                Err(error) if error::is_held_up(&error) => {
                    tracing::debug!(
                        exception.message = %error,
                        "unverified: the settings of namespaces could not be read"
                    );
                    continue;
                }
                rows => rows.map_err(|error| error::certain(error::of_request(error)))?,
            };
            for row in &rows {
                self.judge(row)?;
            }
        }
        Ok(())
    }

    fn judge(&self, row: &PgRow) -> Result<()> {
        type Text<'a> = Option<&'a str>;
        type Found<'a> = (bool, Text<'a>, Text<'a>, Text<'a>, Option<i32>);
        let read = || {
            let (standby, oldest) = (row.try_get("standby")?, row.try_get("oldest")?);
            let (name, mode) = (row.try_get("namespace")?, row.try_get("mutex_mode")?);
            Ok((standby, oldest, name, mode, row.try_get("layout")?))
        };
        let (standby, oldest, name, mode, layout): Found<'_> =
            read().map_err(|error: sqlx::Error| error::certain(error::unexpected().with_source(error)))?;
        if let Some(why) = why_unfit(standby, "off") {
            return Err(Error::new(ErrorKind::Unavailable, why));
        }
        if let Some(oldest) = oldest {
            migrate::check_oldest(&self.schema, oldest)?;
        }
        match (name, mode, layout) {
            (Some(name), Some(mode), Some(layout)) => namespace(name, self.mode, mode, layout),
            _ => Ok(()),
        }
    }
}

impl Facts {
    fn read(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            version: row.try_get("version")?,
            standby: row.try_get("standby")?,
            read_only: row.try_get("read_only")?,
            encoding: row.try_get("encoding")?,
            fsync: row.try_get("fsync")?,
            encrypted: row.try_get("encrypted")?,
            synchronous_commit: row.try_get("synchronous_commit")?,
            statement_timeout: row.try_get("statement_timeout")?,
            isolation: row.try_get("isolation")?,
        })
    }

    /// Checks whether the server is safe.
    ///
    /// # Errors
    /// `Unsupported` for a version that is too old; `UnsafeStore` for a server that takes no
    /// writes, or would lose names.
    pub(crate) fn judge(&self) -> Result<()> {
        let refused = |kind, detail: String| Err(Error::new(kind, detail));
        if self.version < MIN_VERSION {
            let version = self.version / 10_000;
            return refused(
                ErrorKind::Unsupported,
                format!("Postgres 14 or later is needed, the server is {version}"),
            );
        }
        if let Some(why) = why_unfit(self.standby, &self.read_only) {
            return refused(ErrorKind::UnsafeStore, why.to_owned());
        }
        if self.encoding != "UTF8" {
            let detail =
                format!("server_encoding is {}, it must be UTF8: names would be lost", self.encoding);
            return refused(ErrorKind::UnsafeStore, detail);
        }
        if self.fsync != "on" {
            tracing::warn!(
                name: "stanchion.server.unsafe",
                "fsync is off: a crash of the server's machine forgets grants"
            );
        }
        Ok(())
    }

    /// Logs that the connection is not encrypted, if nobody has said that it need not be.
    pub(crate) fn log_encryption(&self, options: &PgConnectOptions, server: &str) {
        if !self.encrypted && is_open_by_chance(options) {
            let (address, port) = server_fields(server);
            tracing::warn!(
                name: "stanchion.server.unencrypted",
                {
                    server.address = address,
                    server.port = port,
                },
                "the connection is not encrypted, because the server offers no TLS and sslmode does not demand it"
            );
        }
    }

    /// Returns whether the session got the settings that it was made with. Those of its role may be
    /// others.
    pub(crate) fn are_set_up_by(&self, settings: &SessionSettings) -> bool {
        let statement_timeout = settings.statement_timeout();
        self.isolation == "read committed"
            && statement_timeout.strip_suffix("ms") == Some(&self.statement_timeout)
    }
}

/// Asks a session for its settings, and for those of the server.
///
/// # Errors
/// The reason why the server could not be asked.
pub(crate) async fn facts(connection: &mut PgConnection, schema: &Schema) -> Result<Facts> {
    let statement = schema.statement(include_str!("sql/server.sql"));
    let row = raw_sql(statement.sql()).fetch_one(connection).await;
    let row = row.map_err(|error| error::certain(error::of_request(error)))?;
    Facts::read(&row).map_err(|error| error::certain(error::unexpected().with_source(error)))
}

/// Returns whether two connections lead to a pooler, which shares sessions between them.
///
/// # Errors
/// The reason why the server could not be asked.
pub(crate) async fn is_pooled(connections: &mut [PgConnection; 2]) -> Result<bool> {
    let mut seen = [None, None];
    for which in PROBES {
        let pid = pid(&mut connections[which]).await?;
        if *seen[which].get_or_insert(pid) != pid {
            return Ok(true);
        }
    }
    Ok(seen[0] == seen[1])
}

/// Checks that each of two connections has a session of the server for a statement.
///
/// # Errors
/// The reason why the server could not be asked.
pub(crate) async fn are_served(connections: &mut [PgConnection; 2]) -> Result<()> {
    for connection in connections {
        pid(connection).await?;
    }
    Ok(())
}

/// Returns the server's process of a session.
///
/// # Errors
/// The reason why the server could not be asked.
pub(crate) async fn pid(connection: &mut PgConnection) -> Result<i32> {
    backend_pid(connection).await.map_err(|error| error::certain(error::of_request(error)))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests own their runtimes")]
mod tests {
    use stanchion_testbed::servers::{PgBouncer, PostgresOptions, PostgresServer};

    use super::*;

    fn judged(change: impl Fn(&mut Facts)) -> std::result::Result<(), ErrorKind> {
        let mut facts = Facts {
            version: MIN_VERSION,
            standby: false,
            read_only: "off".to_owned(),
            encoding: "UTF8".to_owned(),
            fsync: "on".to_owned(),
            encrypted: true,
            synchronous_commit: "on".to_owned(),
            statement_timeout: "1800".to_owned(),
            isolation: "read committed".to_owned(),
        };
        change(&mut facts);
        facts.judge().map_err(|error| error.kind())
    }

    #[test]
    fn c22_unsafe_servers_are_refused() {
        assert_eq!(judged(|_| {}), Ok(()));
        assert_eq!(judged(|facts| facts.fsync = "off".to_owned()), Ok(()));
        assert_eq!(judged(|facts| facts.version = 130_012), Err(ErrorKind::Unsupported));
        assert_eq!(judged(|facts| facts.standby = true), Err(ErrorKind::UnsafeStore));
        assert_eq!(judged(|facts| facts.read_only = "on".to_owned()), Err(ErrorKind::UnsafeStore));
        assert_eq!(judged(|facts| facts.encoding = "LATIN1".to_owned()), Err(ErrorKind::UnsafeStore));
        assert!(session("read committed", "off", false).is_ok());
        assert!(session("read committed", "off", true).is_err());
        assert!(session("serializable", "on", false).is_err());
        assert!(
            mode(MutexMode::Session, Route::Pooled).is_err() && mode(MutexMode::Lease, Route::Pooled).is_ok()
        );
    }

    #[test]
    fn a_connection_without_tls_over_a_network_is_logged() {
        let is_logged = |url: &str| is_open_by_chance(&url.parse().unwrap());
        assert!(is_logged("postgres://db.example/x") && is_logged("postgres://10.0.0.1/x?sslmode=prefer"));
        for url in
            ["postgres://localhost/x", "postgres://127.0.0.1/x", "postgres://db.example/x?sslmode=disable"]
        {
            assert!(!is_logged(url), "{url}");
        }
    }

    /// Makes two plain connections.
    async fn two(url: &str) -> [PgConnection; 2] {
        let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
        let connect = || async {
            sqlx::ConnectOptions::connect(&options.clone().extra_float_digits(None)).await.unwrap()
        };
        [connect().await, connect().await]
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn c22_a_transaction_pooler_is_not_taken_for_a_server() {
        let server = PostgresServer::start(PostgresOptions::default()).unwrap();
        for connections in [1, 3] {
            let pooler = PgBouncer::start(&server, connections, &[]).unwrap();
            for _ in 0..20 {
                assert!(is_pooled(&mut two(&pooler.url()).await).await.unwrap());
            }
        }
        for _ in 0..20 {
            assert!(!is_pooled(&mut two(&server.url()).await).await.unwrap());
        }
    }
}
