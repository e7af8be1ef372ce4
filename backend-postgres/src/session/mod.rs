//! Mutexes kept by advisory locks of database sessions.
//!
//! All lock sessions of a process live on the engine's thread. One, the shared session, takes every try: callers leave
//! what they want at the [`Desk`](desk::Desk), and what has gathered leaves in one statement. A mutex that somebody else
//! holds is waited for at the server, in line, by a session that holds nothing, on behalf of the first in the local queue;
//! once granted that session keeps the lock. When no session is free to wait, the shared one tries again and again.
//!
//! A hold is a lease as anywhere else: the server ends a session that it has not heard for a TTL, the sessions are probed
//! more often than that, and a hold counts from a statement that was sent after its caller began to count. A hold that
//! its owner does not renew is unlocked although its session goes on.

mod asks;
mod chore;
mod desk;
mod entry;
mod leaving;
mod load;
mod look;
mod post;
mod rhythm;
mod serve;
mod steps;
#[cfg(test)]
mod tests;
mod tries;
mod wire;
mod work;

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use stanchion_core::Ttl;

pub(crate) use self::chore::SessionChore;
use self::desk::Desk;
use self::look::Look;
pub(crate) use self::steps::SessionSteps;
use self::wire::Wires;
pub(crate) use self::wire::token_of;
use crate::context::Context;
use crate::link::Link;

/// How a process keeps its mutexes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionOptions {
    /// The lease of every hold of the process.
    pub(crate) ttl: Ttl,
    /// Lock sessions at most, the shared one among them; at least 2.
    pub(crate) max_sessions: usize,
    /// Time limit of a request.
    pub(crate) request_timeout: Duration,
}

/// The steps, for callers and the engine alike, and the chore that the engine has to run for them. `link` is for looks at
/// other processes; `options` says where the server is.
pub(crate) fn sessions(
    context: &Context,
    link: Arc<Link>,
    options: &PgConnectOptions,
    settings: SessionOptions,
) -> (SessionSteps, SessionChore) {
    let SessionOptions { ttl, max_sessions, request_timeout } = settings;
    let desk = Arc::new(Desk::new(ttl, request_timeout, max_sessions));
    let wires = Arc::new(Wires::new(context, options, ttl));
    let look = Arc::new(Look::new(context, link));
    (SessionSteps { desk: Arc::clone(&desk), look }, SessionChore { desk, wires })
}
