//! Connecting: the checks of the server, and the start of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::PgConnection;
use stanchion_core::clock::{sleep, timeout};
use stanchion_core::connect::NetworkOptions;
use stanchion_core::engine::Namespaces;
use stanchion_core::runtime::EngineThread;
use stanchion_core::spi::Steps;
use stanchion_core::{Capabilities, Error, ErrorKind, MutexMode, Result};
use tokio::runtime::Id;

use crate::check;
use crate::config::{Checked, PostgresBuilder};
use crate::connector::{Connector, NumberedConnection};
use crate::error::{self, PROTOCOL};
use crate::migrate;
use crate::opened::{CheckedServer, Opened, View};
use crate::schema::Schema;
use crate::session_settings::{RETRY_PAUSE, Route, SessionSettings};
use crate::store::PostgresStore;
use crate::wake::PostgresWake;

/// Maximum pause before the second attempt at a server without room.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// The steps of one process without an engine. The server was checked and is connected.
#[derive(Clone, Debug)]
pub struct StepsOfStore {
    /// The steps for callers. Leases keep mutexes, too.
    pub callers: Arc<dyn Steps>,
    /// The same steps over connections of the engine's own, which are not connected yet.
    pub own: Arc<dyn Steps>,
    /// The wake-ups, which are not connected yet.
    pub wake: Arc<PostgresWake>,
    /// What the store offers.
    pub capabilities: Capabilities,
}

impl PostgresBuilder {
    /// Connects, checks the server, makes the schema if [`migrate`](Self::migrate) is on, and
    /// starts the engine.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of range or a database that does not exist;
    /// `Unavailable` or `Unauthorized` if no server can be asked; `UnsafeStore` if the server, or
    /// each of several hosts, is a standby, read-only or not `UTF8`, if sessions are not `read
    /// committed`, if another role can change the schema's functions, or in session mode if there
    /// is a pooler before the server; `Unsupported` for a Postgres before 14; `ConfigMismatch` if
    /// the schema is newer, if it is missing or older and `migrate` is off, or if the namespace has
    /// another mutex mode or layout ([C22]).
    ///
    /// # Time limit
    /// It waits for two or three logins, for the time limit of [a request](Self::request_timeout)
    /// for each host, and then for the schema, for its owner and for the namespace, for that of a
    /// request each; in session mode also for a session, as for the logins. Where it makes the
    /// schema, or waits for another process that does, that may take 60 s more.
    ///
    /// # Cancel safety
    /// A dropped call closes its connections. It has made the whole schema or nothing of it.
    ///
    /// [C22]: stanchion_core::contract#c22
    pub async fn connect(self) -> Result<PostgresStore> {
        let NetworkOptions { namespace, drain, slow_wait, wrap, .. } = self.options.clone();
        let thread = EngineThread::start().map_err(context)?;
        let opening = thread.on(Box::pin(self.open(thread.runtime_id())));
        let (opened, view) = opening.await.map_err(context)?;
        let transactions = opened.transactions_pool(thread.runtime_id());
        let begun = opened.begun(view);
        let (opened, namespaces) =
            (Arc::new(opened), Arc::new(Namespaces::new(thread, drain, slow_wait, wrap)));
        let begun = namespaces.begin(&namespace, begun);
        Ok(PostgresStore::new(begun.map_err(context)?, opened, namespaces, transactions))
    }

    /// Connects and checks the server. Returns the steps, for callers that run them without an
    /// engine.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn steps(self) -> Result<StepsOfStore> {
        let (opened, View { context: shared, wake, .. }) = self.open(None).await.map_err(context)?;
        let [callers, own] = opened.steps(&shared);
        opened.expect(&shared.namespace, &callers);
        Ok(StepsOfStore { callers, own, wake, capabilities: opened.capabilities })
    }

    /// `engine` is the runtime of the engine's thread.
    pub(crate) async fn open(mut self, engine: Option<Id>) -> Result<(Opened, View)> {
        let checked = self.check()?;
        self.connector.forget();
        let address = self.connector.address();
        self.open_checked(checked, engine).await.map_err(|error| error.at(&address))
    }

    async fn open_checked(self, checked: Checked, engine: Option<Id>) -> Result<(Opened, View)> {
        let request_timeout = self.options.request_timeout;
        let connector = self.connector.with(SessionSettings::new(request_timeout));
        let connect_timeout = connector.timeout_of_all(request_timeout);
        let is_in = AtomicBool::new(false);
        let mut server =
            timeout(connect_timeout, check_server(connector, &checked.schema, self.mutex, &is_in))
                .await
                .map_err(|_| unanswered(is_in.load(Ordering::Relaxed)))??;
        let route = server.connector.settings.route;
        check::mode(self.mutex, route)?;
        let settings = &server.connector.settings;
        migrate::prepare(&mut server.connection.connection, &checked.schema, settings, &self.rules).await?;
        let opened = Opened::new(&self, checked, server, engine);
        let view = opened.namespace(&self.options.namespace).await?;
        opened.check_sessions(&view).await?;
        if engine.is_some() {
            opened.hand_to_engine();
        }
        Ok((opened, view))
    }
}

