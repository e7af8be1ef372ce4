//! The life of one session: it takes work from the desk until it breaks or has none left.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::now;
use stanchion_core::{Error, ErrorKind, Name};
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout, timeout_at};

use super::desk::Desk;
use super::post::{Batch, PostId};
use super::wire::{Wire, Wires};
use super::work::Work;
use crate::error;

/// How much later than the server's own limit a statement is overdue.
const LATE: Duration = Duration::from_millis(50);

/// The server's code for a right that the role lacks.
const NO_RIGHT: &str = "42501";

/// A session and its place at the desk.
struct Session<'a> {
    desk: &'a Desk,
    wires: &'a Wires,
    id: PostId,
    wake: Arc<Notify>,
    wire: Wire,
}

/// Why a session ends; `None` if nobody needs it.
type Ended = Option<Error>;

/// Opens a session and has it work to its end.
pub(super) async fn serve(desk: &Desk, wires: &Wires, id: PostId) {
    let found = desk.with(|state| state.posts.get(&id).map(|post| (post.shared, Arc::clone(&post.wake))));
    let Some((shared, wake)) = found else { return };
    // Also where this task comes to an end by itself.
    let mut place = Place { desk, id, ended: None };
    let sent = now();
    let opened = timeout(desk.limit, wires.open(shared.then_some(desk.limit))).await;
    place.ended = match opened {
        Ok(Ok(wire)) => {
            desk.with(|state| state.opened(id, wire.pid, sent));
            Session { desk, wires, id, wake, wire }.run().await
        }
        Ok(Err(error)) => Some(error::of_connect(error, &wires.address())),
        Err(_) => Some(Error::new(ErrorKind::Unavailable, "no session within the request's time limit")),
    };
}

/// The place of a session at the desk, which is given up with it.
struct Place<'a> {
    desk: &'a Desk,
    id: PostId,
    ended: Ended,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let ended = self.ended.take();
        self.desk.with(|state| state.closed(self.id, ended));
    }
}

fn stuck() -> Error {
    Error::new(ErrorKind::Unknown, "no answer within the request's time limit")
}

