//! The steps of the queue that session mode needs.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgArguments;
use sqlx::types::Uuid;
use stanchion_core::clock::now;
use stanchion_core::spi::{Object, ProcessId};
use stanchion_core::{Error, FencingToken, Name, Result, Ticket, Ttl};

use super::PostgresSteps;
use super::call::{StatementArguments, column, ticket, uuid};
use super::locked::patience;
use crate::context::{Context, micros};
use crate::hints;

/// A place in the queue of a mutex that is to be left.
#[derive(Clone, Debug)]
pub(crate) struct PlaceToLeave {
    pub(crate) object: Object,
    pub(crate) ticket: Ticket,
    /// The ticket does not hold the mutex any more.
    pub(crate) is_free: bool,
    /// How long a copy of the request that joined the queue is refused, if there may be one.
    pub(crate) tombstone: Option<Ttl>,
}

/// The record of a hold, which other processes read.
#[derive(Clone, Debug)]
pub(crate) struct GrantRecord {
    pub(crate) name: Name,
    /// The process id of the session.
    pub(crate) pid: i32,
    pub(crate) ticket: Ticket,
    pub(crate) token: FencingToken,
    pub(crate) age: Duration,
    pub(crate) label: Option<Arc<str>>,
}

/// Returns the arguments of `session_leave`, which answers in the order of the names. `waits`: the
/// statement waits for rows that another session has locked.
///
/// # Errors
/// `InvalidArgument` if they cannot be sent.
pub(crate) fn leave_arguments(
    namespace: &str,
    tokens: i64,
    places: &[PlaceToLeave],
    waits: bool,
) -> Result<PgArguments> {
    let mut places: Vec<_> = places.iter().collect();
    places.sort_by_key(|place| &place.object.name);
    StatementArguments::default()
        .with(namespace)
        .with(tokens)
        .with(places.iter().map(|place| place.object.name.as_str()).collect::<Vec<_>>())
        .with(places.iter().map(|place| uuid(place.ticket)).collect::<Vec<_>>())
        .with(places.iter().map(|place| place.is_free).collect::<Vec<_>>())
        .with(
            places
                .iter()
                .map(|place| place.tombstone.map_or(0, |time| micros(time.get())))
                .collect::<Vec<_>>(),
        )
        .with(waits)
        .complete()
}

impl PostgresSteps {
    /// Removes the places of tickets that hold, or held, their mutex, and wakes the next waiters of
    /// mutexes that are free. A name that another session keeps locked delays no other; its answer
    /// is an error.
    pub(crate) async fn leave_places(&self, places: &[PlaceToLeave]) -> Vec<Result<()>> {
        self.around_locked(
            places,
            |place| &place.object,
            patience(self.request_end()),
            |steps, batch| Box::pin(steps.leave_all(batch)),
        )
        .await
    }

    async fn leave_all(&self, batch: &[PlaceToLeave]) -> Vec<Result<()>> {
        let Context { namespace, retention, .. } = &*self.context;
        let arguments = leave_arguments(namespace, micros(retention.tokens), batch, true);
        // Callers wait for it: a statement that is not answered is sent again within their time.
        let end = now() + self.pool.request_timeout() / 4;
        let left = match arguments {
            Ok(arguments) => self.run_by(&self.statements.leave, arguments, end).await,
            Err(error) => Err(error),
        };
        batch.iter().map(|_| left.as_ref().map(drop).map_err(Error::replicate)).collect()
    }

    /// Writes records of holds, in the order of their names. Returns false if nothing can be
    /// written at the moment.
    ///
    /// # Errors
    /// As every request: then the records may be written or not.
    pub(crate) async fn write_grants(&self, records: &[GrantRecord]) -> Result<bool> {
        let token = |record: &GrantRecord| i64::try_from(record.token.get()).unwrap_or(i64::MAX);
        let arguments = StatementArguments::default()
            .with(&*self.context.namespace)
            .with(records.iter().map(|record| record.name.as_str()).collect::<Vec<_>>())
            .with(records.iter().map(|record| record.pid).collect::<Vec<_>>())
            .with(records.iter().map(|record| uuid(record.ticket)).collect::<Vec<_>>())
            .with(records.iter().map(token).collect::<Vec<_>>())
            .with(records.iter().map(|record| micros(record.age)).collect::<Vec<_>>())
            .with(records.iter().map(|record| record.label.as_deref()).collect::<Vec<_>>());
        column(&self.row(&self.statements.note, arguments, self.request_end()).await?, 0)
    }

    /// Removes the records of ended holds. Returns the tickets that still have a record, or may
    /// have one.
    ///
    /// # Errors
    /// As every request.
    pub(crate) async fn remove_grants(&self, ended: &[(Name, Ticket)]) -> Result<Vec<Ticket>> {
        let arguments = StatementArguments::default()
            .with(&*self.context.namespace)
            .with(ended.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())
            .with(ended.iter().map(|(_, ticket)| uuid(*ticket)).collect::<Vec<_>>());
        let left: Vec<Uuid> =
            column(&self.row(&self.statements.forget, arguments, self.request_end()).await?, 0)?;
        Ok(left.into_iter().map(ticket).collect())
    }

    /// Sends hints to waiters of other processes. A hint that cannot be sent is given up: its
    /// waiter asks by itself.
    pub(crate) async fn send_hints(&self, hints: &[(ProcessId, Ticket)]) {
        let (processes, tickets) =
            hints.iter().map(|(process, ticket)| (uuid(*process), uuid(*ticket))).unzip();
        hints::tell(&self.pool, &self.statements.tell, processes, tickets, now()).await;
    }
}
