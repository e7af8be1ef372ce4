//! What the shared state gives the connections of its sessions to send, and what they answer.

use stanchion_core::clock::Instant;
use stanchion_core::spi::ProcessId;
use stanchion_core::{FencingToken, Name, Result, Ticket};
use tokio::sync::oneshot;

/// Identifies a session of this process.
pub(super) type SessionId = u64;

/// Sends the reply to the caller of one request. The caller may have gone.
pub(super) type ReplySender<T> = oneshot::Sender<Result<T>>;

/// Answer to a try: the server has no room for another lock.
pub(super) const LOCK_TABLE_FULL: i64 = -1;
/// Answer to a try: the mutex is not free or another ticket is the first in the queue, and this
/// ticket has no place in the queue.
pub(super) const NOT_QUEUED: i64 = -2;

/// An unlock of one name.
#[derive(Debug)]
pub(super) struct Unlock {
    pub(super) name: Name,
    /// The ticket whose hold it ends; `None` if the lock was never a hold of this process.
    pub(super) ticket: Option<Ticket>,
    /// The hold has a record, or may have one.
    pub(super) is_recorded: bool,
}

/// One try to lock in a statement.
#[derive(Debug)]
pub(super) struct TryLock {
    pub(super) name: Name,
    /// The number of the attempt.
    pub(super) number: u64,
    /// The ticket for which the lock is tried: one that has a place in the queue, if there is one.
    pub(super) ticket: Ticket,
    /// Whether the statement reads which ticket is the first in the queue.
    pub(super) reads_queue: bool,
}

/// The request of another process to unlock a mutex by force.
#[derive(Debug)]
pub(super) struct ForceUnlockRequest {
    /// The id of the request.
    pub(super) id: i64,
    pub(super) name: String,
    /// The request concerns grants up to this token, and none after it.
    pub(super) token: i64,
}

/// The answers to requests of other processes, by the ids of the requests.
#[derive(Debug, Default)]
pub(super) struct ForceUnlockAnswers {
    /// The session no longer holds the requested mutex.
    pub(super) accepted: Vec<i64>,
    /// The session holds the mutex by a grant after the request: a process that wants that one
    /// unlocked has to ask again.
    pub(super) declined: Vec<i64>,
}

impl ForceUnlockAnswers {
    pub(super) fn is_empty(&self) -> bool {
        self.accepted.is_empty() && self.declined.is_empty()
    }
}

/// The content of one statement.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) unlocks: Vec<Unlock>,
    pub(super) try_locks: Vec<TryLock>,
    /// Callers that wait for a sign that the session is alive. The reply is the time at which the
    /// answered statement was sent.
    pub(super) probes: Vec<ReplySender<Instant>>,
    /// Answers to requests of other processes.
    pub(super) answers: ForceUnlockAnswers,
    /// Read the requests of other processes to unlock a mutex.
    pub(super) checks_requests: bool,
    /// Read how full the server's lock table is.
    pub(super) checks_lock_table: bool,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.unlocks.is_empty()
            && self.try_locks.is_empty()
            && self.probes.is_empty()
            && !self.checks_requests
    }

    /// Returns the names to unlock, then the names to try.
    pub(super) fn names(&self) -> Vec<Name> {
        let unlocks = self.unlocks.iter().map(|unlock| &unlock.name);
        unlocks.chain(self.try_locks.iter().map(|attempt| &attempt.name)).cloned().collect()
    }
}

/// The server's answer to a try.
#[derive(Clone, Copy, Debug)]
pub(super) struct TryAnswer {
    /// A fencing token; otherwise [`LOCK_TABLE_FULL`], [`NOT_QUEUED`], or 0 if the mutex is not
    /// free or another ticket is the first in the queue.
    pub(super) code: i64,
    /// The first ticket in the queue; `None` if the queue is empty or was not read.
    pub(super) first_waiter: Option<Ticket>,
}

/// The server's answer to a batch.
#[derive(Debug, Default)]
pub(super) struct BatchAnswer {
    /// For each name to unlock, whether it was locked.
    pub(super) unlocked: Vec<bool>,
    pub(super) try_answers: Vec<TryAnswer>,
    /// The first waiters of the unlocked names.
    pub(super) next_waiters: Vec<(ProcessId, Ticket)>,
    /// Tickets of ended holds that may still have a record.
    pub(super) still_recorded: Vec<Ticket>,
    /// The number of advisory locks on the server and its maximum, if the statement read them.
    pub(super) lock_table: Option<(i64, i64)>,
}

/// Returns the token in an answer, which is above 0; `None` if there is none.
pub(crate) fn token_of(token: i64) -> Option<FencingToken> {
    let token = u64::try_from(token).ok().filter(|token| *token > 0)?;
    FencingToken::new(token).ok()
}
