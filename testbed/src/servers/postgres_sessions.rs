//! What an administrator can do to the sessions of a Postgres.

use super::error::ServerError;
use super::postgres::PostgresServer;

/// Waits for their ends, for at most 5 s each.
const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

impl PostgresServer {
    /// Ends all sessions but that which does it (`pg_terminate_backend`); returns, when they have ended, how many.
    ///
    /// # Errors
    ///
    /// As [`sql`](Self::sql).
    pub fn terminate_sessions(&self) -> Result<u64, ServerError> {
        self.count(TERMINATE)
    }

    /// Ends the sessions with this `application_name`; returns, when they have ended, how many.
    ///
    /// # Errors
    ///
    /// As [`sql`](Self::sql).
    pub fn terminate_sessions_named(&self, application_name: &str) -> Result<u64, ServerError> {
        let literal = application_name.replace('\'', "''");
        self.count(&format!("{TERMINATE} AND application_name = '{literal}'"))
    }

    fn count(&self, sql: &str) -> Result<u64, ServerError> {
        let answer = self.sql(sql)?;
        answer.parse().map_err(|_| ServerError::Ended { program: "psql", log: answer })
    }
}
