//! A standby of a Postgres: asynchronous; a test can cut it off and promote it.

use super::error::ServerError;
use super::launch::READY_LIMIT;
use super::postgres::{PostgresOptions, PostgresServer};
use super::postgres_data;
use super::wait::wait_until;

impl PostgresServer {
    /// Starts a standby of this server, with a copy of its data and a port of its own, and waits
    /// until it answers. It follows asynchronously; [`await_standby`](Self::await_standby) waits
    /// for it.
    ///
    /// The options must be those of this server: a standby needs at least the same limits to
    /// follow.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and the errors of `pg_basebackup`.
    pub fn start_standby(&self, options: PostgresOptions) -> Result<Self, ServerError> {
        Self::start_with(options, |programs, account, folder| {
            postgres_data::copy_of(self.dir(), self.port(), programs, account, folder)
        })
    }

    /// Waits until a standby has everything that was written here so far.
    ///
    /// # Errors
    ///
    /// [`ServerError::Silent`] if it takes longer than a server may take to start.
    pub fn await_standby(&self, standby: &Self) -> Result<(), ServerError> {
        let here = self.sql("SELECT pg_current_wal_lsn()")?;
        let there = format!("SELECT coalesce(pg_last_wal_replay_lsn() >= '{here}', false)");
        until(|| standby.sql(&there).is_ok_and(|answer| answer == "t"), "the standby does not follow")
    }

    /// Stops replication to this standby: it does not get any later writes of the primary.
    ///
    /// # Errors
    ///
    /// As [`sql`](Self::sql); [`ServerError::Silent`] if it continues to follow.
    pub fn stop_following(&self) -> Result<(), ServerError> {
        self.sql("ALTER SYSTEM SET primary_conninfo = ''")?;
        self.sql("SELECT pg_reload_conf()")?;
        let follows = "SELECT count(*) FROM pg_stat_wal_receiver";
        until(|| self.sql(follows).is_ok_and(|count| count == "0"), "the standby follows on")
    }

    /// Promotes this standby to a primary. Returns when it accepts writes.
    ///
    /// # Errors
    ///
    /// As [`sql`](Self::sql); [`ServerError::Silent`] if it stays a standby.
    pub fn promote(&self) -> Result<(), ServerError> {
        self.sql("SELECT pg_promote(wait => false)")?;
        let recovers = "SELECT pg_is_in_recovery()";
        until(|| self.sql(recovers).is_ok_and(|answer| answer == "f"), "the standby is not promoted")
    }
}

fn until(is_so: impl Fn() -> bool, or_else: &str) -> Result<(), ServerError> {
    let so = wait_until(READY_LIMIT, || is_so().then_some(()));
    so.ok_or_else(|| ServerError::Silent { program: "postgres", log: or_else.to_owned() })
}
