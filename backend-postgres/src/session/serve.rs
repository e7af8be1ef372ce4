//! The life of one session: it takes work from the desk until it breaks or has none left.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::now;
use stanchion_core::{Error, ErrorKind};
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout, timeout_at};

use super::desk::Desk;
use super::errands::Departure;
use super::post::{Batch, PostId};
use super::wire::{Request, Wire, Wires};
use super::work::Work;
use crate::error;

/// How much later than the server's own limit a statement is overdue.
const LATE: Duration = Duration::from_millis(50);

/// The server's code for a right that the role lacks.
const NO_RIGHT: &str = "42501";

/// The server's code for a write where only reads are allowed.
const READ_ONLY: &str = "25006";

/// Whether the server only refused the statement. After a switch to read-only a session keeps what it holds, unless another host takes
/// writes.
fn leaves_session(error: &sqlx::Error) -> bool {
    error::leaves_connection(error) || error::code(error) == Some(READ_ONLY)
}

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
    let Some(wake) = desk.with(|state| state.posts.get(&id).map(|post| Arc::clone(&post.wake))) else {
        return;
    };
    // Also where this task comes to an end by itself.
    let mut place = Place { desk, id, ended: None };
    wires.due().await;
    let sent = now();
    let opened = timeout(wires.open_timeout(desk.limit), wires.open(desk.limit)).await;
    place.ended = match opened {
        Ok(Ok(wire)) => {
            desk.with(|state| state.opened(id, wire.pid, sent));
            Session { desk, wires, id, wake, wire }.run().await
        }
        Ok(Err(error)) => Some(error),
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
        self.desk.with(|state| state.closed(self.id, ended, now()));
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
        let sent = now();
        let step = self.wire.step(self.wires, Request::of(&batch));
        match answered(self.desk, self.id, &mut batch, step).await? {
            Ok(stepped) => {
                let departing = self.desk.with(|state| {
                    state.stepped(self.id, batch, stepped, sent, now());
                    state.departing_at_once()
                });
                if departing.is_empty() { Ok(()) } else { self.leave(departing).await }
            }
            Err(error) if leaves_session(&error) => {
                let is_read_only = error::code(&error) == Some(READ_ONLY);
                self.recover(batch, error::of_request(error)).await?;
                if is_read_only { self.stay_unless_outlived() } else { Ok(()) }
            }
            Err(error) => Err(self.broken(batch, error)),
        }
    }

    /// Gives up the places of what was granted, unless somebody has their rows locked.
    async fn leave(&mut self, mut departing: Vec<Departure>) -> Result<(), Ended> {
        let ttl = self.desk.with(|state| state.ttl);
        departing.sort_by(|one, other| one.name.cmp(&other.name));
        let places: Vec<_> = departing.iter().map(|departure| departure.place(ttl)).collect();
        let mut none = Batch::default();
        let leave = self.wire.leave(self.wires, &places);
        let answer = answered(self.desk, self.id, &mut none, leave).await;
        // Whatever became of the statement, the engine's connections do the rest.
        let has_left =
            answer.as_ref().ok().and_then(|answer| answer.as_ref().ok()).cloned().unwrap_or_default();
        self.desk.with(|state| {
            let has_left = has_left.into_iter().chain(std::iter::repeat(false));
            for (departure, has_left) in departing.into_iter().zip(has_left) {
                if has_left {
                    state.departed(departure, now());
                } else {
                    state.depart_later([departure]);
                }
            }
        });
        match answer? {
            Err(error) if !leaves_session(&error) => Err(self.broken(none, error)),
            _ => Ok(()),
        }
    }

    /// A refused statement may have locked and unlocked some of its names: none of them is to be held now.
    async fn recover(&mut self, mut batch: Batch, error: Error) -> Result<(), Ended> {
        let (sent, names) = (now(), batch.names());
        let step = self.wire.unlock(self.wires, &names);
        match answered(self.desk, self.id, &mut batch, step).await? {
            Ok(()) => {
                // What came with it, and only asked whether the session is there, is told so.
                let probes = Batch { probes: std::mem::take(&mut batch.probes), ..Batch::default() };
                self.desk.with(|state| {
                    state.alive(self.id, probes, sent);
                    state.refused(batch, &error, true);
                });
                Ok(())
            }
            Err(error) => Err(self.broken(batch, error)),
        }
    }

    async fn probe(&mut self, mut batch: Batch) -> Result<(), Ended> {
        let sent = now();
        let answers = std::mem::take(&mut batch.answered);
        let probe = self.wire.probe(self.wires, &answers);
        match answered(self.desk, self.id, &mut batch, probe).await? {
            Ok((evictions, takes_writes)) => {
                self.desk.with(|state| state.probed(self.id, batch, &evictions, sent));
                if takes_writes { Ok(()) } else { self.stay_unless_outlived() }
            }
            Err(error) if leaves_session(&error) && error::code(&error) != Some(NO_RIGHT) => {
                // A session that refuses a question is there all the same, and so is what it holds.
                tracing::debug!(
                    db.response.status_code = error::code(&error),
                    exception.message = %error,
                    "a session that keeps mutexes refused a question"
                );
                self.desk.with(|state| state.alive(self.id, batch, sent));
                Ok(())
            }
            Err(error) => Err(self.broken(batch, error)),
        }
    }

    /// After a switch to read-only, ends the session if another host takes writes: there its holds do not count. Looks for one
    /// otherwise.
    fn stay_unless_outlived(&self) -> Result<(), Ended> {
        if !self.wires.is_outlived(&self.wire) {
            self.wires.look_for_another(self.desk.limit);
            return Ok(());
        }
        let error =
            Error::new(ErrorKind::Unavailable, "another server takes writes in place of that of the session");
        tell_end(&error);
        Err(Some(error))
    }

    fn broken(&self, batch: Batch, error: sqlx::Error) -> Ended {
        let error = error::of_request(error);
        tell_end(&error);
        let unknown = Error::new(ErrorKind::Unknown, "the session ended before its answer came");
        self.desk.with(|state| state.refused(batch, &unknown, false));
        Some(error)
    }
}

fn tell_end(error: &Error) {
    tracing::warn!(
        name: "stanchion.session.ended",
        {
            error.type = error.kind().as_str(),
            exception.message = ?error,
        },
        "a session that keeps mutexes has ended"
    );
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
