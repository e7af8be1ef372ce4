//! The source of wake-ups: one connection of a store that listens to the channels of the process,
//! of each namespace others.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgNotification, PgPoolOptions};
use sqlx::{Acquire, Connection, PgConnection};
use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::{HintBox, Object, ProcessId, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};

use crate::connector::{Connector, ServerConnection};
use crate::error;

/// Timeout of one wait for hints.
const HINT_TIMEOUT: Duration = Duration::from_millis(900);
/// Channels without a namespace that are kept, beside as many as there are others.
const MAX_GONE: usize = 16;
/// Maximum time that a connection may be silent before it is checked by a ping at its next use.
const MAX_UNCHECKED_SILENCE: Duration = Duration::from_secs(5);

/// The source of hints to the waiters of one process in a namespace. Through a pooler there are no
/// hints, and waiters proceed by the poll floor.
pub struct PostgresWake {
    listener: Arc<Listener>,
    channels: Vec<String>,
    local: Arc<HintBox>,
}

/// The connection that listens for all namespaces of a store, whatever the number of waiters:
/// whoever waits for hints and finds it free waits at it for all.
pub(crate) struct Listener {
    connector: Option<Connector>,
    /// Where the hints of a channel go.
    boxes: Mutex<HashMap<String, Arc<HintBox>>>,
    /// Notified when there are other channels.
    changed: Notify,
    idle: tokio::sync::Mutex<Option<Listening>>,
}

/// A connection that listens.
struct Listening {
    /// Always `Some` until the drop. The `Drop` of the listener needs a runtime, and this value may
    /// be dropped outside of any.
    listener: Option<PgListener>,
    channels: HashSet<String>,
    runtime: Handle,
    heard: Instant,
    /// A statement of it is under way, or was dropped half way.
    is_asked: bool,
}

impl Listener {
    /// Makes the listener of a store. It connects when it is used.
    pub(crate) fn new(connector: Option<Connector>) -> Arc<Self> {
        let (boxes, changed, idle) = (Mutex::default(), Notify::new(), tokio::sync::Mutex::default());
        Arc::new(Self { connector, boxes, changed, idle })
    }

    /// Returns the number of open connections; one that a call waits on, or is being made, is open.
    pub(crate) fn open_connections(&self) -> usize {
        self.idle.try_lock().map_or(1, |idle| usize::from(idle.is_some()))
    }

    fn boxes(&self) -> MutexGuard<'_, HashMap<String, Arc<HintBox>>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, connector: &Connector) -> Result<Listening> {
        // It logs in twice.
        let limit = connector.timeout_of_each(connector.settings.request_timeout) * 2;
        let made = connector.connect::<PgListener>(limit).await?;
        let listener = Some(made.ok_or_else(|| connector.unconnected())?);
        let (channels, runtime) = (HashSet::new(), Handle::current());
        let mut listening = Listening { listener, channels, runtime, heard: now(), is_asked: false };
        listening.follow(self, connector).await?;
        Ok(listening)
    }
}

impl PostgresWake {
    /// Makes a source for the channel of each process that this one is at the store.
    pub(crate) fn new(
        listener: &Arc<Listener>,
        processes: impl IntoIterator<Item = ProcessId>,
        local: Arc<HintBox>,
    ) -> Self {
        let channels: Vec<_> = processes.into_iter().map(|process| format!("stanchion_{process}")).collect();
        let boxes = channels.iter().map(|channel| (channel.clone(), Arc::clone(&local)));
        listener.boxes().extend(boxes);
        listener.changed.notify_one();
        Self { listener: Arc::clone(listener), channels, local }
    }
}

impl Drop for PostgresWake {
    fn drop(&mut self) {
        let mut boxes = self.listener.boxes();
        for channel in &self.channels {
            boxes.remove(channel);
        }
        drop(boxes);
        self.listener.changed.notify_one();
    }
}

