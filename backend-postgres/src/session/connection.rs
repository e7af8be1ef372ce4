//! The connection of a lock session: its settings and its statements.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::types::Uuid;
use sqlx::{PgConnection, Postgres, Row};
use stanchion_core::spi::ProcessId;
use stanchion_core::{Error, ErrorKind, Name, Result, Ttl};

use super::application_name::application_name;
use super::messages::{Batch, BatchAnswer, ForceUnlockAnswers, ForceUnlockRequest, TryAnswer};
use super::timing::idle_session_timeout;
use crate::connector::Connector;
use crate::context::{Context, micros};
use crate::error::{self, PROTOCOL};
use crate::schema::Statement;
use crate::session_settings::{LOCK_WAIT, SEARCH_PATH};
use crate::steps::{PlaceToLeave, leave_arguments, ticket, uuid};

/// The setting of how often, in ms, the server checks whether the client of a session is still
/// connected. Servers on some systems cannot.
const CLIENT_CHECK: (&str, &str) = ("client_connection_check_interval", "250");

/// What all lock sessions of a process share: server, names, settings and statements.
pub(super) struct SessionConfig {
    connector: Connector,
    application: String,
    namespace: String,
    process: ProcessId,
    settings: Vec<(&'static str, String)>,
    open: Statement,
    step: Statement,
    try_lock: Statement,
    unlock_one: Statement,
    unlock_all: Statement,
    probe: Statement,
    answer_requests: Statement,
    leave: Statement,
    /// Retention of tokens in µs.
    retention: i64,
}

impl fmt::Debug for SessionConfig {
    /// Leaves the connect options out, which contain the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionConfig")
            .field("namespace", &self.namespace)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The open connection of a lock session.
pub(super) struct SessionConnection {
    connection: PgConnection,
    /// The index of its host.
    host: usize,
    pub(super) pid: i32,
}

impl BatchAnswer {
    fn read(row: &PgRow, request: &StepRequest) -> SqlResult<Self> {
        let answers: Vec<i64> = row.try_get(0)?;
        let first_waiters: Vec<Option<Uuid>> = row.try_get(1)?;
        let (processes, tickets): (Vec<Uuid>, Vec<Uuid>) = (row.try_get(2)?, row.try_get(3)?);
        let still_recorded: Vec<Uuid> = row.try_get(4)?;
        let split = answers.split_first_chunk::<2>().and_then(|(lock_table, answers)| {
            Some((lock_table, answers.split_at_checked(request.unlock_names.len())?))
        });
        let Some((lock_table, (unlocked, answers))) = split else { return Err(sqlx::Error::RowNotFound) };
        if answers.len() != request.lock_names.len() || first_waiters.len() != answers.len() {
            return Err(sqlx::Error::RowNotFound);
        }
        let try_answers = answers.iter().zip(first_waiters);
        Ok(Self {
            unlocked: unlocked.iter().map(|unlocked| *unlocked != 0).collect(),
            try_answers: try_answers
                .map(|(answer, first_waiter)| TryAnswer {
                    code: *answer,
                    first_waiter: first_waiter.map(ticket),
                })
                .collect(),
            next_waiters: processes.into_iter().map(ticket).zip(tickets.into_iter().map(ticket)).collect(),
            still_recorded: still_recorded.into_iter().map(ticket).collect(),
            lock_table: request.checks_lock_table.then_some((lock_table[0], lock_table[1])),
        })
    }
}

/// The arguments of a step.
#[derive(Debug)]
pub(super) struct StepRequest {
    unlock_names: Vec<Name>,
    unlock_tickets: Vec<Option<Uuid>>,
    lock_names: Vec<Name>,
    lock_tickets: Vec<Uuid>,
    /// A hold that is to be unlocked has a record, or may have one.
    any_recorded: bool,
    reads_queue: bool,
    checks_lock_table: bool,
}

impl StepRequest {
    pub(super) fn of(batch: &Batch) -> Self {
        Self {
            unlock_names: batch.unlocks.iter().map(|unlock| unlock.name.clone()).collect(),
            unlock_tickets: batch.unlocks.iter().map(|unlock| unlock.ticket.map(uuid)).collect(),
            lock_names: batch.try_locks.iter().map(|attempt| attempt.name.clone()).collect(),
            lock_tickets: batch.try_locks.iter().map(|attempt| uuid(attempt.ticket)).collect(),
            any_recorded: batch.unlocks.iter().any(|unlock| unlock.is_recorded),
            reads_queue: batch.try_locks.iter().any(|attempt| attempt.reads_queue),
            checks_lock_table: batch.checks_lock_table,
        }
    }
}

fn texts(names: &[Name]) -> Vec<&str> {
    names.iter().map(Name::as_str).collect()
}

type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;
type SqlResult<T> = std::result::Result<T, sqlx::Error>;

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// Returns the server settings of a lock session.
pub(super) fn settings(ttl: Ttl) -> Vec<(&'static str, String)> {
    // The server must not end an unreachable session before its holder has stopped relying on it:
    // the four intervals together exceed the TTL.
    let seconds = ttl.get().div_f64(4.0).as_secs_f64().ceil().max(1.0).to_string();
    let idle = millis(idle_session_timeout(ttl)).to_string();
    let text = |value: &str| value.to_owned();
    vec![
        ("idle_session_timeout", idle.clone()),
        // Advisory locks are tried and never wait, so this concerns tables alone: a table that
        // another session has locked delays no hold.
        ("lock_timeout", millis(LOCK_WAIT).to_string()),
        ("default_transaction_isolation", text("read committed")),
        ("synchronous_commit", text("off")),
        ("jit", text("off")),
        (CLIENT_CHECK.0, text(CLIENT_CHECK.1)),
        ("tcp_keepalives_idle", seconds.clone()),
        ("tcp_keepalives_interval", seconds),
        ("tcp_keepalives_count", text("4")),
        ("tcp_user_timeout", idle),
        ("search_path", text(SEARCH_PATH)),
    ]
}

impl SessionConfig {
    /// Returns the address of the server, for errors.
    pub(super) fn address(&self) -> String {
        self.connector.address()
    }

