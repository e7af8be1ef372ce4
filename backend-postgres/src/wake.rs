//! The source of wake-ups: one connection that listens to the channel of the process.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Acquire, PgConnection};
use stanchion_core::clock::{Instant, now};
use stanchion_core::steps::{Object, ProcessId, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::access::Sessions;
use crate::error;
use crate::hints::LocalHints;
use crate::hosts::Session;

/// Timeout of one wait for hints.
const HINT_TIMEOUT: Duration = Duration::from_millis(900);
/// Maximum time that a connection may be silent before it is checked by a ping at its next use.
const MAX_UNCHECKED_SILENCE: Duration = Duration::from_secs(5);

/// The source of hints to the waiters of one process: one connection, whatever the number of waiters. Through a pooler
/// there are no hints, and waiters proceed by the poll floor.
pub struct PostgresWake {
    sessions: Option<Sessions>,
    channels: Vec<String>,
    local: Arc<LocalHints>,
    idle: Mutex<Option<Listening>>,
}

/// A connection that listens.
struct Listening {
    /// Always `Some` until the drop. The `Drop` of the listener needs a runtime, and this value may be dropped outside
    /// of any.
    listener: Option<PgListener>,
    runtime: Handle,
    heard: Instant,
}

impl PostgresWake {
    /// Makes a source for the channel of each process that this one is at the store. It connects when it is used.
    pub(crate) fn new(sessions: Option<Sessions>, processes: Vec<ProcessId>, local: Arc<LocalHints>) -> Self {
        let channels = processes.iter().map(|process| format!("stanchion_{process}")).collect();
        Self { sessions, channels, local, idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Option<Listening>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, sessions: &Sessions) -> Result<Listening> {
        let limit = sessions.access.hosts().timeout_of_each(sessions.settings.request_timeout);
        let made = sessions.session::<PgListener>(limit).await?;
        let mut listener = made.ok_or_else(|| sessions.unconnected())?;
        let failed = |error| error::certain(error::of_request(error));
        listener.listen_all(self.channels.iter().map(String::as_str)).await.map_err(failed)?;
        Ok(Listening { listener: Some(listener), runtime: Handle::current(), heard: now() })
    }
}

impl Session for PgListener {
    async fn connect(options: PgConnectOptions, limit: Duration) -> sqlx::Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(limit)
            .test_before_acquire(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(options);
        let mut listener = Self::connect_with(&pool).await?;
        listener.ignore_pool_close_event(true);
        // A broken connection is replaced by the source, which listens to its channels again.
        listener.eager_reconnect(false);
        Ok(listener)
    }

    async fn connection(&mut self) -> sqlx::Result<&mut PgConnection> {
        self.acquire().await
    }
}

impl Listening {
    fn listener(&mut self) -> Result<&mut PgListener> {
        self.listener.as_mut().ok_or_else(broken)
    }

    /// Checks whether the connection still works. Hints that arrive meanwhile are kept.
    async fn probe(&mut self, sessions: &Sessions) -> Result<()> {
        let hosts = sessions.access.hosts();
        let asked = timeout(sessions.settings.request_timeout, hosts.ask(self.listener()?)).await;
        match asked {
            Ok(Ok(None)) => {
                self.heard = now();
                Ok(())
            }
            Ok(Ok(Some(why))) => Err(Error::new(ErrorKind::Unavailable, why)),
            Ok(Err(error)) => Err(error::certain(error::of_request(error))),
            Err(_) => Err(late()),
        }
    }

    /// Waits for hints, also for those that this process gives itself.
    async fn hints(&mut self, sessions: &Sessions, local: &LocalHints) -> Result<Vec<Ticket>> {
        if now() - self.heard > MAX_UNCHECKED_SILENCE {
            self.probe(sessions).await?;
        }
        let listener = self.listener()?;
        let heard = async {
            tokio::select! {
                () = local.arrived.notified() => None,
                heard = listener.try_recv() => Some(heard),
            }
        };
        // One of the two at random if both are there: neither waits for long behind many of the other.
        match timeout(HINT_TIMEOUT, heard).await.map(Option::transpose) {
            Ok(Ok(None)) => Ok(local.take()),
            Ok(Ok(Some(Some(hint)))) => {
                self.heard = now();
                let mut hints = local.take();
                hints.extend(tickets(hint.payload()));
                while let Some(hint) = self.listener()?.next_buffered() {
                    hints.extend(tickets(hint.payload()));
                }
                Ok(hints)
            }
            Ok(Ok(Some(None))) => Err(broken()),
            Ok(Err(error)) => Err(error::certain(error::of_request(error))),
            Err(_) => {
                self.probe(sessions).await?;
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
            let _ = timeout(HINT_TIMEOUT, self.local.arrived.notified()).await;
            return Ok(self.local.take());
        };
        // The connection is taken out while it is in use: a call that is dropped drops it, too.
        let idle = self.idle().take();
        let mut listening = match idle {
            Some(listening) => listening,
            None => {
                let limit = sessions.access.hosts().timeout_of_all(sessions.settings.request_timeout);
                timeout(limit, self.connect(sessions)).await.map_err(|_| late())??
            }
        };
        let hints = listening.hints(sessions, &self.local).await?;
        *self.idle() = Some(listening);
        Ok(hints)
    }
}

fn broken() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection for wake-ups broke")
}

fn late() -> Error {
    Error::new(ErrorKind::Unavailable, "no answer within the request timeout")
}

/// Returns the tickets in a payload. Any other text was not sent by a step and is ignored.
fn tickets(payload: &str) -> Vec<Ticket> {
    payload.split(',').filter_map(|ticket| ticket.parse().ok()).collect()
}

impl fmt::Debug for PostgresWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresWake").field("channels", &self.channels).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
