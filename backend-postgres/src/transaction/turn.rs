//! The turn is a hold of a row like any other, and is kept until the transaction has the advisory
//! lock of the name.
//!
//! In session mode every grant takes that lock, and none is made while a turn is there. A session
//! may have it already when the turn is granted; the transaction waits for it then.
//!
//! In lease mode grants test that lock as long as the row of the mutex says so. Why nobody else
//! holds it meanwhile: `turn_key` writes into the row, while the hold is there, that grants test
//! the lock. Only a grant that finds the lock free takes that back, and there is none while the
//! hold is there. `turn_check` sees, once the transaction has the lock, that the hold is still
//! there, and draws the token. From then on every grant finds the lock taken.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::{now, sleep};
use stanchion_core::{Error, ErrorKind, FencingToken, Mutex, MutexGuard, Result, Ticket};

use super::{Asked, TransactionLock, not_free_in_time, old_snapshot, other_database};
use crate::session::token_of;
use crate::steps::{column, uuid};

/// Time between two probes in a transaction whose turn it is not yet.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Locks a mutex for a transaction. Returns `None` if another caller has the mutex and the call was
/// not to wait.
///
/// # Errors
/// As the statements and the locking of the mutex; after any but `InvalidArgument` the transaction
/// can only be rolled back.
pub(crate) async fn lock_in(mut asked: Asked<'_>, mutex: Arc<dyn Mutex>) -> Result<Option<TransactionLock>> {
    let row = asked.in_transaction(include_str!("../sql/turn_begin.sql"), |arguments| arguments).await?;
    let (is_fresh, backend): (bool, i32) = (column(&row, 0)?, column(&row, 1)?);
    let (patience, slice): (i64, i64) = (column(&row, 2)?, column(&row, 3)?);
    if !is_fresh && !asked.options.allows_old_snapshot {
        return Err(old_snapshot());
    }
    if backend != 0 {
        // The transaction has the mutex already.
        let token = checked(&mut asked, None, backend).await?;
        return Ok(Some(asked.locked(token, Ticket::random())));
    }
    let patience = u64::try_from(patience).ok().filter(|patience| *patience > 0).map(Duration::from_millis);
    asked.end = patience.and_then(|patience| now().checked_add(patience));
    let Some(turn) = take_turn(&mut asked, &*mutex, patience, slice).await? else { return Ok(None) };
    if !asked.by_session {
        let key = include_str!("../sql/turn_key.sql");
        let row = asked.beside(key, |arguments| arguments.with(uuid(turn.ticket()))).await?;
        if !column::<bool>(&row, 0)? {
            return Err(turn_ended());
        }
    }
    let Some(backend) = wait_for_key(&mut asked, &turn, slice).await? else { return Ok(None) };
    let token = checked(&mut asked, Some(turn.ticket()), backend).await?;
    let engine = asked.engine;
    let lock = asked.locked(token, turn.ticket());
    // Whether or not the store hears of it: the lock excludes the others by now.
    drop(engine.on_own_connections(turn.release()).await);
    Ok(Some(lock))
}

/// Waits for the turn, and probes in the transaction meanwhile.
async fn take_turn(
    asked: &mut Asked<'_>,
    mutex: &dyn Mutex,
    patience: Option<Duration>,
    slice: i64,
) -> Result<Option<MutexGuard>> {
    let waits_not = asked.options.waits_not;
    let engine = asked.engine;
    // Over the store's own connections: those of the user's pool may all have transactions that
    // wait here.
    let turn = engine.on_own_connections(async {
        match patience {
            _ if waits_not => mutex.try_lock().await,
            Some(patience) => mutex.lock_for(patience).await?.ok_or_else(not_free_in_time).map(Some),
            None => mutex.lock().await.map(Some),
        }
    });
    let mut turn = std::pin::pin!(turn);
    let probe = include_str!("../sql/turn_probe.sql");
    loop {
        tokio::select! {
            biased;
            taken = &mut turn => return taken,
            () = sleep(PROBE_INTERVAL), if !waits_not => {}
        }
        let time = asked.slice_left(slice);
        let mut taken = None;
        {
            let mut probed = std::pin::pin!(asked.in_transaction(probe, |arguments| arguments.with(time)));
            // A statement under way is waited for: the transaction can be used afterwards.
            loop {
                tokio::select! {
                    answer = &mut probed => break drop(answer?),
                    done = &mut turn, if taken.is_none() => taken = Some(done),
                }
            }
        }
        if let Some(taken) = taken {
            return taken;
        }
    }
}

/// Waits until no other transaction has the mutex. Returns the server process of the transaction,
/// or `None` if the call was not to wait.
async fn wait_for_key(asked: &mut Asked<'_>, turn: &MutexGuard, slice: i64) -> Result<Option<i32>> {
    let lock = include_str!("../sql/turn_lock.sql");
    loop {
        let time = if asked.options.waits_not { 0 } else { asked.slice_left(slice) };
        let row = asked.in_transaction(lock, |arguments| arguments.with(time)).await?;
        match column::<i32>(&row, 0)? {
            0 if asked.options.waits_not => return Ok(None),
            0 if !turn.is_held() => {
                asked.engine.check_open("lock_in")?;
                return Err(turn_ended());
            }
            0 if asked.end.is_some_and(|end| now() >= end) => return Err(not_free_in_time()),
            0 => {}
            backend => return Ok(Some(backend)),
        }
    }
}

/// Returns the token of a transaction that has the mutex.
async fn checked(asked: &mut Asked<'_>, turn: Option<Ticket>, backend: i32) -> Result<FencingToken> {
    let check = include_str!("../sql/turn_check.sql");
    let row = asked.beside(check, |arguments| arguments.with(turn.map(uuid)).with(backend)).await?;
    match column::<i64>(&row, 0)? {
        -2 => {
            // It is there, but not here; or the session has ended, which this error says.
            let holds = include_str!("../sql/session_holds_in.sql");
            let row = asked.in_transaction(holds, |arguments| arguments).await?;
            Err(if column(&row, 0)? { other_database() } else { turn_ended() })
        }
        token => token_of(token).ok_or_else(turn_ended),
    }
}

fn turn_ended() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the turn ended before the transaction had the mutex: it was not renewed, or was forced",
    )
}
