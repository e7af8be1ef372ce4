//! Records of holds for other processes to read, in the table `session_grants`. A hold is recorded
//! once it is held for a while, so that short holds cost nothing. The session that unlocks a mutex
//! removes its record; what it could not remove at once is removed here.

use std::pin::pin;
use std::time::Duration;

use stanchion_core::clock::{now, sleep, timeout_at};
use stanchion_core::spi::Acquire;

use super::lock_sessions::LockSessions;
use super::records::MAXIMUM_BATCH;
use crate::steps::PostgresSteps;

/// Interval between two writes. With the minimum age of a recorded hold and the time of a request,
/// a hold is recorded within a second.
const WRITE_INTERVAL: Duration = Duration::from_millis(400);
/// Minimum interval before a failed removal is repeated.
const MINIMUM_REMOVAL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum interval between two writes after failures.
const MAXIMUM_WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum interval before a failed removal is repeated: for this long an earlier holder can be
/// shown.
const MAXIMUM_REMOVAL_INTERVAL: Duration = Duration::from_secs(1);

/// Writes the records of holds.
pub(super) async fn write(lock_sessions: &LockSessions, steps: &PostgresSteps) {
    let mut interval = WRITE_INTERVAL;
    loop {
        lock_sessions.holds_granted.notified().await;
        loop {
            sleep(interval).await;
            let (records, count) = lock_sessions
                .with(|state| state.holds.unrecorded(now(), |id| state.outbound.session(id)?.pid));
            if count == 0 {
                break;
            }
            if records.is_empty() {
                continue;
            }
            let is_full = records.len() == MAXIMUM_BATCH;
            let written = steps.write_grants(&records).await;
            if let Err(error) = &written {
                tracing::debug!(
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                    "who holds mutexes could not be written yet"
                );
            }
            let are_written = matches!(written, Ok(true));
            lock_sessions.with(|state| state.holds.records_written(records, are_written));
            interval = match are_written {
                true if is_full => Duration::ZERO,
                true => WRITE_INTERVAL,
                false => (interval.max(WRITE_INTERVAL) * 2).min(MAXIMUM_WRITE_INTERVAL),
            };
        }
    }
}

/// Removes the records of ended holds, and repeats failed removals until they succeed.
pub(super) async fn remove(lock_sessions: &LockSessions, steps: &PostgresSteps) {
    let mut interval = MINIMUM_REMOVAL_INTERVAL;
    loop {
        let ended = lock_sessions.with(|state| state.holds.records.next_removals());
        if ended.is_empty() {
            interval = MINIMUM_REMOVAL_INTERVAL;
            lock_sessions.record_removals_added.notified().await;
            continue;
        }
        let answer = steps.remove_grants(&ended).await;
        if let Err(error) = &answer {
            tracing::debug!(
                error.type = error.kind().as_str(),
                exception.message = ?error,
                "what was written of holds could not be removed yet"
            );
        }
        let is_left = |ticket| answer.as_ref().map_or(true, |left| left.contains(&ticket));
        let any_left = lock_sessions.with(|state| state.holds.records.removals_tried(ended, is_left));
        lock_sessions.record_removals_tried.notify_waiters();
        if any_left {
            sleep(interval).await;
            interval = (interval * 2).min(MAXIMUM_REMOVAL_INTERVAL);
        }
    }
}

/// Waits until the removal of records of earlier holds of these mutexes was tried, for at most a
/// quarter of the request timeout. Otherwise, if the same session holds a mutex again next, it
/// would be shown as the earlier holder.
pub(super) async fn stale_records_removed(lock_sessions: &LockSessions, asks: &[&Acquire]) {
    // The other requests of the batch wait, too.
    let end = now() + lock_sessions.request_timeout / 4;
    loop {
        let mut tried = pin!(lock_sessions.record_removals_tried.notified());
        tried.as_mut().enable();
        let is_over = !lock_sessions
            .with(|state| state.holds.records.has_stale(asks.iter().map(|ask| &ask.object.name)));
        if is_over || timeout_at(end, tried).await.is_err() {
            return;
        }
    }
}
