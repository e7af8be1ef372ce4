//! The address of the server, the credentials, and the settings of the store's own sessions.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions, Connection, PgConnection};
use stanchion_core::clock::timeout;
use stanchion_core::{CredentialsProvider, Result};

use crate::error;
use crate::schema::{Schema, Statement};

/// The protocol that servers should speak, as errors name it.
pub(crate) const PROTOCOL: &str = "Postgres";
/// Minimum timeout of one attempt to connect. An attempt that began in an outage ends this long after it at the latest,
/// unless a quarter of the request timeout is longer.
const MIN_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
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

/// The address of the server and the credentials. Contains a password.
#[derive(Clone)]
pub(crate) enum Access {
    /// The options of a URL, or of the user, and what gives the credentials of each connection, if they change.
    Own(Box<PgConnectOptions>, Option<CredentialsProvider>),
    /// The options of a pool that the user made.
    UserPool(PgPool),
}

impl Access {
    /// Returns the user's connect options, without the settings for floats and for a log of statements, which this
    /// crate does not need.
    pub(crate) fn options(&self) -> PgConnectOptions {
        let options = match self {
            Self::Own(options, _) => PgConnectOptions::clone(options),
            // Read each time: the user may give the pool another password.
            Self::UserPool(pool) => PgConnectOptions::clone(&pool.connect_options()),
        };
        let named = options.get_application_name().is_some();
        let options = options.extra_float_digits(None).disable_statement_logging();
        if named { options } else { options.application_name("stanchion") }
    }

    /// Returns [`options`](Self::options) with the credentials of this moment.
    ///
    /// # Errors
    /// `Unavailable` if the user's program has none.
    pub(crate) async fn login(&self) -> Result<PgConnectOptions> {
        let options = self.options();
        let Self::Own(_, Some(provider)) = self else { return Ok(options) };
        let (user, password) = provider.credentials().await?.into_parts();
        let options = options.password(&password);
        Ok(match user {
            Some(user) => options.username(&user),
            None => options,
        })
    }

    /// Returns the address, for errors.
    pub(crate) fn address(&self) -> String {
        address(&self.options())
    }
}

/// Returns the address that these options lead to.
pub(crate) fn address(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
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
            // Each step would set these two for its transaction otherwise.
            ("plan_cache_mode", "force_generic_plan".to_owned()),
            ("enable_seqscan", "off".to_owned()),
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
    /// Returns the connect options of a session, with the credentials of this moment.
    ///
    /// # Errors
    /// `Unavailable` if the user's program has no credentials.
    pub(crate) async fn options(&self) -> Result<PgConnectOptions> {
        let settings = self.settings.of_session();
        let options = self.access.login().await?;
        Ok(if settings.is_empty() { options } else { options.options(settings) })
    }

    /// Connects. An attempt without an answer is repeated until the caller gives up.
    ///
    /// # Errors
    /// As [`attempt`](Self::attempt).
    pub(crate) async fn connect(&self) -> Result<PgConnection> {
        loop {
            if let Some(connection) = self.attempt().await? {
                return Ok(connection);
            }
        }
    }

    /// Connects, within the timeout of one attempt. Returns `None` if the server did not answer.
    ///
    /// # Errors
    /// The reason why there is no connection. Nothing was sent.
    pub(crate) async fn attempt(&self) -> Result<Option<PgConnection>> {
        let attempt_timeout = MIN_ATTEMPT_TIMEOUT.max(self.settings.request_timeout / 4);
        let connected = async {
            let connected = PgConnection::connect_with(&self.options().await?).await;
            connected.map_err(|error| error::of_connect(error, &self.access.address()))
        };
        match timeout(attempt_timeout, connected).await {
            Ok(connected) => connected.map(Some),
            Err(_) => {
                tracing::debug!(
                    server = self.access.address(),
                    "the server has not answered a new connection yet"
                );
                Ok(None)
            }
        }
    }
}
