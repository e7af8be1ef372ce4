//! Wake-ups on one server: one blocking pop over the mailboxes of all namespaces of a store.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::Cmd;
use stanchion_core::clock::now;
use stanchion_core::spi::HintBox;
use stanchion_core::{Result, Ticket};
use tokio::sync::Notify;

use super::{Hint, POP_TIMEOUT, pop, popped};
use crate::connection::Connection;
use crate::connector::Connect;
use crate::error;
use crate::keys::Keyspace;
use crate::pool::Pool;

/// The hints to one namespace.
pub(crate) struct Inbox {
    /// How its keys begin.
    prefix: String,
    boxes: Vec<String>,
    /// Number of objects that are waited for.
    watched: AtomicUsize,
    /// Those that another namespace's call has received.
    hints: HintBox,
}

#[derive(Default)]
struct Inboxes {
    all: Vec<Weak<Inbox>>,
    /// How often the set of those that are waited for has changed.
    version: u64,
    /// The last pop waits for the boxes of this version.
    popped: u64,
}

/// The wake-ups of one server.
pub(crate) struct ServerWake {
    connector: Arc<dyn Connect>,
    timeout: Duration,
    /// Ends a pop that does not wait for a box it should wait for.
    nudges: Arc<Pool>,
    inboxes: Mutex<Inboxes>,
    /// Whoever has it waits for all namespaces. It is taken out while in use: a call that is
    /// dropped half way drops its connection, which a pop still blocks.
    connection: tokio::sync::Mutex<Option<Connection>>,
    /// Another namespace is waited for.
    changed: Notify,
    /// How often the server was to be left.
    departures: AtomicU64,
    left: Notify,
}

impl ServerWake {
    /// `timeout` is how late an answer may be, `nudges` leads to the same server.
    pub(crate) fn new(connector: Arc<dyn Connect>, timeout: Duration, nudges: Arc<Pool>) -> Arc<Self> {
        Arc::new(Self {
            connector,
            timeout,
            nudges,
            inboxes: Mutex::default(),
            connection: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            departures: AtomicU64::new(0),
            left: Notify::new(),
        })
    }

    /// Makes the inbox of a namespace over the mailboxes of the process.
    pub(super) fn open(&self, keyspace: &Keyspace, boxes: Vec<String>) -> Arc<Inbox> {
        let prefix = format!("{{{}/", keyspace.namespace());
        let (hints, watched) = (HintBox::default(), AtomicUsize::new(0));
        let inbox = Arc::new(Inbox { prefix, boxes, watched, hints });
        self.inboxes().all.push(Arc::downgrade(&inbox));
        inbox
    }

    /// Notes that an object of the namespace is waited for, or no more.
    pub(super) fn watch(&self, inbox: &Inbox, waited_for: bool) {
        if !waited_for {
            let _ = inbox.watched.fetch_update(Relaxed, Relaxed, |watched| watched.checked_sub(1));
        } else if inbox.watched.fetch_add(1, Relaxed) == 0 {
            self.inboxes().version += 1;
            self.changed.notify_one();
        }
    }

    /// Returns the next hints to a namespace, or none after a while.
    pub(super) async fn next(&self, own: &Inbox) -> Result<Vec<Ticket>> {
        loop {
            let Some(mut connection) = own.hints.lead(&self.connection).await else {
                return Ok(own.hints.take());
            };
            let Some(Hint { key, tickets }) = self.pop(own, &mut connection).await? else {
                return Ok(Vec::new());
            };
            if key.starts_with(&own.prefix) {
                return Ok(tickets);
            }
            let all: Vec<_> = self.inboxes().all.iter().filter_map(Weak::upgrade).collect();
            let to = all.iter().filter(|inbox| key.starts_with(&inbox.prefix));
            to.for_each(|inbox| inbox.hints.put(tickets.clone()));
        }
    }

    /// Waits for a hint to any namespace that is waited for, and to `own`.
    async fn pop(&self, own: &Inbox, connection: &mut Option<Connection>) -> Result<Option<Hint>> {
        let departures = self.departures.load(Relaxed);
        let mut open = match connection.take() {
            Some(open) => open,
            None => self.connector.connect().await?,
        };
        let command = self.command(own);
        let answer = {
            let mut popping = std::pin::pin!(popped(&mut open, &command, self.timeout));
            loop {
                if self.departures.load(Relaxed) != departures {
                    return Ok(None);
                }
                tokio::select! {
                    answer = &mut popping => break answer?,
                    () = self.left.notified() => {}
                    () = self.changed.notified() => self.nudge(own).await,
                }
            }
        };
        if self.departures.load(Relaxed) == departures {
            // A server that refuses a pop says nothing against its connection.
            *connection = Some(open);
        }
        answer.map_err(|error| error::certain(error::of_request(error)))
    }

    /// Returns the pop over the boxes that are waited for: those of each namespace come first in
    /// their turn.
    fn command(&self, own: &Inbox) -> Cmd {
        let mut inboxes = self.inboxes();
        inboxes.all.retain(|inbox| inbox.strong_count() > 0);
        let turn = inboxes.all.len().min(1);
        inboxes.all.rotate_left(turn);
        inboxes.popped = inboxes.version;
        let open: Vec<_> = inboxes.all.iter().filter_map(Weak::upgrade).collect();
        drop(inboxes);
        let is_waited_for =
            |inbox: &&Arc<Inbox>| std::ptr::eq(Arc::as_ptr(inbox), own) || inbox.watched.load(Relaxed) > 0;
        let boxes: Vec<_> = open.iter().filter(is_waited_for).flat_map(|inbox| &inbox.boxes).collect();
        pop(&boxes)
    }

    /// Ends the pop under way by an element that is no hint, if it does not wait for all boxes that
    /// it should wait for.
    async fn nudge(&self, own: &Inbox) {
        let is_complete = {
            let inboxes = self.inboxes();
            inboxes.popped == inboxes.version
        };
        let Some(key) = own.boxes.first().filter(|_| !is_complete) else { return };
        let (mut push, mut expire) = (redis::cmd("RPUSH"), redis::cmd("PEXPIRE"));
        push.arg(key).arg("");
        expire.arg(key).arg(POP_TIMEOUT.as_millis() * 2);
        let end = now() + self.timeout;
        for command in [push, expire] {
            if let Err(error) = self.nudges.send(&command.into(), false, end).await {
                tracing::debug!(
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                    "a namespace's waiters ask by themselves for now"
                );
            }
        }
    }

    /// Returns the number of open connections; one that a call waits on, or is being made, is open.
    pub(crate) fn open_connections(&self) -> usize {
        self.connection.try_lock().map_or(1, |connection| usize::from(connection.is_some()))
    }

    /// Drops the connection; the next one is made anew.
    pub(crate) fn leave(&self) {
        self.departures.fetch_add(1, Relaxed);
        if let Ok(mut connection) = self.connection.try_lock() {
            *connection = None;
        }
        self.left.notify_waiters();
    }

    fn inboxes(&self) -> MutexGuard<'_, Inboxes> {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ServerWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerWake").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
