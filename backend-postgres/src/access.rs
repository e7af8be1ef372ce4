//! The hosts of the store, the credentials, and the settings of the store's own sessions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions, PgConnection};
use stanchion_core::clock::timeout;
use stanchion_core::{CredentialsProvider, Error, ErrorKind, Result};

use crate::hosts::{Hosts, MIN_ATTEMPT_TIMEOUT, Session, State};
use crate::schema::{Schema, Statement};

/// The protocol that servers should speak, as errors name it.
pub(crate) const PROTOCOL: &str = "Postgres";
/// Maximum time for which a transaction waits for the next message of its client. It keeps its locks meanwhile.
const MAX_IDLE_IN_TRANSACTION: Duration = Duration::from_secs(1);
/// Timeout of a step's wait for a row. The functions set it, too, in a session whose own timeout is longer.
pub(crate) const LOCK_WAIT: Duration = Duration::from_millis(100);
/// Where our sessions look for functions: not in a schema that others may write.
pub(crate) const SEARCH_PATH: &str = "pg_catalog,pg_temp";
/// Keepalive settings, in seconds. A session whose client is gone ends within idle + count × interval, also if the link
/// was cut.
const KEEPALIVES: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "15"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];

/// The way on which requests reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In sessions of the store's own, which get their settings when they begin.
    Direct,
    /// Through a transaction pooler. The next transaction may run in another session, so each transaction sets itself
    /// up.
    Pooled,
}

/// The hosts and the credentials. Contains a password.
#[derive(Clone)]
pub(crate) enum Access {
    /// The hosts of a URL, or of the user's options, and what gives the credentials of each connection, if they change.
    Own(Box<Hosts>, Option<CredentialsProvider>),
    /// The options of a pool that the user made.
    UserPool(PgPool, Arc<State>),
}

impl From<PgConnectOptions> for Access {
    fn from(options: PgConnectOptions) -> Self {
        Self::Own(Box::new(options.into()), None)
    }
}

impl Access {
    pub(crate) fn hosts(&self) -> Hosts {
        match self {
            Self::Own(hosts, _) => Hosts::clone(hosts),
            // Read each time: the user may give the pool another password.
            Self::UserPool(pool, state) => {
                Hosts::one(PgConnectOptions::clone(&pool.connect_options()), state)
            }
        }
    }

    /// Forgets which host worked, which attempts failed, and what is expected: two stores share none of it.
    pub(crate) fn forget(&mut self) {
        match self {
            Self::Own(hosts, _) => hosts.forget(),
            Self::UserPool(_, state) => *state = Arc::default(),
        }
    }

    /// Returns the user's connect options of the host that is tried first.
    pub(crate) fn options(&self) -> PgConnectOptions {
        of_store(self.hosts().current().clone())
    }

    /// Connects to the first host that fits; see [`Hosts::connect`]. Each host, and the user's program that gives the
    /// credentials, has the time `limit`. Returns the session and the index of its host; `None` if none of them answered.
    ///
    /// # Errors
    /// As [`Hosts::connect`]; `Unavailable` if the user's program has no credentials.
    pub(crate) async fn connect<S: Session>(
        &self,
        limit: Duration,
        unfit: ErrorKind,
        set_up: impl Fn(PgConnectOptions) -> PgConnectOptions + Send + Sync,
    ) -> Result<Option<(S, usize)>> {
        let Ok(credentials) = timeout(limit, self.credentials()).await else { return Ok(None) };
        let credentials = credentials?;
        let login = |options| match &credentials {
            Some((user, password)) => {
                let options = of_store(options).password(password);
                if let Some(user) = user { options.username(user) } else { options }
            }
            None => of_store(options),
        };
        self.hosts().connect(limit, unfit, |options| set_up(login(options))).await
    }

    /// Returns user and password of this moment, if the user's program gives them.
    async fn credentials(&self) -> Result<Option<(Option<String>, String)>> {
        let Self::Own(_, Some(provider)) = self else { return Ok(None) };
        Ok(Some(provider.credentials().await?.into_parts()))
    }

    /// Returns the addresses, for errors.
    pub(crate) fn address(&self) -> String {
        self.hosts().address()
    }
}

/// Returns connect options without the settings for floats and for a log of statements, which this crate does not need.
fn of_store(options: PgConnectOptions) -> PgConnectOptions {
    let named = options.get_application_name().is_some();
    let options = options.extra_float_digits(None).disable_statement_logging();
    if named { options } else { options.application_name("stanchion") }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// The settings of the store's own sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The way on which requests reach the server.
    pub(crate) way: Way,
    /// Timeout of a request.
    pub(crate) request_timeout: Duration,
    /// Timeout of a step's wait for a row.
    pub(crate) lock_wait: Duration,
    /// Whether `synchronous_commit` is set to `on`, because by the server's settings a commit does not wait for the
    /// disk.
    pub(crate) raise: bool,
}