/// Returns the error of a check that was not through in time; `is_in`: with a first connection.
fn unanswered(is_in: bool) -> Error {
    if is_in {
        let detail = "one connection was made, and a second one was not in time: the server, or a pooler before it, has \
                      no session left, or has fallen silent";
        return Error::new(ErrorKind::Unavailable, detail);
    }
    Error::unanswered(PROTOCOL)
}

/// Connects and checks the server. Finds the route to it, and the settings that its sessions need.
/// Sets `is_in` once it has a connection.
///
/// # Errors
/// `UnsafeStore`, `Unsupported`, or the reason why the server could not be asked.
async fn check_server(
    connector: Connector,
    schema: &Schema,
    mode: MutexMode,
    is_in: &AtomicBool,
) -> Result<CheckedServer> {
    let mut settings = connector.settings;
    let mut first = match connected_once_more(&connector).await {
        Err(error) if error::refuses_settings(&error) => {
            settings.route = Route::Pooled;
            let without = connector.with(settings).connect_first().await?;
            // A refusal for the moment says nothing of the settings.
            match connector.connect_first().await {
                Ok(with) => {
                    settings.route = Route::Direct;
                    with
                }
                Err(_) => without,
            }
        }
        connected => connected?,
    };
    is_in.store(true, Ordering::Relaxed);
    let facts = check::facts(&mut first, schema).await?;
    facts.judge()?;
    settings.raise = facts.synchronous_commit == "off";
    if settings.route == Route::Direct && !facts.are_set_up_by(&settings) {
        // A pooler has dropped the settings.
        settings.route = Route::Pooled;
    }
    let second = connector.with(settings);
    let second = if mode == MutexMode::Lease {
        second.connect_first().await
    } else {
        connected_once_more(&second).await
    };
    let mut connection = match second {
        Ok(second) => {
            let mut both = [first, second];
            if settings.route == Route::Pooled {
                // Behind a pooler, too, a store needs two sessions.
                check::are_served(&mut both).await?;
            } else if check::is_pooled(&mut both).await? {
                settings.route = Route::Pooled;
            }
            let [_, second] = both;
            second
        }
        // The server itself counts its connections, so that it is no pooler that asks for more.
        Err(error) if mode == MutexMode::Lease && error::is_full(&error) => {
            if settings.raise {
                drop(first);
                connected_in_turn(&connector.with(settings)).await?
            } else {
                first
            }
        }
        Err(error) => return Err(error),
    };
    if settings.route == Route::Direct {
        facts.log_encryption(&connector.options(), &connector.address());
    }
    let survives_restart = facts.fsync == "on";
    let pid = check::pid(&mut connection).await?;
    let connection = NumberedConnection { connection, pid };
    Ok(CheckedServer { connector: connector.with(settings), survives_restart, connection })
}

/// Connects. A server without room is asked once more: processes that start together are many for a
/// moment.
async fn connected_once_more(connector: &Connector) -> Result<PgConnection> {
    match connector.connect_first().await {
        Err(error) if error::is_full(&error) => {
            let pause = FULL_PAUSE.min(connector.settings.request_timeout / 2);
            sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
            connector.connect_first().await
        }
        connected => connected,
    }
}

/// Connects as soon as the server has seen that another connection has ended.
async fn connected_in_turn(connector: &Connector) -> Result<PgConnection> {
    loop {
        match connector.connect_first().await {
            Err(error) if error::is_full(&error) => sleep(RETRY_PAUSE).await,
            connected => return connected,
        }
    }
}

fn context(error: Error) -> Error {
    error.context("connect", "postgres", "")
}
