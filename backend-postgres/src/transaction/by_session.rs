//! In session mode, the mutex is the advisory lock of its name, and its queue is the server's.

use stanchion_core::{Result, Ticket};

use super::{Asked, TransactionLock, old_snapshot, other_database};
use crate::session::token_of;
use crate::steps::column;

/// Locks a mutex for a transaction. Returns `None` if another caller has the mutex and the call was not to wait.
///
/// # Errors
/// As the statements; after any but `InvalidArgument` the transaction can only be rolled back.
pub(crate) async fn lock_in(mut asked: Asked<'_, '_>) -> Result<Option<TransactionLock>> {
    let (waits, is_fresh) = (!asked.options.waits_not, !asked.options.allows_old_snapshot);
    let lock = include_str!("../sql/session_lock_in.sql");
    let row = asked.in_transaction(lock, |arguments| arguments.with(waits).with(is_fresh)).await?;
    let backend: i32 = column(&row, 0)?;
    match backend {
        0 => return Ok(None),
        -1 => return Err(old_snapshot()),
        _ => {}
    }
    let draw = include_str!("../sql/session_token_in.sql");
    let row = asked.beside(draw, |arguments| arguments.with(backend)).await?;
    let drawn: Option<i64> = column(&row, 0)?;
    let token = drawn.and_then(token_of).ok_or_else(other_database)?;
    Ok(Some(asked.locked(token, Ticket::random())))
}
