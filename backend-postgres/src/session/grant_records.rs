//! Records of holds for other processes to read, in the table `session_grants`. A hold is recorded once it is
//! held for a while, so that short holds cost nothing. The session that unlocks a mutex removes its record;
//! what it could not remove at once is removed here.

use std::pin::pin;
use std::time::Duration;

use stanchion_core::clock::{Instant, now, sleep, timeout_at};
use stanchion_core::spi::Acquire;
use stanchion_core::{Name, Ticket};

use super::lock_sessions::{LockSessions, SharedState};
use super::session_state::Unlock;
use crate::steps::{GrantRecord, PostgresSteps};

/// Minimum age of a hold that is recorded.
const MINIMUM_AGE: Duration = Duration::from_millis(300);
/// Interval between two writes. With [`MINIMUM_AGE`] and the time of a request, a hold is recorded within a
/// second.
const WRITE_INTERVAL: Duration = Duration::from_millis(400);
/// Minimum interval before a failed removal is repeated.
const MINIMUM_REMOVAL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum interval between two writes after failures.
const MAXIMUM_WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum interval before a failed removal is repeated: for this long an earlier holder can be shown.
const MAXIMUM_REMOVAL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of records in one request.
const MAXIMUM_BATCH: usize = 256;

impl SharedState {
    /// Returns the records to be written next, of the oldest holds first, and the number of unrecorded holds.
    fn unrecorded(&mut self, at: Instant) -> (Vec<GrantRecord>, usize) {
        let held = self.mutexes.iter_mut().filter_map(|(name, mutex)| Some((name, mutex.held.as_mut()?)));
        let mut unrecorded: Vec<_> = held.filter(|(_, held)| !held.is_recorded).collect();
        let count = unrecorded.len();
        unrecorded.retain(|(_, held)| at.saturating_duration_since(held.since) >= MINIMUM_AGE);
        unrecorded.sort_by_key(|(_, held)| held.since);
        let mut records = Vec::new();
        for (name, held) in unrecorded.into_iter().take(MAXIMUM_BATCH) {
            let Some(pid) = self.sessions.get(&held.session).and_then(|session| session.pid) else {
                continue;
            };
            held.is_recorded = true;
            let (ticket, token, label) = (held.ticket, held.token, held.label.clone());
            let age = at.saturating_duration_since(held.since);
            records.push(GrantRecord { name: name.clone(), pid, ticket, token, age, label });
        }
        records.sort_by(|one, other| one.name.cmp(&other.name));
        self.records_being_written.extend(records.iter().map(|record| record.ticket));
        (records, count)
    }

    /// Completes a write of records, or its failure. Records of holds that have ended meanwhile are to be
    /// removed.
    fn records_written(&mut self, records: Vec<GrantRecord>, are_written: bool) {
        for GrantRecord { name, ticket, .. } in records {
            self.records_being_written.remove(&ticket);
            match self.mutexes.get_mut(&name).and_then(|mutex| mutex.held_by(ticket)) {
                Some(held) => {
                    held.is_recorded = are_written;
                    // The mutex was granted again to the same ticket.
                    self.stale_records.remove(&(name, ticket));
                }
                None => self.remove_record(name, ticket),
            }
        }
    }

    /// Requests the removal of the record that an ended hold may have.
    pub(super) fn remove_record_later(&mut self, unlock: &Unlock) {
        if let Some(ticket) = unlock.ticket.filter(|_| unlock.is_recorded) {
            self.remove_record(unlock.name.clone(), ticket);
        }
    }

    fn remove_record(&mut self, name: Name, ticket: Ticket) {
        self.stale_records.insert((name.clone(), ticket));
        self.records_to_remove.push((name, ticket));
    }

    /// Returns whether one of these mutexes may still have the record of an earlier hold.
    fn has_stale_record<'n>(&self, mut names: impl Iterator<Item = &'n Name>) -> bool {
        !self.stale_records.is_empty()
            && names.any(|name| self.stale_records.iter().any(|(stale, _)| stale == name))
    }

    /// Takes the records to be removed next.
    fn next_removals(&mut self) -> Vec<(Name, Ticket)> {
        let count = self.records_to_remove.len().min(MAXIMUM_BATCH);
        let mut ended: Vec<_> = self.records_to_remove.drain(..count).collect();
        ended.sort_unstable();
        ended
    }
}

/// Writes the records of holds.
pub(super) async fn write(lock_sessions: &LockSessions, steps: &PostgresSteps) {
    let mut interval = WRITE_INTERVAL;
    loop {
        lock_sessions.holds_granted.notified().await;
        loop {
            sleep(interval).await;
            let (records, count) = lock_sessions.with(|state| state.unrecorded(now()));
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
            lock_sessions.with(|state| state.records_written(records, are_written));
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
        let ended = lock_sessions.with(SharedState::next_removals);
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
        let is_left = |ticket: &Ticket| answer.as_ref().map_or(true, |left| left.contains(ticket));
        let any_left = lock_sessions.with(|state| {
            for of in &ended {
                // A record that is being written is removed after that.
                if !state.records_being_written.contains(&of.1) {
                    state.stale_records.remove(of);
                }
            }
            let left: Vec<_> = ended.into_iter().filter(|(_, ticket)| is_left(ticket)).collect();
            let any_left = !left.is_empty();
            state.records_to_remove.extend(left);
            any_left
        });
        lock_sessions.record_removals_tried.notify_waiters();
        if any_left {
            sleep(interval).await;
            interval = (interval * 2).min(MAXIMUM_REMOVAL_INTERVAL);
        }
    }
}

/// Waits until the removal of records of earlier holds of these mutexes was tried, for at most a quarter of
/// the request timeout. Otherwise, if the same session holds a mutex again next, it would be shown as the
/// earlier holder.
pub(super) async fn stale_records_removed(lock_sessions: &LockSessions, asks: &[&Acquire]) {
    // The other requests of the batch wait, too.
    let end = now() + lock_sessions.request_timeout / 4;
    loop {
        let mut tried = pin!(lock_sessions.record_removals_tried.notified());
        tried.as_mut().enable();
        let is_over =
            !lock_sessions.with(|state| state.has_stale_record(asks.iter().map(|ask| &ask.object.name)));
        if is_over || timeout_at(end, tried).await.is_err() {
            return;
        }
    }
}
