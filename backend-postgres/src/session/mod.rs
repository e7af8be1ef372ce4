//! Mutexes held as advisory locks of a database session.
//!
//! A process keeps all its mutexes on one session, the current session. It runs on the engine's
//! thread. Callers add requests to [`LockSessions`](lock_sessions::LockSessions), and the session
//! sends all gathered requests in one statement. No statement waits for a lock. An acquisition that
//! finds the mutex taken joins the queue, whose rows are those of lease mode. It tries again once
//! its place is committed, at each hint, and at each poll while it is the first in the queue.
//!
//! The state behind the one lock is three machines, each with fields that it alone changes:
//! [`holds`] is what this process holds, [`places`] where it waits in queues, and [`outbound`] what
//! it is about to send. What passes between them stands in [`state`].
//!
//! Each write is committed before the read that depends on it: a place before the try, and an
//! unlock before the queue is read. So either the try finds the mutex free, or the unlocking
//! session finds the place.
//!
//! A hold is a lease. The server ends a session that it has not heard from for a TTL, and the
//! process probes its sessions more often than that. The lease of a hold counts from the time at
//! which its statement was sent, which is later than the time from which its caller counts. A hold
//! that its owner does not renew is unlocked although its session goes on. A session that does not
//! answer in time keeps its holds until their leases may have ended; new requests go to another
//! session, which becomes the current one.

mod answers;
mod application_name;
mod attempts;
mod connection;
mod deferred_wakers;
mod holds;
mod inspect;
mod leave_requests;
mod leaving;
mod lock_sessions;
mod lock_table;
mod locking;
mod messages;
mod outbound;
mod places;
mod recording;
mod records;
mod reply;
mod requests;
mod runner;
mod session_state;
mod session_task;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod timing;
mod tombstones;
mod try_lock;
mod unlock;
mod unlocks;

use std::sync::{Arc, Weak};
use std::time::Duration;

use stanchion_core::clock::timeout;
use stanchion_core::spi::ProcessId;
use stanchion_core::{Error, ErrorKind, Result, Ttl};

use self::connection::SessionConfig;
use self::inspect::PeerSessions;
use self::lock_sessions::LockSessions;
pub(crate) use self::messages::token_of;
pub(crate) use self::runner::SessionRunner;
pub(crate) use self::steps::SessionSteps;
use crate::connector::Connector;
use crate::context::Context;
use crate::error;
use crate::steps::PostgresSteps;

/// Counts the sessions of a namespace, for as long as its engine lives.
#[derive(Debug)]
pub(crate) struct SessionCount(Weak<LockSessions>);

impl SessionCount {
    /// Returns the number of open sessions; `None` once the engine has ended.
    pub(crate) fn open(&self) -> Option<usize> {
        Some(self.0.upgrade()?.with(|state| state.outbound.pids().count()))
    }
}

/// Opens a session as mutexes are kept by, and closes it: where none can be had, `connect` says so.
///
/// # Errors
/// The reason why there is none.
pub(crate) async fn check(
    context: &Context,
    connector: &Connector,
    ttl: Ttl,
    request_timeout: Duration,
) -> Result<()> {
    let config = SessionConfig::new(context, connector, ttl, ProcessId::random());
    // Boxed: nested, the futures of requests are deeper than what an unoptimised build lays out.
    let open = || Box::pin(config.open(request_timeout));
    let opening = async {
        match open().await {
            // Processes that start together are many for a moment.
            Err(error) if error::is_full(&error) => {
                config.retry_allowed().await;
                open().await
            }
            opened => opened,
        }
    };
    let late = |_| Error::new(ErrorKind::Unavailable, "no session that keeps mutexes was opened in time");
    timeout(config.open_timeout(request_timeout), opening).await.map_err(late)?.map(drop)
}

/// Returns the steps for callers and for the engine, the background task that the engine has to run
/// for them, and the count of open sessions. `callers` and `own` are the steps of the queue and of
/// the turns of users' transactions. `places` is the process id under which places in the queue are
/// stored. `connector` leads to the server, and `ttl` is the lease of every hold.
pub(crate) fn sessions(
    context: &Context,
    (callers, own): (&PostgresSteps, &PostgresSteps),
    places: ProcessId,
    connector: &Connector,
    ttl: Ttl,
) -> ([SessionSteps; 2], SessionRunner, SessionCount) {
    let lock_sessions = Arc::new(LockSessions::new(ttl, own.pool().request_timeout(), places));
    let count = SessionCount(Arc::downgrade(&lock_sessions));
    let config = Arc::new(SessionConfig::new(context, connector, ttl, places));
    let steps = [callers, own].map(|turns| SessionSteps {
        lock_sessions: Arc::clone(&lock_sessions),
        // Callers and the engine use their own connections: the engine's would need more
        // connections if callers' runtimes used them too.
        peers: Arc::new(PeerSessions::new(context, Arc::clone(turns.pool()))),
        places: turns.for_places(places),
        turns: turns.clone(),
    });
    let runner = SessionRunner { lock_sessions, config, places: own.for_places(places) };
    (steps, runner, count)
}
