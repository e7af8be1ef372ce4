//! The connections of all runtimes to one database: those of callers' requests, of the engine's,
//! and of users' transactions. Where the server lets no more in, each uses what the others have
//! (C28).

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::PgConnection;
use tokio::runtime::Id;
use tokio::sync::Notify;

use super::runtime_connections::{Idle, RuntimeConnections};
use crate::connector::NumberedConnection;

/// The requests that have connections of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Callers,
    Engine,
    /// The tokens of users' transactions.
    Transactions,
}

type Entry = ((Sort, Id), Arc<RuntimeConnections>);

#[derive(Debug, Default)]
pub(super) struct Registry {
    runtimes: Mutex<Vec<Entry>>,
    /// Number of connections that are open.
    alive: Arc<AtomicUsize>,
    /// Notified of each connection that is put back.
    freed: Arc<Notify>,
}

/// A connection that the registry counts.
#[derive(Debug)]
pub(super) struct CountedConnection {
    connection: PgConnection,
    /// The server's process of its session, where it keeps one.
    pub(super) pid: Option<i32>,
    alive: Arc<AtomicUsize>,
}

impl CountedConnection {
    /// `is_direct` if no pooler shares sessions.
    pub(super) fn new(made: NumberedConnection, is_direct: bool, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        let NumberedConnection { connection, pid } = made;
        Self { connection, pid: is_direct.then_some(pid), alive: Arc::clone(alive) }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Deref for CountedConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for CountedConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Registry {
    pub(super) fn runtimes(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.runtimes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the runtimes that have not ended. The connections of the others are closed: each has
    /// a place at the server that somebody may wait for.
    fn driven(&self) -> MutexGuard<'_, Vec<Entry>> {
        let mut runtimes = self.runtimes();
        runtimes.retain(|(_, local)| local.is_driven());
        runtimes
    }

    /// Returns the connections of a runtime, which are at most `limit`.
    pub(super) fn local(&self, sort: Sort, runtime: Id, limit: usize) -> Arc<RuntimeConnections> {
        let mut runtimes = self.driven();
        if let Some((_, local)) = runtimes.iter().find(|(of, _)| *of == (sort, runtime)) {
            return Arc::clone(local);
        }
        let local = Arc::new(RuntimeConnections::new(limit, &self.freed));
        runtimes.push(((sort, runtime), Arc::clone(&local)));
        local
    }

    /// Returns what counts the connections.
    pub(super) fn counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.alive)
    }

    /// Returns whether a connection is open, in whoever's use.
    pub(super) fn has_any(&self) -> bool {
        self.alive.load(Ordering::Relaxed) > 0
    }

    /// Takes an idle connection of any requests and any runtime, which is to be asked first: a
    /// runtime that is busy drives it not.
    pub(super) fn take_idle(&self) -> Option<Idle> {
        let idle = self.driven().iter().find_map(|(_, local)| {
            local.take_made();
            local.idle().pop()
        })?;
        Some(Idle::in_doubt(idle.connection))
    }

    /// Waits until a connection is put back.
    pub(super) fn freed(&self) -> impl Future<Output = ()> {
        self.freed.notified()
    }
}
