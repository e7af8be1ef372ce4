//! Where the server is, how it lets us in, and what a session of ours is set to.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions, Connection, PgConnection};
use stanchion_core::Result;
use tokio::time::timeout;

use crate::error;
use crate::schema::{Schema, Statement};

/// How long one attempt to connect may take at least: what met an outage must not outlast it by more.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(1);
/// How long a transaction may wait for its client at most, with its locks.
const LONGEST_IDLE: Duration = Duration::from_secs(1);
/// A session whose client is gone ends within idle + count × interval seconds, also when the link was cut.
const KEEPALIVES: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "15"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];

/// How requests reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By sessions of our own, set up when they begin.
    Direct,
    /// Through a transaction pooler: the next transaction may run in another session, so each is set up by itself.
    Pooled,
}

/// Where the server is and how it lets us in. It holds a password.
#[derive(Clone)]
pub(crate) enum Access {
    /// As a URL says.
    Own(Box<PgConnectOptions>),
    /// As a pool of the user's does.
    Given(PgPool),
}

impl Access {
    /// As the user has it, but for what this crate never needs: floats, and a log of its statements.
    pub(crate) fn options(&self) -> PgConnectOptions {
        let options = match self {
            Self::Own(options) => PgConnectOptions::clone(options),
            // Asked anew each time: it may be given another password.
            Self::Given(pool) => PgConnectOptions::clone(&pool.connect_options()),
        };
        let named = options.get_application_name().is_some();
        let options = options.extra_float_digits(None).disable_statement_logging();
        if named { options } else { options.application_name("stanchion") }
    }

    /// The address, for errors.
    fn address(&self) -> String {
        address(&self.options())
    }
}

/// Where a connection leads.
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

/// What a session of ours is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How requests reach it.
    pub(crate) way: Way,
    /// The time limit of a request.
    pub(crate) limit: Duration,
    /// A commit does not wait for the disk unless it is told to.
    pub(crate) raise: bool,
}

impl Settings {
    /// The server's own time limit of a statement: a little less than ours, so that it is the server that says that the
    /// statement was not executed.
    pub(crate) fn statement_timeout(&self) -> String {
        milliseconds(self.limit - self.limit / 10)
    }

    /// How long the server waits for the next message of a transaction of several: a request of four round trips cannot
    /// keep its time limit where one takes longer. Whoever is stopped half way keeps the rows from others for so long.
    pub(crate) fn idle_timeout(&self) -> String {
        milliseconds(LONGEST_IDLE.min(self.limit / 4))
    }

    /// What begins a transaction in a session that cannot be set up.
    pub(crate) fn begin(&self, schema: &Schema) -> Statement {
        let begin =
            if self.raise { include_str!("sql/begin_durable.sql") } else { include_str!("sql/begin.sql") };
        schema.filled(begin, &[("{limit}", &self.statement_timeout()), ("{idle}", &self.idle_timeout())])
    }

    fn of_session(&self) -> Vec<(&'static str, String)> {
        if self.way == Way::Pooled {
            return Vec::new();
        }
        let mut settings = vec![
            ("statement_timeout", self.statement_timeout()),
            ("lock_timeout", self.statement_timeout()),
            ("default_transaction_isolation", "read committed".to_owned()),
            // What each step would set for its transaction.
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

/// Makes sessions of our own.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) access: Access,
    pub(crate) settings: Settings,
}

impl Sessions {
    /// What a session is made with; more settings may be added.
    pub(crate) fn options(&self) -> PgConnectOptions {
        let settings = self.settings.of_session();
        let options = self.access.options();
        if settings.is_empty() { options } else { options.options(settings) }
    }

    /// Connects; attempts that meet silence are made again, until the caller gives up.
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

    /// Connects, within the time limit of an attempt; `None` if it met silence.
    ///
    /// # Errors
    /// Why there is no connection. Nothing was sent.
    pub(crate) async fn attempt(&self) -> Result<Option<PgConnection>> {
        let options = self.options();
        let limit = SHORTEST_ATTEMPT.max(self.settings.limit / 4);
        match timeout(limit, PgConnection::connect_with(&options)).await {
            Ok(connected) => {
                connected.map(Some).map_err(|error| error::of_connect(error, &self.access.address()))
            }
            Err(_) => {
                tracing::debug!(server = self.access.address(), "no answer to a new connection yet");
                Ok(None)
            }
        }
    }
}
