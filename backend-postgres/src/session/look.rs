//! What is seen of other processes, over the callers' own connections.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::types::Uuid;
use sqlx::{Arguments, Row};
use stanchion_core::clock::{now, sleep};
use stanchion_core::steps::Force;
use stanchion_core::{Holder, Kind, Name, Result, Ticket};

use super::desk::{Desk, Event, State};
use super::steps::heard;
use super::wire::token_of;
use crate::context::Context;
use crate::error;
use crate::link::Link;
use crate::schema::Statement;
use crate::steps::ticket;

/// How long another process may take to give a mutex up before its session is ended.
const GRACE: Duration = Duration::from_secs(1);
/// Between two looks whether it has.
const GLANCE: Duration = Duration::from_millis(50);

/// The statements about other processes.
#[derive(Debug)]
pub(super) struct Look {
    link: Arc<Link>,
    namespace: Arc<str>,
    holders: Statement,
    evict: Statement,
    answers: Statement,
    end: Statement,
    ping: Statement,
}

/// What the name of a lock session has before the process's own.
pub(super) const MARK: &str = " lock ";

/// Whether a session is a lock session. Those of users' transactions (`lock_in`) are neither shown nor ended.
fn is_lock_session(application: &str) -> bool {
    application.rsplit_once(MARK).is_some_and(|(_, process)| process.parse::<Ticket>().is_ok())
}