    pub(super) fn new(context: &Context, connector: &Connector, ttl: Ttl, process: ProcessId) -> Self {
        let statement = |text| context.schema.statement(text);
        Self {
            connector: connector.clone(),
            application: application_name(&connector.options(), context.process),
            namespace: context.namespace.as_ref().to_owned(),
            process,
            settings: settings(ttl),
            open: statement(include_str!("../sql/session_open.sql")),
            step: statement(include_str!("../sql/session_step.sql")),
            try_lock: statement(include_str!("../sql/session_try.sql")),
            unlock_one: statement(include_str!("../sql/session_free.sql")),
            unlock_all: statement(include_str!("../sql/session_unlock.sql")),
            probe: statement(include_str!("../sql/session_probe.sql")),
            answer_requests: statement(include_str!("../sql/session_answer.sql")),
            leave: statement(include_str!("../sql/session_leave.sql")),
            retention: micros(context.retention.tokens),
        }
    }

    /// Waits until a session may be opened, shortly after an attempt to connect that failed (C28).
    pub(super) async fn retry_allowed(&self) {
        self.connector.due().await;
    }

    /// Returns the timeout of opening a session, if a statement may take `timeout`.
    pub(super) fn open_timeout(&self, timeout: Duration) -> Duration {
        self.connector.timeout_of_all(timeout)
    }

    /// Returns whether another host takes writes in place of the session's, so that the session
    /// must end.
    pub(super) fn is_superseded(&self, connection: &SessionConnection) -> bool {
        self.connector.must_take_writes() && self.connector.has_moved(connection.host)
    }

    /// Searches in the background for another host that takes writes, if the store may use one.
    /// `timeout` is that of one server.
    pub(super) fn search_writable_host(&self, timeout: Duration) {
        if self.connector.must_take_writes() {
            self.connector.search(self.connector.timeout_of_each(timeout));
        }
    }

    /// Opens a session. `timeout` is the server's own timeout of a statement. A server that cannot
    /// look for clients that are gone does without: it ends a session that is silent.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) async fn open(&self, timeout: Duration) -> Result<SessionConnection> {
        match Box::pin(self.try_open(timeout)).await {
            Err(error) if error::refuses_setting(&error, CLIENT_CHECK.0) => {
                if !self.connector.is_unchecked().swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        name: "stanchion.server.unverified",
                        {
                            stanchion.unverified = "whether the client of a session is still there",
                            exception.message = ?error,
                        },
                        "unverified: the server cannot look for clients that are gone"
                    );
                }
                self.connector.due().await;
                Box::pin(self.try_open(timeout)).await
            }
            opened => opened,
        }
    }

    async fn try_open(&self, timeout: Duration) -> Result<SessionConnection> {
        let statement_timeout = ("statement_timeout", millis(timeout).to_string());
        let is_unchecked = self.connector.is_unchecked().load(Ordering::Relaxed);
        let known = self.settings.iter().filter(|(name, _)| !is_unchecked || *name != CLIENT_CHECK.0);
        let settings: Vec<_> = known.cloned().chain([statement_timeout]).collect();
        let configure =
            |options: PgConnectOptions| options.application_name(&self.application).options(settings.clone());
        let limit = self.connector.timeout_of_each(timeout);
        let connect = self.connector.connect_as(limit, ErrorKind::Unavailable, configure);
        let made = self.connector.attempt_if_due(connect).await?;
        let (connection, host) = made.ok_or_else(|| Error::unanswered(PROTOCOL).at(&self.address()))?;
        let (names, values): (Vec<_>, Vec<_>) = settings.into_iter().unzip();
        let opened = async {
            let mut connection = SessionConnection { connection, host, pid: 0 };
            let query = sqlx::query(self.open.sql()).bind(names).bind(values);
            connection.pid = connection.row(query).await?.try_get(0)?;
            Ok(connection)
        };
        opened.await.map_err(|error| error::of_connect(error, &self.address()))
    }
}

