//! Statements of the steps: one statement, one row.

use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::types::Uuid;
use sqlx::{Arguments, Decode, Encode, Row, Type};
use stanchion_core::clock::{Instant, now};
use stanchion_core::{Error, Result, Ticket};

use super::PostgresSteps;
use crate::context::Context;
use crate::error::unexpected;
use crate::hints::pass_on;
use crate::schema::{Schema, Statement};

/// The statements of the steps of holds and wait groups.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) acquire: Statement,
    pub(super) renew: Statement,
    pub(super) release: Statement,
    pub(super) cancel: Statement,
    pub(super) poll: Statement,
    pub(super) keep_places: Statement,
    pub(super) attach: Statement,
    pub(super) inspect_part: Statement,
    pub(super) resize: Statement,
    pub(super) force: Statement,
    pub(super) tidy: Statement,
    pub(super) list_permits: Statement,
    pub(super) list_limiters: Statement,
    pub(super) list_blooms: Statement,
    pub(super) look: Statement,
    pub(super) split: Statement,
    pub(super) ping: Statement,
    pub(super) locked: Statement,
    pub(super) tell: Statement,
    pub(super) leave: Statement,
    pub(super) note: Statement,
    pub(super) forget: Statement,
}

impl Statements {
    pub(super) fn new(schema: &Schema) -> Self {
        Self {
            acquire: schema.statement(include_str!("../sql/acquire.sql")),
            renew: schema.statement(include_str!("../sql/renew.sql")),
            release: schema.statement(include_str!("../sql/release.sql")),
            cancel: schema.statement(include_str!("../sql/cancel.sql")),
            poll: schema.statement(include_str!("../sql/poll.sql")),
            keep_places: schema.statement(include_str!("../sql/keep_places.sql")),
            attach: schema.statement(include_str!("../sql/attach.sql")),
            inspect_part: schema.statement(include_str!("../sql/inspect_part.sql")).large(),
            resize: schema.statement(include_str!("../sql/resize.sql")),
            force: schema.statement(include_str!("../sql/force.sql")),
            tidy: schema.statement(include_str!("../sql/tidy.sql")),
            list_permits: schema.statement(include_str!("../sql/list_permits.sql")).large(),
            list_limiters: schema.statement(include_str!("../sql/list_limiters.sql")).large(),
            list_blooms: schema.statement(include_str!("../sql/list_blooms.sql")).large(),
            look: schema.statement(include_str!("../sql/look.sql")),
            split: schema.statement(include_str!("../sql/split.sql")),
            ping: schema.statement(include_str!("../sql/ping.sql")),
            locked: schema.statement(include_str!("../sql/locked.sql")),
            tell: schema.statement(include_str!("../sql/tell.sql")),
            leave: schema.statement(include_str!("../sql/session_leave.sql")),
            forget: schema.statement(include_str!("../sql/session_forget.sql")),
            note: schema.statement(include_str!("../sql/session_note.sql")),
        }
    }
}

/// The arguments of a statement.
#[derive(Debug, Default)]
pub(crate) struct StatementArguments {
    arguments: PgArguments,
    /// The error of a value that could not be encoded.
    failed: Option<Error>,
}

impl StatementArguments {
    /// Adds a value.
    pub(crate) fn with<'t, T: Encode<'t, Postgres> + Type<Postgres>>(mut self, value: T) -> Self {
        if let Err(error) = self.arguments.add(value) {
            self.failed = Some(Error::invalid_argument("too much for one request").with_source(error));
        }
        self
    }

    /// # Errors
    /// `InvalidArgument` if a value could not be encoded.
    pub(crate) fn complete(self) -> Result<PgArguments> {
        self.failed.map_or(Ok(self.arguments), Err)
    }
}

/// Returns a ticket in the form that the tables keep.
pub(crate) fn uuid(ticket: Ticket) -> Uuid {
    Uuid::from_u128(ticket.as_u128())
}

pub(crate) fn ticket(uuid: Uuid) -> Ticket {
    uuid.as_u128().into()
}

/// Returns a column of a row.
pub(crate) fn column<'r, T: Decode<'r, Postgres> + Type<Postgres>>(
    row: &'r PgRow,
    index: usize,
) -> Result<T> {
    row.try_get(index).map_err(|error| unexpected().with_source(error))
}

impl PostgresSteps {
    /// Returns the end of a request that is sent now and has no time limit of its own.
    pub(crate) fn request_end(&self) -> Instant {
        now() + self.pool.request_timeout()
    }

    /// As [`run_by`](Self::run_by).
    pub(super) async fn run(
        &self,
        statement: &Statement,
        arguments: StatementArguments,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        self.run_by(statement, arguments.complete()?, end).await
    }

    /// Runs a statement until `end`.
    pub(super) async fn run_by(
        &self,
        statement: &Statement,
        arguments: PgArguments,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        let rows = self.pool.rows_of_call(statement, arguments, end).await?;
        if let Some(row) = rows.first() {
            let Context { process, hints, .. } = &*self.context;
            pass_on(row, (*process, hints), &self.pool, &self.statements.tell).await;
        }
        Ok(rows)
    }

    /// Runs a statement and returns its only row.
    pub(super) async fn row(
        &self,
        statement: &Statement,
        arguments: StatementArguments,
        end: Instant,
    ) -> Result<PgRow> {
        self.run(statement, arguments, end).await?.into_iter().next().ok_or_else(unexpected)
    }
}
