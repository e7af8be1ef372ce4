//! The connections of one runtime.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::PgConnection;
use stanchion_core::clock::{Instant, now};
use stanchion_core::connect::{Attempts, MAX_UNCHECKED_IDLE};
use stanchion_core::runtime::RuntimeMark;
use tokio::sync::{Notify, Semaphore};

use super::registry::CountedConnection;
use crate::user_connection::UserConnection;

/// The connections of one runtime, which drives them.
pub(super) struct RuntimeConnections {
    limit: usize,
    /// Counts how many more connections may be in use.
    pub(super) permits: Semaphore,
    idle: Mutex<Vec<Idle>>,
    /// Held by whoever asks about a connection whose answer is late.
    pub(super) asking: tokio::sync::Mutex<()>,
    /// Each makes a connection, and says when; none if the server did not answer.
    pub(super) attempts: Attempts<Option<(CountedConnection, Instant)>>,
    runtime: RuntimeMark,
    /// Notified of each connection that is put back.
    freed: Arc<Notify>,
}

pub(super) struct Idle {
    pub(super) connection: CountedConnection,
    /// When it was used last.
    since: Instant,
    /// It is to be asked first: after a request whose caller went away, its answer has not been
    /// read yet.
    pub(super) is_in_doubt: bool,
}

impl Idle {
    pub(super) fn used_now(connection: CountedConnection) -> Self {
        Self { connection, since: now(), is_in_doubt: false }
    }

    /// After a request without an answer so far.
    pub(super) fn in_doubt(connection: CountedConnection) -> Self {
        Self { is_in_doubt: true, ..Self::used_now(connection) }
    }

    /// Returns whether it was used a moment ago, and answered.
    pub(super) fn is_fresh(&self) -> bool {
        !self.is_in_doubt && now() - self.since < MAX_UNCHECKED_IDLE
    }
}

/// A connection in use.
pub(super) enum OpenConnection {
    Own(CountedConnection),
    User(UserConnection),
}

impl RuntimeConnections {
    /// Makes at most `limit` connections of the runtime that this is called on.
    pub(super) fn new(limit: usize, freed: &Arc<Notify>) -> Self {
        let (idle, attempts) = (Mutex::default(), Attempts::default());
        let (permits, runtime) = (Semaphore::new(limit), RuntimeMark::leave());
        let asking = tokio::sync::Mutex::default();
        Self { limit, permits, idle, asking, attempts, runtime, freed: Arc::clone(freed) }
    }

    /// Returns whether the runtime still drives its connections.
    pub(super) fn is_driven(&self) -> bool {
        self.runtime.is_there()
    }

    /// Returns the number of open connections; one in use is open, or is being made.
    pub(super) fn open(&self) -> usize {
        self.idle().len() + self.limit - self.permits.available_permits()
    }

    pub(super) fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes those that were idle for `time`.
    pub(super) fn close_idle(&self, time: Duration) {
        self.take_made();
        self.idle().retain(|idle| idle.since.elapsed() < time);
    }

    /// Takes over the connections of attempts that ended while no caller waited for them.
    pub(super) fn take_made(&self) {
        let made = self.attempts.take_made().into_iter().flatten();
        self.idle().extend(made.map(|(connection, since)| Idle { connection, since, is_in_doubt: false }));
    }

    /// Closes those over which no answer has come since: they are likely dead, too.
    pub(super) fn drop_unheard(&self, since: Instant) {
        self.idle().retain(|idle| !idle.is_in_doubt && idle.since > since);
    }

    /// Takes a connection whose last request was answered.
    pub(super) fn take_certain(&self) -> Option<Idle> {
        self.idle().pop_if(|idle| !idle.is_in_doubt)
    }

    /// Puts a connection back after the end of its request.
    pub(super) fn put_back(&self, open: OpenConnection) {
        match open {
            OpenConnection::Own(connection) => self.keep(Idle::used_now(connection)),
            OpenConnection::User(connection) => connection.give_back(),
        }
    }

    /// Keeps a connection. A connection whose answer was not read yet is the last one to be used
    /// again.
    pub(super) fn keep(&self, connection: Idle) {
        let mut idle = self.idle();
        if idle.len() < self.limit {
            let at = if connection.is_in_doubt { 0 } else { idle.len() };
            idle.insert(at, connection);
        }
        drop(idle);
        self.freed.notify_one();
    }
}

impl fmt::Debug for RuntimeConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeConnections").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl OpenConnection {
    /// Returns the server's process of its session, if that is known.
    pub(super) fn pid(&self) -> Option<i32> {
        if let Self::Own(connection) = self { connection.pid } else { None }
    }

    pub(super) fn connection(&mut self) -> Option<&mut PgConnection> {
        match self {
            Self::Own(connection) => Some(connection),
            Self::User(connection) => connection.connection(),
        }
    }
}
