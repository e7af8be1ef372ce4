//! The task of one session: it sends queued requests until its connection breaks or it is no longer
//! needed.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::now;
use stanchion_core::{Error, ErrorKind};
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout, timeout_at};

use super::connection::{SessionConfig, SessionConnection, StepRequest};
use super::leave_requests::LeaveRequest;
use super::lock_sessions::LockSessions;
use super::messages::{Batch, SessionId};
use super::outbound::NextAction;
use crate::error;

/// How much later than the server's own statement timeout a statement counts as overdue.
const OVERDUE_MARGIN: Duration = Duration::from_millis(50);

/// The server's error code for a missing privilege of the role.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// The server's error code for a write in a read-only transaction.
const READ_ONLY_TRANSACTION: &str = "25006";

/// Returns whether the server only refused the statement and keeps the session. After a switch to
/// read-only a session keeps its holds, unless another host takes writes.
fn keeps_session(error: &sqlx::Error) -> bool {
    error::leaves_connection(error) || error::code(error) == Some(READ_ONLY_TRANSACTION)
}

/// An open session, and what its task works with.
struct SessionTask<'a> {
    lock_sessions: &'a LockSessions,
    config: &'a SessionConfig,
    id: SessionId,
    wake: Arc<Notify>,
    connection: SessionConnection,
}

/// Why a session ends; `None` if it is no longer needed.
type EndReason = Option<Error>;

/// Opens a session and runs it to its end.
pub(super) async fn run_session(lock_sessions: &LockSessions, config: &SessionConfig, id: SessionId) {
    let wake = lock_sessions.with(|state| Some(Arc::clone(&state.outbound.session(id)?.wake)));
    let Some(wake) = wake else { return };
    // Closes the session in the state also if this future is dropped.
    let mut close = CloseOnDrop { lock_sessions, id, reason: None };
    config.retry_allowed().await;
    let sent = now();
    let opened = timeout(
        config.open_timeout(lock_sessions.request_timeout),
        config.open(lock_sessions.request_timeout),
    )
    .await;
    close.reason = match opened {
        Ok(Ok(connection)) => {
            lock_sessions.with(|state| state.outbound.session_opened(id, connection.pid, sent));
            SessionTask { lock_sessions, config, id, wake, connection }.run().await
        }
        Ok(Err(error)) => Some(error),
        Err(_) => Some(Error::new(ErrorKind::Unavailable, "no session within the request's time limit")),
    };
}

/// Removes the session from the state when dropped.
struct CloseOnDrop<'a> {
    lock_sessions: &'a LockSessions,
    id: SessionId,
    reason: EndReason,
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let reason = self.reason.take();
        self.lock_sessions.with(|state| state.session_closed(self.id, reason, now()));
    }
}

fn overdue_error() -> Error {
    Error::new(ErrorKind::Unknown, "no answer within the request's time limit")
}

