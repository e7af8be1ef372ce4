//! The settings of the store's own sessions, and the route that requests take to the server.

use std::time::Duration;

use crate::schema::{Schema, Statement};

/// Maximum time for which a transaction waits for the next message of its client. It keeps its
/// locks meanwhile.
const MAX_IDLE_IN_TRANSACTION: Duration = Duration::from_secs(1);
/// Timeout of a step's wait for a row. The functions set it, too, in a session whose own timeout is
/// longer.
pub(crate) const LOCK_WAIT: Duration = Duration::from_millis(100);
/// Pause between two attempts at what somebody else has locked, or has not left yet.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Where our sessions look for functions: not in a schema that others may write.
pub(crate) const SEARCH_PATH: &str = "pg_catalog,pg_temp";
/// Keepalive settings, in seconds. A session whose client is gone ends within idle + count ×
/// interval, also if the network was cut.
const KEEPALIVES: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "15"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];

/// The route of requests to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// In sessions of the store's own, which get their settings when they begin.
    Direct,
    /// Through a transaction pooler. The next transaction may run in another session, so each
    /// transaction sets itself up.
    Pooled,
}

/// The settings of the store's own sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionSettings {
    pub(crate) route: Route,
    /// Timeout of a request.
    pub(crate) request_timeout: Duration,
    /// Timeout of a step's wait for a row.
    pub(crate) lock_wait: Duration,
    /// Whether `synchronous_commit` is set to `on`, because by the server's settings a commit does
    /// not wait for the disk.
    pub(crate) raise: bool,
}

impl SessionSettings {
    /// Returns the settings before the server was asked.
    pub(crate) fn new(request_timeout: Duration) -> Self {
        Self { route: Route::Direct, request_timeout, lock_wait: LOCK_WAIT, raise: false }
    }

    /// Returns the timeout at the server of one statement. It is a little less than the request
    /// timeout, so that the server reports that the statement was not executed.
    pub(crate) fn statement_timeout(&self) -> String {
        milliseconds(self.request_timeout - self.request_timeout / 10)
    }

    /// Returns how long the server waits for the next message of a transaction. A request of four
    /// round trips cannot keep its timeout if one of them takes longer than a quarter of it. A
    /// process that is stopped within a transaction blocks its rows for this time.
    fn idle_timeout(&self) -> String {
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

    /// Returns how long a step waits for a row: what somebody else does with it must not delay the
    /// other names.
    fn lock_timeout(&self) -> String {
        milliseconds(self.lock_wait.min(self.request_timeout / 4))
    }

    /// Returns the parameters with which a session starts. A pooler refuses them, or drops them.
    pub(crate) fn start_up(&self) -> Vec<(&'static str, String)> {
        if self.route == Route::Pooled {
            return Vec::new();
        }
        let mut settings = vec![
            ("statement_timeout", self.statement_timeout()),
            ("lock_timeout", self.lock_timeout()),
            ("default_transaction_isolation", "read committed".to_owned()),
            // A function or operator of a schema that others may write must not be taken for the
            // server's.
            ("search_path", SEARCH_PATH.to_owned()),
            // Each step would set these for its transaction otherwise.
            ("plan_cache_mode", "force_generic_plan".to_owned()),
            ("enable_seqscan", "off".to_owned()),
            ("enable_sort", "off".to_owned()),
            ("enable_incremental_sort", "off".to_owned()),
            ("enable_bitmapscan", "off".to_owned()),
            ("jit", "off".to_owned()),
            // A connection may be idle for longer than a role's setting allows.
            ("idle_session_timeout", "0".to_owned()),
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
