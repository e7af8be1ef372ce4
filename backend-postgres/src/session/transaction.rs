//! A mutex for the length of a user's own transaction.

use sqlx::{Postgres, Row, Transaction};
use stanchion_core::{FencingToken, Name, Result};

use super::wire::token_of;
use crate::context::Context;
use crate::error;

/// Locks a mutex for a transaction; waits in line for as long as the transaction's `lock_timeout` says.
///
/// # Errors
/// As the statement; after any but `InvalidArgument` the transaction can only be rolled back.
pub(crate) async fn lock_in(
    context: &Context,
    transaction: &mut Transaction<'_, Postgres>,
    name: &str,
) -> Result<FencingToken> {
    locked(context, transaction, name, true).await.and_then(|token| token.ok_or_else(error::unexpected))
}

/// Locks a mutex for a transaction if nobody holds it.
///
/// # Errors
/// As [`lock_in`].
pub(crate) async fn try_lock_in(
    context: &Context,
    transaction: &mut Transaction<'_, Postgres>,
    name: &str,
) -> Result<Option<FencingToken>> {
    locked(context, transaction, name, false).await
}

async fn locked(
    context: &Context,
    transaction: &mut Transaction<'_, Postgres>,
    name: &str,
    waits: bool,
) -> Result<Option<FencingToken>> {
    let name = Name::new(name)?;
    let statement = context.schema.statement(include_str!("../sql/session_lock_in.sql"));
    let query = sqlx::query(statement.sql()).bind(&*context.namespace).bind(name.as_str()).bind(waits);
    let row = query.fetch_one(&mut **transaction).await.map_err(error::of_request)?;
    Ok(token_of(row.try_get(0).map_err(|_| error::unexpected())?))
}
