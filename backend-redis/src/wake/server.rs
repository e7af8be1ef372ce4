//! Wake-ups on one server: one blocking pop over the mailboxes of all namespaces of a store.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::Cmd;
use redis::aio::MultiplexedConnection;
use stanchion_core::{Result, Ticket};
use tokio::sync::Notify;

use super::{Hint, pop, popped};
use crate::error;
use crate::keys::Keyspace;
use crate::link::Endpoint;

/// The hints to one namespace.
pub(crate) struct Inbox {
    /// How its keys begin.
    prefix: String,
    boxes: Vec<String>,
    /// Those that another namespace's call has received.
    hints: Mutex<Vec<Ticket>>,
    arrived: Notify,
}

struct Inboxes {
    all: Vec<Weak<Inbox>>,
    /// Waits for a hint to any of them.
    command: Arc<Cmd>,
}

/// The wake-ups of one server.
pub(crate) struct ServerWake {
    endpoint: Endpoint,
    timeout: Duration,
    inboxes: Mutex<Inboxes>,
    /// Whoever has it waits for all namespaces. It is taken out while in use: a call that is dropped half way drops its
    /// connection, which a pop still blocks.
    connection: tokio::sync::Mutex<Option<MultiplexedConnection>>,
    /// The server is to be left.
    left: Notify,
}

impl Inbox {
    fn take(&self) -> Vec<Ticket> {
        std::mem::take(&mut *self.hints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, ticket: Ticket) {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).push(ticket);
        self.arrived.notify_one();
    }
}

impl ServerWake {
    /// `timeout` is how late an answer may be.
    pub(crate) fn new(endpoint: Endpoint, timeout: Duration) -> Arc<Self> {
        let inboxes = Mutex::new(Inboxes { all: Vec::new(), command: Arc::new(Cmd::new()) });
        Arc::new(Self {
            endpoint,
            timeout,
            inboxes,
            connection: tokio::sync::Mutex::default(),
            left: Notify::new(),
        })
    }

    /// Makes the inbox of a namespace over the mailboxes of the process. A pop under way goes on without them.
    pub(super) fn open(&self, keyspace: &Keyspace, boxes: Vec<String>) -> Arc<Inbox> {
        let prefix = format!("{{{}/", keyspace.namespace());
        let inbox = Arc::new(Inbox { prefix, boxes, hints: Mutex::default(), arrived: Notify::new() });
        let mut inboxes = self.inboxes();
        inboxes.all.retain(|other| other.strong_count() > 0);
        inboxes.all.push(Arc::downgrade(&inbox));
        let open: Vec<_> = inboxes.all.iter().filter_map(Weak::upgrade).collect();
        let boxes: Vec<_> = open.iter().flat_map(|inbox| &inbox.boxes).collect();
        inboxes.command = Arc::new(pop(&boxes));
        inbox
    }

    /// Returns the next hints to a namespace, or none after a while.
    pub(super) async fn next(&self, own: &Inbox) -> Result<Vec<Ticket>> {
        loop {
            let mut connection = tokio::select! {
                () = own.arrived.notified() => return Ok(own.take()),
                connection = self.connection.lock() => connection,
            };
            let hints = own.take();
            if !hints.is_empty() {
                return Ok(hints);
            }
            let Some(Hint { key, ticket }) = self.pop(&mut connection).await? else { return Ok(Vec::new()) };
            if key.starts_with(&own.prefix) {
                return Ok(vec![ticket]);
            }
            let all: Vec<_> = self.inboxes().all.iter().filter_map(Weak::upgrade).collect();
            all.iter().filter(|inbox| key.starts_with(&inbox.prefix)).for_each(|inbox| inbox.put(ticket));
        }
    }

    async fn pop(&self, connection: &mut Option<MultiplexedConnection>) -> Result<Option<Hint>> {
        let mut open = match connection.take() {
            Some(open) => open,
            None => self.endpoint.connect().await?.0,
        };
        let command = Arc::clone(&self.inboxes().command);
        let hint = tokio::select! {
            hint = popped(&mut open, &command, self.timeout) => hint?,
            () = self.left.notified() => return Ok(None),
        };
        let hint = hint.map_err(|error| error::certain(error::of_request(error)))?;
        *connection = Some(open);
        Ok(hint)
    }

    /// Drops the connection; the next one is made anew.
    pub(crate) fn leave(&self) {
        match self.connection.try_lock() {
            Ok(mut connection) => *connection = None,
            Err(_) => self.left.notify_waiters(),
        }
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
