//! Inspecting and unlocking mutexes of other processes, over the callers' own connections.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::types::Uuid;
use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::Force;
use stanchion_core::{Error, Holder, Kind, Name, Result};

use super::application_name::is_lock_session;
use super::lock_sessions::LockSessions;
use super::messages::token_of;
use super::reply::wait_for_reply;
use crate::context::Context;
use crate::error;
use crate::pool::Pool;
use crate::schema::Statement;
use crate::steps::{StatementArguments, column, ticket};

/// How long another process may take to unlock a mutex on request before its session is ended.
const FORCE_UNLOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between two checks of whether it has.
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The statements about lock sessions of other processes.
#[derive(Debug)]
pub(super) struct PeerSessions {
    pool: Arc<Pool>,
    namespace: Arc<str>,
    holders: Statement,
    force_unlock: Statement,
    answers: Statement,
    end: Statement,
    ping: Statement,
}

impl PeerSessions {
    pub(super) fn new(context: &Context, pool: Arc<Pool>) -> Self {
        let statement = |text| context.schema.statement(text);
        Self {
            pool,
            namespace: Arc::clone(&context.namespace),
            holders: statement(include_str!("../sql/session_holders.sql")),
            force_unlock: statement(include_str!("../sql/session_evict.sql")),
            answers: statement(include_str!("../sql/session_answers.sql")),
            end: statement(include_str!("../sql/session_end.sql")),
            ping: statement(include_str!("../sql/session_ping.sql")),
        }
    }

    fn arguments(&self, name: &Name) -> StatementArguments {
        StatementArguments::default().with(&*self.namespace).with(name.as_str())
    }

    async fn rows(&self, statement: &Statement, arguments: StatementArguments) -> Result<Vec<PgRow>> {
        let end = now() + self.pool.request_timeout();
        self.pool.rows_of_call(statement, arguments.complete()?, end).await
    }

    /// Returns the only row of the answer.
    async fn row(&self, statement: &Statement, arguments: StatementArguments) -> Result<PgRow> {
        self.rows(statement, arguments).await?.into_iter().next().ok_or_else(error::unexpected)
    }