impl Session<'_> {
    async fn run(mut self) -> Ended {
        loop {
            let ended = match self.desk.with(|state| state.work(self.id, now())) {
                Work::Close => return None,
                Work::Sleep(until) => {
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = sleep_until(until) => {}
                    }
                    continue;
                }
                Work::Send(batch) => self.send(batch).await,
                Work::Wait(name) => self.wait(&name).await,
            };
            if let Err(ended) = ended {
                return ended;
            }
        }
    }

    async fn send(&mut self, mut batch: Batch) -> Result<(), Ended> {
        if batch.unlocks.is_empty() && batch.tries.is_empty() {
            return self.probe(batch).await;
        }
        let asks = std::mem::take(&mut batch.asks);
        let answered = std::mem::take(&mut batch.answered);
        self.step(batch).await?;
        if asks { self.probe(Batch { answered, ..Batch::default() }).await } else { Ok(()) }
    }

    async fn step(&mut self, mut batch: Batch) -> Result<(), Ended> {
        let (sent, names) = (now(), batch.names());
        let freed: Vec<&str> = names.0.iter().map(Name::as_str).collect();
        let wanted: Vec<&str> = names.1.iter().map(Name::as_str).collect();
        let step = self.wire.step(self.wires, &freed, &wanted, batch.looks);
        match answered(self.desk, self.id, &mut batch, step).await? {
            Ok(stepped) => {
                self.desk.with(|state| state.stepped(self.id, batch, &stepped, sent, now()));
                Ok(())
            }
            Err(error) if error::leaves_connection(&error) => {
                let all: Vec<&str> = freed.iter().chain(&wanted).copied().collect();
                self.recover(batch, &all, error::of_request(error)).await
            }
            Err(error) => Err(self.broken(batch, error)),
        }
    }

    /// A refused statement may have locked and unlocked some of its names: none of them is to be held now.
    async fn recover(&mut self, mut batch: Batch, names: &[&str], error: Error) -> Result<(), Ended> {
        let step = self.wire.step(self.wires, names, &[], false);
        match answered(self.desk, self.id, &mut batch, step).await? {
            Ok(_) => {
                self.desk.with(|state| state.refused(batch, &error, true));
                Ok(())
            }
            Err(error) => Err(self.broken(batch, error)),
        }
    }

    async fn probe(&mut self, mut batch: Batch) -> Result<(), Ended> {
        let sent = now();
        let others = self.desk.with(|state| state.waiting_pids());
        let requests = std::mem::take(&mut batch.answered);
        let probe = self.wire.probe(self.wires, &others, &requests);
        match answered(self.desk, self.id, &mut batch, probe).await? {
            Ok(probed) => {
                self.desk.with(|state| state.probed(self.id, batch, &probed, sent));
                Ok(())
            }
            Err(error) if error::leaves_connection(&error) && error::code(&error) != Some(NO_RIGHT) => {
                // A session that refuses a question is there all the same, and so is what it holds.
                tracing::debug!(%error, "a session that keeps mutexes refused a question");
                self.desk.with(|state| state.alive(self.id, batch, sent));
                Ok(())
            }
            Err(error) => Err(self.broken(batch, error)),
        }
    }

    fn broken(&self, batch: Batch, error: sqlx::Error) -> Ended {
        let error = error::of_request(error);
        tracing::warn!(%error, source = ?std::error::Error::source(&error), "a session that keeps mutexes has ended");
        let unknown = Error::new(ErrorKind::Unknown, "the session ended before its answer came");
        self.desk.with(|state| state.refused(batch, &unknown, false));
        Some(error)
    }

    /// Waits in line at the server.
    async fn wait(&mut self, name: &Name) -> Result<(), Ended> {
        let waited = tokio::select! {
            waited = self.wire.wait(self.wires, name.as_str()) => waited,
            () = called_off(self.desk, self.id, &self.wake) => return Err(None),
        };
        match waited {
            Ok(token) => {
                // It is ended soon unless it is heard now.
                let sent = now();
                let mut none = Batch::default();
                let confirm = self.wire.confirm(self.wires);
                answered(self.desk, self.id, &mut none, confirm)
                    .await?
                    .map_err(|error| self.broken(none, error))?;
                if let Some(token) = token {
                    self.desk.with(|state| state.granted(self.id, name, token, sent));
                }
                Ok(())
            }
            Err(error) if error::leaves_connection(&error) && ends_wait(&error) => {
                tracing::debug!(%error, %name, "the wait at the server ended without the lock");
                let reopened = timeout(self.desk.limit + LATE, self.wire.reopen(self.wires)).await;
                let reopened = reopened.map_err(|_| Some(stuck()))?;
                reopened.map_err(|error| Some(error::of_request(error)))
            }
            Err(error) => Err(self.broken(Batch::default(), error)),
        }
    }
}

/// Whether a wait ended because it lasted too long, was cancelled or closed a ring of waits. What else the server refuses
/// it would refuse again.
fn ends_wait(error: &sqlx::Error) -> bool {
    matches!(error::code(error), Some("55P03" | "57014" | "40P01"))
}

/// The answer to a statement. When it is overdue its callers are told so, and others are served by another session; this
/// one gets the time for which its holds may be believed.
async fn answered<T>(
    desk: &Desk,
    id: PostId,
    batch: &mut Batch,
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<Result<T, sqlx::Error>, Ended> {
    let mut statement = std::pin::pin!(statement);
    if let Ok(answer) = timeout(desk.limit + LATE, &mut statement).await {
        return Ok(answer);
    }
    let until = desk.with(|state| state.overdue(id, batch, &stuck()));
    match until {
        Some(until) => timeout_at(until, statement).await.map_err(|_| Some(stuck())),
        None => Err(Some(stuck())),
    }
}

/// Nobody wants the wait any more.
async fn called_off(desk: &Desk, id: PostId, wake: &Notify) {
    while !desk.with(|state| state.posts.get(&id).is_none_or(|post| post.closing)) {
        wake.notified().await;
    }
}