impl SessionTask<'_> {
    async fn run(mut self) -> EndReason {
        let mut has_answered = false;
        loop {
            let reason = match self.lock_sessions.with(|state| state.next_action(self.id, now())) {
                NextAction::Close => return None,
                NextAction::Sleep(until) => {
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = sleep_until(until) => {}
                    }
                    continue;
                }
                NextAction::Ask => self.probe(Batch::default()).await,
                NextAction::Send(batch) => self.send(batch).await,
            };
            if let Err(reason) = reason {
                let is_final = reason.as_ref().is_some_and(|reason| reason.kind().is_final());
                // Another session gets the queued tries, which were not sent; not without end,
                // where each ends with its first statement.
                if has_answered && !is_final {
                    self.lock_sessions.with(|state| state.outbound.session_late(self.id));
                }
                return reason;
            }
            has_answered = true;
        }
    }

    async fn send(&mut self, mut batch: Batch) -> Result<(), EndReason> {
        if batch.unlocks.is_empty() && batch.try_locks.is_empty() {
            return self.probe(batch).await;
        }
        let checks_requests = std::mem::take(&mut batch.checks_requests);
        let answers = std::mem::take(&mut batch.answers);
        self.step(batch).await?;
        if checks_requests { self.probe(Batch { answers, ..Batch::default() }).await } else { Ok(()) }
    }

    async fn step(&mut self, mut batch: Batch) -> Result<(), EndReason> {
        let sent = now();
        let step = self.connection.step(self.config, StepRequest::of(&batch));
        match wait_for_answer(self.lock_sessions, self.id, &mut batch, step).await? {
            Ok(answer) => {
                let requests = self.lock_sessions.with(|state| {
                    state.batch_answered(self.id, batch, answer, sent, now());
                    state.places.leaving.take_immediate()
                });
                if requests.is_empty() { Ok(()) } else { self.leave_queue(requests).await }
            }
            Err(error) if keeps_session(&error) => {
                let is_read_only = error::code(&error) == Some(READ_ONLY_TRANSACTION);
                self.unlock_all(batch, error::of_request(error)).await?;
                if is_read_only { self.end_if_superseded() } else { Ok(()) }
            }
            Err(error) => Err(self.connection_lost(batch, error)),
        }
    }

    /// Leaves the places of granted tickets, except those whose rows another session has locked.
    async fn leave_queue(&mut self, mut requests: Vec<LeaveRequest>) -> Result<(), EndReason> {
        let ttl = self.lock_sessions.with(|state| state.ttl);
        requests.sort_by(|one, other| one.name.cmp(&other.name));
        let places: Vec<_> = requests.iter().map(|request| request.place(ttl)).collect();
        let mut none = Batch::default();
        let leave = self.connection.leave(self.config, &places);
        let answer = wait_for_answer(self.lock_sessions, self.id, &mut none, leave).await;
        // Places that this statement did not leave are left over the engine's connections.
        let has_left =
            answer.as_ref().ok().and_then(|answer| answer.as_ref().ok()).cloned().unwrap_or_default();
        self.lock_sessions.with(|state| {
            let has_left = has_left.into_iter().chain(std::iter::repeat(false));
            for (request, has_left) in requests.into_iter().zip(has_left) {
                if has_left {
                    state.left_queue(request, now());
                } else {
                    state.places.leaving.defer([request]);
                }
            }
        });
        match answer? {
            Err(error) if !keeps_session(&error) => Err(self.connection_lost(none, error)),
            _ => Ok(()),
        }
    }

    /// Unlocks all names of a refused statement, which may have locked or unlocked some of them.
    async fn unlock_all(&mut self, mut batch: Batch, error: Error) -> Result<(), EndReason> {
        let (sent, names) = (now(), batch.names());
        let step = self.connection.unlock_all(self.config, &names);
        match wait_for_answer(self.lock_sessions, self.id, &mut batch, step).await? {
            Ok(()) => {
                // The probes of the batch are answered: the session is alive.
                let probes = std::mem::take(&mut batch.probes);
                self.lock_sessions.with(|state| {
                    state.outbound.session_alive(self.id, probes, sent);
                    state.batch_failed(batch, &error, true);
                });
                Ok(())
            }
            Err(error) => Err(self.connection_lost(batch, error)),
        }
    }

    async fn probe(&mut self, mut batch: Batch) -> Result<(), EndReason> {
        let sent = now();
        let answers = std::mem::take(&mut batch.answers);
        let probe = self.connection.probe(self.config, &answers);
        match wait_for_answer(self.lock_sessions, self.id, &mut batch, probe).await? {
            Ok((requests, takes_writes)) => {
                self.lock_sessions.with(|state| state.probe_answered(self.id, batch, &requests, sent));
                if takes_writes { Ok(()) } else { self.end_if_superseded() }
            }
            Err(error) if keeps_session(&error) && error::code(&error) != Some(INSUFFICIENT_PRIVILEGE) => {
                // A session whose server refuses a statement is alive, and keeps its holds.
                tracing::debug!(
                    db.response.status_code = error::code(&error),
                    exception.message = %error,
                    "a session that keeps mutexes refused a question"
                );
                self.lock_sessions.with(|state| state.outbound.session_alive(self.id, batch.probes, sent));
                Ok(())
            }
            Err(error) => Err(self.connection_lost(batch, error)),
        }
    }

    /// After a switch to read-only, ends the session if another host takes writes, since its holds
    /// do not count there. Otherwise searches for such a host.
    fn end_if_superseded(&self) -> Result<(), EndReason> {
        if !self.config.is_superseded(&self.connection) {
            self.config.search_writable_host(self.lock_sessions.request_timeout);
            return Ok(());
        }
        let error =
            Error::new(ErrorKind::Unavailable, "another server takes writes in place of that of the session");
        log_end(&error);
        Err(Some(error))
    }

    fn connection_lost(&self, batch: Batch, error: sqlx::Error) -> EndReason {
        let error = error::of_request(error);
        log_end(&error);
        let unknown = Error::new(ErrorKind::Unknown, "the session ended before its answer came");
        self.lock_sessions.with(|state| state.batch_failed(batch, &unknown, false));
        Some(error)
    }
}

fn log_end(error: &Error) {
    tracing::warn!(
        name: "stanchion.session.ended",
        {
            error.type = error.kind().as_str(),
            exception.message = ?error,
        },
        "a session that keeps mutexes has ended"
    );
}

/// Waits for the answer to a statement. While one that tries no lock is late, another session
/// serves new tries. If it is overdue, its callers get their reply, too. This session then has the
/// time for which its holds may still be relied on.
async fn wait_for_answer<T>(
    lock_sessions: &LockSessions,
    id: SessionId,
    batch: &mut Batch,
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<Result<T, sqlx::Error>, EndReason> {
    let mut statement = std::pin::pin!(statement);
    let (began, limit) = (now(), lock_sessions.request_timeout);
    if batch.try_locks.is_empty() {
        if let Ok(answer) = timeout_at(began + limit / 4, &mut statement).await {
            return Ok(answer);
        }
        lock_sessions.with(|state| state.outbound.session_late(id));
    }
    if let Ok(answer) = timeout_at(began + limit + OVERDUE_MARGIN, &mut statement).await {
        return Ok(answer);
    }
    let until = lock_sessions.with(|state| state.statement_overdue(id, batch, &overdue_error()));
    match until {
        Some(until) => timeout_at(until, statement).await.map_err(|_| Some(overdue_error())),
        None => Err(Some(overdue_error())),
    }
}