impl SessionConnection {
    async fn row(&mut self, query: Query<'_>) -> SqlResult<PgRow> {
        // The answer counts once the server is ready for the next statement.
        let rows = query.fetch_all(&mut self.connection).await?;
        rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)
    }

    /// Unlocks and tries to lock. A single unlock and a single try, the most frequent ones, have
    /// statements of their own.
    pub(super) async fn step(
        &mut self,
        config: &SessionConfig,
        request: StepRequest,
    ) -> SqlResult<BatchAnswer> {
        match (&*request.unlock_names, &*request.lock_names) {
            ([name], []) => {
                let query = sqlx::query(config.unlock_one.sql()).bind(&*config.namespace);
                let query =
                    query.bind(name.as_str()).bind(request.unlock_tickets[0]).bind(request.any_recorded);
                let row = self.row(query).await?;
                let first: (Option<Uuid>, Option<Uuid>) = (row.try_get(1)?, row.try_get(2)?);
                let next_waiters = first.0.map(ticket).zip(first.1.map(ticket)).into_iter().collect();
                let is_still_recorded: bool = row.try_get(3)?;
                let still_recorded =
                    request.unlock_tickets[0].filter(|_| is_still_recorded).map(ticket).into_iter().collect();
                Ok(BatchAnswer {
                    unlocked: vec![row.try_get(0)?],
                    next_waiters,
                    still_recorded,
                    ..BatchAnswer::default()
                })
            }
            ([], [name]) if !request.reads_queue && !request.checks_lock_table => {
                let query = sqlx::query(config.try_lock.sql()).bind(&*config.namespace).bind(name.as_str());
                let code = self.row(query).await?.try_get(0)?;
                Ok(BatchAnswer {
                    try_answers: vec![TryAnswer { code, first_waiter: None }],
                    ..BatchAnswer::default()
                })
            }
            (unlock_names, lock_names) => {
                let query =
                    sqlx::query(config.step.sql()).bind(&*config.namespace).bind(uuid(config.process));
                let query = query.bind(texts(unlock_names)).bind(&*request.unlock_tickets);
                let query =
                    query.bind(texts(lock_names)).bind(&*request.lock_tickets).bind(request.any_recorded);
                let query = query.bind(request.checks_lock_table);
                BatchAnswer::read(&self.row(query).await?, &request)
            }
        }
    }

    /// Unlocks names, whether or not they are locked.
    pub(super) async fn unlock_all(&mut self, config: &SessionConfig, names: &[Name]) -> SqlResult<()> {
        let query = sqlx::query(config.unlock_all.sql()).bind(&*config.namespace).bind(texts(names));
        self.row(query).await.map(drop)
    }

    /// Leaves places in the queue, except those whose rows another session has locked. Returns for
    /// each name, in their order, whether its place was left.
    pub(super) async fn leave(
        &mut self,
        config: &SessionConfig,
        places: &[PlaceToLeave],
    ) -> SqlResult<Vec<bool>> {
        let arguments = leave_arguments(&config.namespace, config.retention, places, false);
        let arguments = arguments.map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        self.row(sqlx::query_with(config.leave.sql(), arguments)).await?.try_get(0)
    }

    /// Shows the server that the session is alive, and answers requests of other processes. Returns
    /// the requests to unlock a mutex by force, and whether the server takes writes.
    pub(super) async fn probe(
        &mut self,
        config: &SessionConfig,
        answers: &ForceUnlockAnswers,
    ) -> SqlResult<(Vec<ForceUnlockRequest>, bool)> {
        if !answers.is_empty() {
            let query =
                sqlx::query(config.answer_requests.sql()).bind(&*answers.accepted).bind(&*answers.declined);
            query.execute(&mut self.connection).await?;
        }
        let row = self.row(sqlx::query(config.probe.sql()).bind(&*config.namespace)).await?;
        let ids: Option<Vec<i64>> = row.try_get(0)?;
        let names: Option<Vec<String>> = row.try_get(1)?;
        let tokens: Option<Vec<i64>> = row.try_get(2)?;
        let rows =
            ids.into_iter().flatten().zip(names.into_iter().flatten()).zip(tokens.into_iter().flatten());
        let requests = rows.map(|((id, name), token)| ForceUnlockRequest { id, name, token }).collect();
        Ok((requests, row.try_get(3)?))
    }
}