    /// Returns the lock sessions of other processes that hold a mutex, with the records of their
    /// holds.
    async fn peer_holders(&self, lock_sessions: &LockSessions, name: &Name) -> Result<Vec<(i32, Holder)>> {
        let rows = self.rows(&self.holders, self.arguments(name)).await?;
        let own_pids = lock_sessions.with(|state| state.outbound.pids().collect::<Vec<_>>());
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let (pid, application, holds): (_, &str, bool) =
                (column(&row, 0)?, column(&row, 1)?, column(&row, 2)?);
            if holds && !own_pids.contains(&pid) && is_lock_session(application) {
                found.push((pid, recorded_holder(&row)?));
            }
        }
        Ok(found)
    }

    /// Returns the holders of a mutex. A hold of another process has no record in its first second:
    /// then only its existence is known.
    pub(super) async fn holders(&self, lock_sessions: &LockSessions, name: &Name) -> Result<Vec<Holder>> {
        let found = self.peer_holders(lock_sessions, name).await?;
        if let Some(own) = lock_sessions.with(|state| state.own_holder(name)) {
            return Ok(vec![own]);
        }
        Ok(found.into_iter().map(|(_, holder)| holder).collect())
    }

    /// Unlocks a mutex by force, whichever process holds it. Returns the number of unlocked holds.
    pub(super) async fn force(&self, lock_sessions: &LockSessions, name: &Name, force: Force) -> Result<u32> {
        let freed = lock_sessions.with(|state| state.force_own(name, force));
        if let Some(answer) = freed {
            return wait_for_reply(answer, now() + lock_sessions.request_timeout).await.map(|_| 1);
        }
        let mut found = self.peer_holders(lock_sessions, name).await?;
        // The last token that the request concerns.
        let mut bound = None;
        if let Force::One(ticket) = force {
            found.retain(|(_, holder)| holder.ticket == Some(ticket));
            bound = found.first().and_then(|(_, holder)| holder.token).map(i64::from);
        }
        let holders: Vec<_> = found.into_iter().map(|(pid, _)| pid).collect();
        if holders.is_empty() {
            return Ok(0);
        }
        let count = u32::try_from(holders.len()).unwrap_or(u32::MAX);
        let requests = self.request_unlock(name, holders, bound).await?;
        // From here on a session may have unlocked it.
        let ended = self.ended(lock_sessions, name, (force, bound), requests).await;
        let Some(ended) = ended.map_err(Error::partly_forced)? else { return Ok(0) };
        tracing::debug!(
            stanchion.kind = Kind::Mutex.as_str(),
            stanchion.name = name.as_str(),
            stanchion.freed = ended,
            "a mutex was freed by force"
        );
        Ok(count)
    }

    /// Waits until the requests to unlock a mutex are answered, and ends the sessions that do not
    /// answer in time. Returns how many it ended; `None` if the one hold that is meant was granted
    /// after the call began.
    async fn ended(
        &self,
        lock_sessions: &LockSessions,
        name: &Name,
        (force, bound): (Force, Option<i64>),
        mut requests: Vec<i64>,
    ) -> Result<Option<i64>> {
        let mut asked_again = Vec::new();
        let end = now() + FORCE_UNLOCK_TIMEOUT.min(lock_sessions.request_timeout / 2);
        while now() < end {
            let (silent, mut later) = self.unlock_answers(name, std::mem::take(&mut requests)).await?;
            requests = silent;
            if force != Force::All && !later.is_empty() {
                return Ok(None);
            }
            // A session that had no token yet at the first request is asked again. A session that
            // declines twice was granted the mutex after this call began.
            later.retain(|pid| !asked_again.contains(pid));
            if !later.is_empty() {
                asked_again.extend(&later);
                requests.extend(self.request_unlock(name, later, bound).await?);
            }
            if requests.is_empty() {
                break;
            }
            sleep(ANSWER_POLL_INTERVAL).await;
        }
        column(&self.row(&self.end, self.arguments(name).with(requests)).await?, 0).map(Some)
    }

    /// Requests that sessions unlock a mutex, if their grant has a token up to `bound`. Returns the
    /// ids of the requests.
    async fn request_unlock(&self, name: &Name, pids: Vec<i32>, bound: Option<i64>) -> Result<Vec<i64>> {
        let arguments = self.arguments(name).with(pids).with(bound);
        column(&self.row(&self.force_unlock, arguments).await?, 0)
    }

    /// Returns, of the sessions that still hold the mutex, the unanswered requests, and the process
    /// ids of sessions that declined.
    async fn unlock_answers(&self, name: &Name, requests: Vec<i64>) -> Result<(Vec<i64>, Vec<i32>)> {
        let row = self.row(&self.answers, self.arguments(name).with(requests)).await?;
        let (silent, later): (Option<_>, Option<_>) = (column(&row, 0)?, column(&row, 1)?);
        Ok((silent.unwrap_or_default(), later.unwrap_or_default()))
    }

    pub(super) async fn ping(&self) -> Result<()> {
        self.rows(&self.ping, StatementArguments::default()).await.map(drop)
    }
}

/// Reads the record of a hold.
fn recorded_holder(row: &PgRow) -> Result<Holder> {
    let (held_by, token, age): (Option<Uuid>, Option<i64>, Option<i64>) =
        (column(row, 3)?, column(row, 4)?, column(row, 5)?);
    let mut holder = Holder::unknown(1);
    holder.ticket = held_by.map(ticket);
    holder.token = token.and_then(token_of);
    holder.age = age.map(|age| Duration::from_micros(u64::try_from(age).unwrap_or_default()));
    holder.label = column(row, 6)?;
    Ok(holder)
}