impl Look {
    pub(super) fn new(context: &Context, link: Arc<Link>) -> Self {
        let statement = |text| context.schema.statement(text);
        Self {
            link,
            namespace: Arc::clone(&context.namespace),
            holders: statement(include_str!("../sql/session_holders.sql")),
            evict: statement(include_str!("../sql/session_evict.sql")),
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

    /// The lock sessions of others that hold a mutex, and what is known of their holds.
    async fn seen(&self, desk: &Desk, name: &Name) -> Result<Vec<(i32, Holder)>> {
        let rows = self.link.rows(&self.holders, self.arguments(name)?).await?;
        let ours = desk.with(|state| state.pids());
        let mut seen = Vec::with_capacity(rows.len());
        for row in rows {
            let pid: i32 = row.try_get(0).map_err(|_| error::unexpected())?;
            let application: &str = row.try_get(1).map_err(|_| error::unexpected())?;
            let holds: bool = row.try_get(2).map_err(|_| error::unexpected())?;
            if holds && !ours.contains(&pid) && is_lock_session(application) {
                seen.push((pid, noted(&row).map_err(|_| error::unexpected())?));
            }
        }
        Ok(seen)
    }

    /// Who holds a mutex. Of a hold of another process nothing is known in its first second but that it is.
    pub(super) async fn holders(&self, desk: &Desk, name: &Name) -> Result<Vec<Holder>> {
        let seen = self.seen(desk, name).await?;
        if let Some(own) = desk.with(|state| state.inspect(name)) {
            return Ok(vec![own]);
        }
        Ok(seen.into_iter().map(|(_, holder)| holder).collect())
    }

    /// Frees a mutex, whoever holds it.
    pub(super) async fn force(&self, desk: &Desk, name: &Name, force: Force) -> Result<u32> {
        let freed = desk.with(|state| state.force(name, force));
        if let Some(answer) = freed {
            return heard(answer, now() + desk.limit).await.map(|_| 1);
        }
        let mut seen = self.seen(desk, name).await?;
        // Up to which token a grant is meant.
        let mut bound = None;
        if let Force::One(ticket) = force {
            seen.retain(|(_, holder)| holder.ticket == Some(ticket));
            bound = seen.first().and_then(|(_, holder)| holder.token).map(i64::from);
        }
        let holders: Vec<_> = seen.into_iter().map(|(pid, _)| pid).collect();
        if holders.is_empty() {
            return Ok(0);
        }
        let count = u32::try_from(holders.len()).unwrap_or(u32::MAX);
        let mut requests = self.request(name, holders, bound).await?;
        let mut asked_again = Vec::new();
        let end = now() + GRACE.min(desk.limit / 2);
        while now() < end {
            let (silent, mut later) = self.answers(name, std::mem::take(&mut requests)).await?;
            requests = silent;
            if force != Force::All && !later.is_empty() {
                return Ok(0);
            }
            // Whoever had no token yet when it was asked is asked again. Who declines twice was granted it after this began.
            later.retain(|pid| !asked_again.contains(pid));
            if !later.is_empty() {
                asked_again.extend(&later);
                requests.extend(self.request(name, later, bound).await?);
            }
            if requests.is_empty() {
                break;
            }
            sleep(GLANCE).await;
        }
        let ended: i64 = self.asked(&self.end, name, requests).await?;
        tracing::debug!(
            stanchion.kind = Kind::Mutex.as_str(),
            stanchion.name = name.as_str(),
            stanchion.freed = ended,
            "a mutex was freed by force"
        );
        Ok(count)
    }

    /// Requests that sessions give a mutex up, those with a grant whose token is at most the bound. Returns the numbers of the requests.
    async fn request(&self, name: &Name, pids: Vec<i32>, bound: Option<i64>) -> Result<Vec<i64>> {
        let mut arguments = self.arguments(name)?;
        add(&mut arguments, pids)?;
        add(&mut arguments, bound)?;
        self.first(&self.evict, arguments).await
    }

    /// Of the sessions that hold the mutex still: the requests that they have not answered, and who holds it by a later
    /// grant.
    async fn answers(&self, name: &Name, requests: Vec<i64>) -> Result<(Vec<i64>, Vec<i32>)> {
        let mut arguments = self.arguments(name)?;
        add(&mut arguments, requests)?;
        let rows = self.link.rows(&self.answers, arguments).await?;
        let row = rows.first().ok_or_else(error::unexpected)?;
        let silent: Option<_> = row.try_get(0).map_err(|_| error::unexpected())?;
        let later: Option<_> = row.try_get(1).map_err(|_| error::unexpected())?;
        Ok((silent.unwrap_or_default(), later.unwrap_or_default()))
    }

    /// The answer to a statement about a mutex and some sessions or requests.
    async fn asked<A, T>(&self, statement: &Statement, name: &Name, about: A) -> Result<T>
    where
        A: sqlx::Encode<'static, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + 'static,
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let mut arguments = self.arguments(name)?;
        add(&mut arguments, about)?;
        self.first(statement, arguments).await
    }

    async fn first<T>(&self, statement: &Statement, arguments: PgArguments) -> Result<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let rows = self.link.rows(statement, arguments).await?;
        rows.first().and_then(|row| row.try_get(0).ok()).ok_or_else(error::unexpected)
    }

    pub(super) async fn ping(&self) -> Result<()> {
        self.link.rows(&self.ping, PgArguments::default()).await.map(drop)
    }
}

/// What is written of a hold.
fn noted(row: &PgRow) -> std::result::Result<Holder, sqlx::Error> {
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

impl State {
    fn pids(&self) -> Vec<i32> {
        self.posts.values().filter_map(|post| post.pid).collect()
    }

    /// The hold of this process.
    fn inspect(&self, name: &Name) -> Option<Holder> {
        let held = self.names.get(name)?.held.as_ref()?;
        let at = now();
        let mut holder = Holder::new(held.ticket, held.token, 1, at.saturating_duration_since(held.since));
        holder.label = held.label.as_deref().map(str::to_owned);
        holder.lease_left = Some(held.until.saturating_duration_since(at));
        Some(holder)
    }

    fn force(
        &mut self,
        name: &Name,
        force: Force,
    ) -> Option<tokio::sync::oneshot::Receiver<Result<stanchion_core::steps::Kept>>> {
        let held = self.names.get(name)?.held.as_ref()?.ticket;
        if force != Force::All && force != Force::One(held) {
            return None;
        }
        self.events.push(Event::Gone(held));
        self.free(name, held)
    }
}