impl ServerConnection for PgListener {
    async fn connect(options: PgConnectOptions, limit: Duration) -> sqlx::Result<Self> {
        // The client library's pool would hide a refusal, and ask again within milliseconds (C28).
        PgConnection::connect_with(&options).await?.close().await?;
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
    async fn probe(&mut self, connector: &Connector) -> Result<()> {
        self.is_asked = true;
        let asked = timeout(connector.settings.request_timeout, connector.ask(self.listener()?)).await;
        self.is_asked = asked.is_err();
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

    /// Listens to the channels that there are now. Nobody sends to those of namespaces that are
    /// gone: they are left when there are many.
    async fn follow(&mut self, of: &Listener, connector: &Connector) -> Result<()> {
        let wanted: HashSet<String> = of.boxes().keys().cloned().collect();
        let leaves = self.channels.difference(&wanted).count() > wanted.len() + MAX_GONE;
        let mut listened = if leaves { HashSet::new() } else { self.channels.clone() };
        let new: Vec<_> = wanted.difference(&listened).cloned().collect();
        if !leaves && new.is_empty() {
            return Ok(());
        }
        self.is_asked = true;
        let listener = self.listener()?;
        let asked = async {
            if leaves {
                listener.unlisten_all().await?;
            }
            listener.listen_all(new.iter().map(String::as_str)).await
        };
        let asked = timeout(connector.settings.request_timeout, asked).await.map_err(|_| late())?;
        asked.map_err(|error| error::certain(error::of_request(error)))?;
        listened.extend(new);
        (self.channels, self.is_asked) = (listened, false);
        Ok(())
    }

    /// Waits for hints, also for those that this process gives itself. Those to other namespaces
    /// are put into their boxes.
    async fn hints(
        &mut self,
        of: &Listener,
        connector: &Connector,
        local: &Arc<HintBox>,
    ) -> Result<Vec<Ticket>> {
        if now() - self.heard > MAX_UNCHECKED_SILENCE {
            self.probe(connector).await?;
        }
        let end = now() + HINT_TIMEOUT;
        loop {
            let listener = self.listener()?;
            let heard = async {
                tokio::select! {
                    () = local.arrived() => Heard::Local,
                    () = of.changed.notified() => Heard::Changed,
                    heard = listener.try_recv() => Heard::Hint(heard),
                }
            };
            // One of them at random if several are there: none waits for long behind many of
            // another.
            match timeout_at(end, heard).await {
                Ok(Heard::Local) => return Ok(local.take()),
                Ok(Heard::Changed) => self.follow(of, connector).await?,
                Ok(Heard::Hint(Ok(Some(hint)))) => {
                    self.heard = now();
                    let mut hints = local.take();
                    hints.extend(of.sorted(&hint, local));
                    while let Some(hint) = self.listener()?.next_buffered() {
                        hints.extend(of.sorted(&hint, local));
                    }
                    if !hints.is_empty() {
                        return Ok(hints);
                    }
                }
                Ok(Heard::Hint(Ok(None))) => return Err(broken()),
                Ok(Heard::Hint(Err(error))) => return Err(error::certain(error::of_request(error))),
                Err(_) => {
                    self.probe(connector).await?;
                    return Ok(Vec::new());
                }
            }
        }
    }
}

/// What there is while hints are waited for.
enum Heard {
    Local,
    Changed,
    Hint(sqlx::Result<Option<PgNotification>>),
}

impl Listener {
    /// Returns the tickets of a hint, if it is to the namespace of that box.
    fn sorted(&self, hint: &PgNotification, local: &Arc<HintBox>) -> Vec<Ticket> {
        let tickets = tickets(hint.payload());
        match self.boxes().get(hint.channel()) {
            Some(to) if Arc::ptr_eq(to, local) => tickets,
            Some(to) => {
                to.put(tickets);
                Vec::new()
            }
            None => Vec::new(),
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
        let Some(connector) = &self.listener.connector else {
            let _ = timeout(HINT_TIMEOUT, self.local.arrived()).await;
            return Ok(self.local.take());
        };
        let turn = timeout(HINT_TIMEOUT, self.local.lead(&self.listener.idle)).await;
        let Ok(Some(mut turn)) = turn else { return Ok(self.local.take()) };
        // A call that is dropped while it waits leaves the connection to the next, and one that is
        // dropped while it asks does not.
        turn.take_if(|listening| listening.is_asked);
        let listening = match &mut *turn {
            Some(listening) => listening,
            none => {
                let limit = connector.timeout_of_all(connector.settings.request_timeout);
                let made = timeout(limit, self.listener.connect(connector)).await.map_err(|_| late())??;
                none.insert(made)
            }
        };
        let hints = listening.hints(&self.listener, connector, &self.local).await;
        if hints.is_err() {
            *turn = None;
        }
        hints
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

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("channels", &self.boxes().len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for PostgresWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresWake").field("channels", &self.channels).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
