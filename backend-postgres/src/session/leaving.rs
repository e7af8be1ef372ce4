//! Leaving the queue, and hints to the next waiters, over the engine's connections.

use std::time::Duration;

use stanchion_core::Kind;
use stanchion_core::clock::{now, sleep};

use super::lock_sessions::LockSessions;
use crate::steps::PostgresSteps;

/// Maximum number of hints in one request.
const MAXIMUM_BATCH: usize = 256;
/// Interval before a failed request to leave places is repeated.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Leaves places, and repeats failed requests until they succeed. A name that another session keeps
/// locked delays no other.
pub(super) async fn leave_queues(lock_sessions: &LockSessions, steps: &PostgresSteps) {
    loop {
        let (requests, ttl) = lock_sessions.with(|state| (state.next_leave_requests(), state.ttl));
        if requests.is_empty() {
            lock_sessions.leave_requests_added.notified().await;
            continue;
        }
        let places: Vec<_> = requests.iter().map(|request| request.place(ttl)).collect();
        let answers = steps.leave_places(&places).await;
        let at = now();
        let mut failed = Vec::new();
        for (request, answer) in requests.into_iter().zip(answers) {
            match answer {
                Ok(()) => lock_sessions.with(|state| state.left_queue(request, at)),
                Err(error) => {
                    tracing::debug!(
                        stanchion.kind = Kind::Mutex.as_str(),
                        stanchion.name = request.name.as_str(),
                        error.type = error.kind().as_str(),
                        exception.message = ?error,
                        "a place could not be given up yet"
                    );
                    failed.push(request);
                }
            }
        }
        if !failed.is_empty() {
            lock_sessions.with(|state| state.places.leaving.defer(failed));
            sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Sends hints to waiters of other processes.
pub(super) async fn send_hints(lock_sessions: &LockSessions, steps: &PostgresSteps) {
    loop {
        let (hints, count) = lock_sessions.with(|state| state.outbound.take_hints());
        if hints.is_empty() {
            lock_sessions.hints_added.notified().await;
        } else {
            for hints in hints.chunks(MAXIMUM_BATCH) {
                steps.send_hints(hints).await;
            }
            lock_sessions.hints_sent.send_replace(count);
        }
    }
}
