//! Mutexes kept by advisory locks of a database session.
//!
//! One session of a process, the shared session, keeps all its mutexes. It lives on the engine's thread: callers leave what
//! they want at the [`Desk`](desk::Desk), and what has gathered leaves in one statement. Nobody waits in a statement. Who finds a
//! mutex taken joins the queue, which is rows as in lease mode, and tries again once its place is committed, at each hint, and
//! at each poll while it is the first.
//!
//! What another waits for is committed before the look that decides about it: a place before the try, an unlock before the look
//! at the queue. So either the try finds the mutex free, or the look finds the place.
//!
//! A hold is a lease as anywhere else: the server ends a session that it has not heard for a TTL, the session is probed
//! more often than that, and a hold counts from a statement that was sent after its caller began to count. A hold that
//! its owner does not renew is unlocked although its session goes on. A session that is stuck keeps its holds for as long as that
//! may be believed; another one serves what is new.

mod asks;
mod chore;
mod desk;
mod entry;
mod errands;
mod leaving;
mod load;
mod locking;
mod look;
mod notes;
mod post;
mod rhythm;
mod serve;
mod steps;
#[cfg(test)]
mod tests;
mod tries;
mod wire;
mod work;

use std::sync::{Arc, Weak};

use stanchion_core::Ttl;
use stanchion_core::steps::ProcessId;

pub(crate) use self::chore::SessionChore;
use self::desk::Desk;
use self::look::Look;
pub(crate) use self::steps::SessionSteps;
use self::wire::Wires;
pub(crate) use self::wire::token_of;
use crate::access::Access;
use crate::context::Context;
use crate::steps::PostgresSteps;

/// Counts the sessions of a namespace, for as long as its engine lives.
#[derive(Debug)]
pub(crate) struct SessionCount(Weak<Desk>);

impl SessionCount {
    /// Returns the number of open sessions; `None` once the engine has ended.
    pub(crate) fn open(&self) -> Option<usize> {
        Some(self.0.upgrade()?.with(|state| state.open_sessions()))
    }
}

/// The steps, for callers and for the engine, and the chore that the engine has to run for them. `callers` and `own` are the
/// steps of the queue, and of the turns of users' transactions; `places` is whose the places in the queue are; `access` leads to the
/// server, and `ttl` is the lease of every hold.
pub(crate) fn sessions(
    context: &Context,
    (callers, own): (&PostgresSteps, &PostgresSteps),
    places: ProcessId,
    access: &Access,
    ttl: Ttl,
) -> ([SessionSteps; 2], SessionChore, SessionCount) {
    let desk = Arc::new(Desk::new(ttl, own.link().request_timeout(), places));
    let count = SessionCount(Arc::downgrade(&desk));
    let wires = Arc::new(Wires::new(context, access, ttl, places));
    let steps = [callers, own].map(|turns| SessionSteps {
        desk: Arc::clone(&desk),
        // Each over its own connections: the engine's, used by callers' runtimes, would be some more.
        look: Arc::new(Look::new(context, Arc::clone(turns.link()))),
        places: turns.for_places(places),
        turns: turns.clone(),
        label: context.turn.clone(),
    });
    let chore = SessionChore { desk, wires, places: own.for_places(places) };
    (steps, chore, count)
}
