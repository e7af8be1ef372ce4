//! An administrator's actions on the sessions of a Postgres.

use super::error::ServerError;
use super::postgres::PostgresServer;

/// Terminates sessions, and waits for the end of each for at most 5 s.
const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

impl PostgresServer {
    /// Ends all sessions but its own (`pg_terminate_backend`). Returns their number, after they
    /// have ended.
    ///
    /// # Errors
    ///
    /// As [`sql`](Self::sql).
    pub fn terminate_sessions(&self) -> Result<u64, ServerError> {
        self.count(TERMINATE)
    }

    /// Ends the sessions with this `application_name`. Returns their number, after they have ended.
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
