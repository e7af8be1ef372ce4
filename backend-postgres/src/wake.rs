//! The source of wake-ups: one connection that listens to the process's own channel.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Acquire, Connection};
use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::steps::{Object, ProcessId, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::access::Sessions;
use crate::error;

/// How long hints are waited for.
const WAIT: Duration = Duration::from_millis(900);
/// A connection that was silent for longer is asked whether it still works before it is listened to.
const FRESH: Duration = Duration::from_secs(5);

/// Hints to the waiters of one process, on one connection whatever the number of waiters. Where a pooler stands before
/// the server there are none, and the poll floor serves.
pub struct PostgresWake {
    sessions: Option<Sessions>,
    channel: String,
    idle: Mutex<Option<Listening>>,
}

/// A connection that listens.
struct Listening {
    /// Always there, until it is dropped: its own `Drop` needs a runtime, and ours may come where there is none.
    listener: Option<PgListener>,
    runtime: Handle,
    heard: Instant,
}

impl PostgresWake {
    /// Over the channel of a process, not connected yet.
    pub(crate) fn new(sessions: Option<Sessions>, process: ProcessId) -> Self {
        Self { sessions, channel: format!("stanchion_{process}"), idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Option<Listening>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, sessions: &Sessions) -> sqlx::Result<Listening> {
        let limit = sessions.settings.limit;
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(limit)
            .test_before_acquire(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(sessions.options());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.ignore_pool_close_event(true);
        // One that breaks is made anew here, with its channel.
        listener.eager_reconnect(false);
        listener.listen(&self.channel).await?;
        Ok(Listening { listener: Some(listener), runtime: Handle::current(), heard: now() })
    }
}

impl Listening {
    fn listener(&mut self) -> Result<&mut PgListener> {
        self.listener.as_mut().ok_or_else(broken)
    }

    /// Asks whether the connection still works; hints that come meanwhile are kept.
    async fn probe(&mut self, limit: Duration) -> Result<()> {
        let listener = self.listener()?;
        let asked = timeout(limit, async { listener.acquire().await?.ping().await }).await;
        match asked {
            Ok(Ok(())) => {
                self.heard = now();
                Ok(())
            }
            Ok(Err(error)) => Err(error::certain(error::of_request(error))),
            Err(_) => Err(late()),
        }
    }

    /// Waits for hints.
    async fn hints(&mut self, limit: Duration) -> Result<Vec<Ticket>> {
        if now() - self.heard > FRESH {
            self.probe(limit).await?;
        }
        match timeout(WAIT, self.listener()?.try_recv()).await {
            Ok(Ok(Some(hint))) => {
                self.heard = now();
                let mut hints = tickets(hint.payload());
                while let Some(hint) = self.listener()?.next_buffered() {
                    hints.extend(tickets(hint.payload()));
                }
                Ok(hints)
            }
            Ok(Ok(None)) => Err(broken()),
            Ok(Err(error)) => Err(error::certain(error::of_request(error))),
            Err(_) => {
                self.probe(limit).await?;
                Ok(Vec::new())
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _runtime = self.runtime.enter();
        drop(self.listener.take());
    }
}

#[async_trait]
impl WakeSource for PostgresWake {
    fn watch(&self, _: &Object, _: bool) {}

    async fn next(&self) -> Result<Vec<Ticket>> {
        let Some(sessions) = &self.sessions else {
            sleep(WAIT).await;
            return Ok(Vec::new());
        };
        let limit = sessions.settings.limit;
        // Taken out while in use: a call dropped half way takes its connection along.
        let idle = self.idle().take();
        let mut listening = match idle {
            Some(listening) => listening,
            None => {
                let connected = timeout(limit, self.connect(sessions)).await.map_err(|_| late())?;
                connected.map_err(|error| error::certain(error::of_request(error)))?
            }
        };
        let hints = listening.hints(limit).await?;
        *self.idle() = Some(listening);
        Ok(hints)
    }
}

fn broken() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection for wake-ups broke")
}

fn late() -> Error {
    Error::new(ErrorKind::Unavailable, "no answer within the time limit")
}

/// The tickets in a payload; what is none was not sent by a step and is ignored.
fn tickets(payload: &str) -> Vec<Ticket> {
    payload.split(',').filter_map(|ticket| ticket.parse().ok()).collect()
}

impl fmt::Debug for PostgresWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresWake").field("channel", &self.channel).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