impl Settings {
    /// Returns the timeout at the server of one statement. It is a little less than the request timeout, so that the
    /// server reports that the statement was not executed.
    pub(crate) fn statement_timeout(&self) -> String {
        milliseconds(self.request_timeout - self.request_timeout / 10)
    }

    /// Returns how long the server waits for the next message of a transaction. A request of four round trips cannot
    /// keep its timeout if one of them takes longer than a quarter of it. A process that is stopped within a
    /// transaction blocks its rows for this time.
    pub(crate) fn idle_timeout(&self) -> String {
        milliseconds(MAX_IDLE_IN_TRANSACTION.min(self.request_timeout / 4))
    }

    /// Returns the statement that begins a transaction, and sets it up, in a session of a pooler.
    pub(crate) fn begin(&self, schema: &Schema) -> Statement {
        let begin =
            if self.raise { include_str!("sql/begin_durable.sql") } else { include_str!("sql/begin.sql") };
        let values = [
            ("{timeout}", self.statement_timeout()),
            ("{lock}", self.lock_timeout()),
            ("{idle}", self.idle_timeout()),
        ];
        schema.filled(begin, &values.each_ref().map(|(name, value)| (*name, value.as_str())))
    }

    /// Returns how long a step waits for a row: what somebody else does with it must not delay the other names.
    fn lock_timeout(&self) -> String {
        milliseconds(self.lock_wait.min(self.request_timeout / 4))
    }

    fn of_session(&self) -> Vec<(&'static str, String)> {
        if self.way == Way::Pooled {
            return Vec::new();
        }
        let mut settings = vec![
            ("statement_timeout", self.statement_timeout()),
            ("lock_timeout", self.lock_timeout()),
            ("default_transaction_isolation", "read committed".to_owned()),
            // A function or operator of a schema that others may write must not be taken for the server's.
            ("search_path", SEARCH_PATH.to_owned()),
            // Each step would set these for its transaction otherwise.
            ("plan_cache_mode", "force_generic_plan".to_owned()),
            ("enable_seqscan", "off".to_owned()),
            ("jit", "off".to_owned()),
        ];
        settings.extend(KEEPALIVES.map(|(name, value)| (name, value.to_owned())));
        if self.raise {
            settings.push(("synchronous_commit", "on".to_owned()));
        }
        settings
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis().max(1))
}

/// Makes the store's own sessions.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) access: Access,
    pub(crate) settings: Settings,
}

impl Sessions {
    /// Makes a session that has the settings, within `limit` for each host. There is no attempt shortly after
    /// one that failed (C28). Returns `None` if no host answered.
    ///
    /// # Errors
    /// As [`Access::connect`], also that of the last attempt; `Unavailable` if no host takes writes at present. Nothing was
    /// sent.
    pub(crate) async fn session<S: Session>(&self, limit: Duration) -> Result<Option<S>> {
        let connect = self.access.connect(limit, ErrorKind::Unavailable, |options| self.set_up(options));
        Ok(self.access.hosts().attempt(connect).await?.map(|(session, _)| session))
    }

    /// Connects for the first time. An attempt without an answer is repeated until the caller gives up.
    ///
    /// # Errors
    /// As [`Access::connect`]; `UnsafeStore` if all hosts answered and none takes writes.
    pub(crate) async fn connect(&self) -> Result<PgConnection> {
        let limit = self.attempt_timeout().min(self.settings.request_timeout);
        loop {
            let attempt = self.access.connect(limit, ErrorKind::UnsafeStore, |options| self.set_up(options));
            if let Some((connection, _)) = attempt.await? {
                return Ok(connection);
            }
        }
    }

    /// Connects, within the timeout of one attempt for each host. Returns `None` if no host answered.
    ///
    /// # Errors
    /// As [`session`](Self::session).
    pub(crate) async fn attempt(&self) -> Result<Option<PgConnection>> {
        self.session(self.attempt_timeout()).await
    }

    /// Returns the error of a caller that waited in vain: that of the last attempt, or that no host answered.
    pub(crate) fn unconnected(&self) -> Error {
        let last = self.access.hosts().last_error();
        last.unwrap_or_else(|| Error::unanswered(PROTOCOL)).at(&self.access.address())
    }

    fn set_up(&self, options: PgConnectOptions) -> PgConnectOptions {
        let settings = self.settings.of_session();
        if settings.is_empty() { options } else { options.options(settings) }
    }

    fn attempt_timeout(&self) -> Duration {
        MIN_ATTEMPT_TIMEOUT.max(self.settings.request_timeout / 4)
    }
}
