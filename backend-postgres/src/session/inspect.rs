//! Inspecting and unlocking mutexes of other processes, over the callers' own connections.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::types::Uuid;
use sqlx::{Arguments, Row};
use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::Force;
use stanchion_core::{Holder, Kind, Name, Result};

use super::application_name::is_lock_session;
use super::lock_sessions::LockSessions;
use super::messages::token_of;
use super::reply::wait_for_reply;
use crate::context::Context;
use crate::error;
use crate::pool::Pool;
use crate::schema::Statement;
use crate::steps::ticket;

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

    fn arguments(&self, name: &Name) -> Result<PgArguments> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, &*self.namespace)?;
        add(&mut arguments, name.as_str())?;
        Ok(arguments)
    }

    /// Returns the lock sessions of other processes that hold a mutex, with the records of their holds.
    async fn peer_holders(&self, lock_sessions: &LockSessions, name: &Name) -> Result<Vec<(i32, Holder)>> {
        let rows = self.pool.rows(&self.holders, self.arguments(name)?).await?;
        let own_pids = lock_sessions.with(|state| state.outbound.pids().collect::<Vec<_>>());
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let pid: i32 = row.try_get(0).map_err(|_| error::unexpected())?;
            let application: &str = row.try_get(1).map_err(|_| error::unexpected())?;
            let holds: bool = row.try_get(2).map_err(|_| error::unexpected())?;
            if holds && !own_pids.contains(&pid) && is_lock_session(application) {
                found.push((pid, recorded_holder(&row).map_err(|_| error::unexpected())?));
            }
        }
        Ok(found)
    }

    /// Returns the holders of a mutex. A hold of another process has no record in its first second: then only
    /// its existence is known.
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
        let mut requests = self.request_unlock(name, holders, bound).await?;
        let mut asked_again = Vec::new();
        let end = now() + FORCE_UNLOCK_TIMEOUT.min(lock_sessions.request_timeout / 2);
        while now() < end {
            let (silent, mut later) = self.unlock_answers(name, std::mem::take(&mut requests)).await?;
            requests = silent;
            if force != Force::All && !later.is_empty() {
                return Ok(0);
            }
            // A session that had no token yet at the first request is asked again. A session that declines
            // twice was granted the mutex after this call began.
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
        let ended: i64 = self.query_about(&self.end, name, requests).await?;
        tracing::debug!(
            stanchion.kind = Kind::Mutex.as_str(),
            stanchion.name = name.as_str(),
            stanchion.freed = ended,
            "a mutex was freed by force"
        );
        Ok(count)
    }

    /// Requests that sessions unlock a mutex, if their grant has a token up to `bound`. Returns the ids of
    /// the requests.
    async fn request_unlock(&self, name: &Name, pids: Vec<i32>, bound: Option<i64>) -> Result<Vec<i64>> {
        let mut arguments = self.arguments(name)?;
        add(&mut arguments, pids)?;
        add(&mut arguments, bound)?;
        self.query_value(&self.force_unlock, arguments).await
    }

    /// Returns, of the sessions that still hold the mutex, the unanswered requests, and the process ids of
    /// sessions that declined.
    async fn unlock_answers(&self, name: &Name, requests: Vec<i64>) -> Result<(Vec<i64>, Vec<i32>)> {
        let mut arguments = self.arguments(name)?;
        add(&mut arguments, requests)?;
        let rows = self.pool.rows(&self.answers, arguments).await?;
        let row = rows.first().ok_or_else(error::unexpected)?;
        let silent: Option<_> = row.try_get(0).map_err(|_| error::unexpected())?;
        let later: Option<_> = row.try_get(1).map_err(|_| error::unexpected())?;
        Ok((silent.unwrap_or_default(), later.unwrap_or_default()))
    }

    /// Returns the one value that a statement about a mutex returns; `about` are sessions or requests.
    async fn query_about<A, T>(&self, statement: &Statement, name: &Name, about: A) -> Result<T>
    where
        A: sqlx::Encode<'static, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + 'static,
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let mut arguments = self.arguments(name)?;
        add(&mut arguments, about)?;
        self.query_value(statement, arguments).await
    }

    async fn query_value<T>(&self, statement: &Statement, arguments: PgArguments) -> Result<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let rows = self.pool.rows(statement, arguments).await?;
        rows.first().and_then(|row| row.try_get(0).ok()).ok_or_else(error::unexpected)
    }

    pub(super) async fn ping(&self) -> Result<()> {
        self.pool.rows(&self.ping, PgArguments::default()).await.map(drop)
    }
}

/// Reads the record of a hold.
fn recorded_holder(row: &PgRow) -> std::result::Result<Holder, sqlx::Error> {
    let (held_by, token): (Option<Uuid>, Option<i64>) = (row.try_get(3)?, row.try_get(4)?);
    let mut holder = Holder::unknown(1);
    holder.ticket = held_by.map(ticket);
    holder.token = token.and_then(token_of);
    let age: Option<i64> = row.try_get(5)?;
    holder.age = age.map(|age| Duration::from_micros(u64::try_from(age).unwrap_or_default()));
    holder.label = row.try_get(6)?;
    Ok(holder)
}

fn add<'q, T>(arguments: &mut PgArguments, value: T) -> Result<()>
where
    T: sqlx::Encode<'q, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + 'q,
{
    arguments.add(value).map_err(|_| error::unexpected())
}
