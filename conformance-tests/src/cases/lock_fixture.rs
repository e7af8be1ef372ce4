//! One interface for the three locks with one holder at a time: the clauses of the mutex hold for
//! all of them (S8).

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{
    Detached, ErrorKind, FencingToken, GrantId, HoldOptions, Holder, Inspection, Mutex, MutexGuard,
    MutexMode, MutexOptions, Permit, Result, Semaphore, SemaphoreOptions, Store, Ticket, Ttl,
};

use crate::harness::Harness;
use crate::support::{CANCELLED, TICK, eventually, now, pause, unique};

/// Time for which a forced unlock asks the holder's process, before it ends the session.
const FORCE_GRACE: Duration = Duration::from_secs(2);
/// Maximum time for which a store of a test is not there to ask: it is on the same machine.
const UNAVAILABLE: Duration = Duration::from_secs(5);

/// The kinds of locks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LockKind {
    Mutex,
    SemaphoreOfOne,
    /// A semaphore of five of which the fixture has taken four permits.
    SemaphoreOfFive,
}

/// A name to lock, prepared for its kind of lock.
pub(crate) struct LockFixture<'h> {
    h: &'h dyn Harness,
    kind: LockKind,
    name: String,
    mode: MutexMode,
    taken: Arc<[Permit]>,
}

impl<'h> LockFixture<'h> {
    pub(crate) async fn new(h: &'h dyn Harness, kind: LockKind) -> Self {
        let name = unique("place");
        let store = h.store().await;
        let mut taken = Vec::new();
        if matches!(kind, LockKind::SemaphoreOfFive) {
            let five = store.semaphore(&name, SemaphoreOptions::new(5)).expect("a semaphore of five");
            for _ in 0..4 {
                taken.push(five.acquire().await.expect("a permit of a fresh semaphore"));
            }
        }
        Self { h, kind, name, mode: store.capabilities().mutex_mode, taken: taken.into() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Connects a new client, like another process, and returns its handle.
    pub(crate) async fn client(&self, hold: HoldOptions) -> Lock {
        self.open(&self.h.store().await, hold)
    }

    /// Returns whether this process keeps the holds: then a renewed lease has no deadline.
    pub(crate) fn is_kept_by_process(&self) -> bool {
        self.mode == MutexMode::Process
    }

    /// Returns whether a database session keeps the lock. Sessions keep mutexes only.
    pub(crate) fn is_kept_by_session(&self) -> bool {
        self.mode == MutexMode::Session && matches!(self.kind, LockKind::Mutex)
    }

    /// Returns the lease of holds that ask for `asked`: sessions have one lease for all their
    /// holds.
    pub(crate) fn lease(&self, asked: Duration) -> Duration {
        if self.is_kept_by_session() { self.h.ttl() } else { asked }
    }

    /// Returns the time that a forced release may take: a session's process is asked before the
    /// session is ended.
    pub(crate) fn forcing(&self) -> Duration {
        if self.is_kept_by_session() { FORCE_GRACE } else { Duration::ZERO }
    }

    /// Returns whether `state` has exactly these holders. If another process's session holds the
    /// lock, its ticket may be unknown.
    pub(crate) fn tells(&self, state: &Inspection, holders: &[Ticket]) -> bool {
        let is_told = |(holder, expected): (&Holder, &Ticket)| {
            holder.ticket.map_or_else(|| self.is_kept_by_session(), |ticket| ticket == *expected)
        };
        state.holders.len() == holders.len() && state.holders.iter().zip(holders).all(is_told)
    }

    /// Opens a handle of a client. Where a session keeps the lock, its lease is that of
    /// [`lease`](Self::lease).
    pub(crate) fn open(&self, store: &Arc<dyn Store>, mut hold: HoldOptions) -> Lock {
        if self.is_kept_by_session() {
            hold.ttl = None;
        }
        let object = match self.kind {
            LockKind::Mutex => {
                let mut options = MutexOptions::default();
                options.hold = hold;
                LockObject::Mutex(store.mutex(&self.name, options).expect("a mutex"))
            }
            LockKind::SemaphoreOfOne | LockKind::SemaphoreOfFive => {
                let permits = if matches!(self.kind, LockKind::SemaphoreOfFive) { 5 } else { 1 };
                let mut options = SemaphoreOptions::new(permits);
                options.hold = hold;
                LockObject::Semaphore(store.semaphore(&self.name, options).expect("a semaphore"))
            }
        };
        Lock { object, taken: Arc::clone(&self.taken) }
    }

    /// Asserts that within C4's second no other holder than `holder` is left, and no waiter queues.
    pub(crate) async fn settles(&self, witness: &Lock, holder: Option<Ticket>) {
        eventually(CANCELLED, "nothing is left behind", || async {
            let state = witness.inspect().await.expect("inspect");
            state.waiters == 0 && self.tells(&state, holder.as_slice())
        })
        .await;
    }
}

#[derive(Clone)]
enum LockObject {
    Mutex(Arc<dyn Mutex>),
    Semaphore(Arc<dyn Semaphore>),
}

/// A handle of the lock.
#[derive(Clone)]
pub(crate) struct Lock {
    object: LockObject,
    /// The permits that the fixture holds; kept as long as any handle.
    taken: Arc<[Permit]>,
}

impl Lock {
    pub(crate) async fn lock(&self) -> Result<Guard> {
        match &self.object {
            LockObject::Mutex(mutex) => mutex.lock().await.map(Guard::Mutex),
            LockObject::Semaphore(semaphore) => semaphore.acquire().await.map(Guard::Permit),
        }
    }

    /// Tries once, and again as long as the store is not there to ask: then it has certainly not
    /// executed the request (C3).
    pub(crate) async fn try_lock(&self) -> Result<Option<Guard>> {
        let end = now() + UNAVAILABLE;
        loop {
            let tried = match &self.object {
                LockObject::Mutex(mutex) => mutex.try_lock().await.map(|tried| tried.map(Guard::Mutex)),
                LockObject::Semaphore(semaphore) => {
                    semaphore.try_acquire().await.map(|tried| tried.map(Guard::Permit))
                }
            };
            match tried {
                Err(error) if error.kind() == ErrorKind::Unavailable && now() < end => pause(TICK).await,
                tried => return tried,
            }
        }
    }

    pub(crate) async fn lock_for(&self, limit: Duration) -> Result<Option<Guard>> {
        Ok(match &self.object {
            LockObject::Mutex(mutex) => mutex.lock_for(limit).await?.map(Guard::Mutex),
            LockObject::Semaphore(semaphore) => {
                semaphore.acquire_many_for(1, limit).await?.map(Guard::Permit)
            }
        })
    }

    pub(crate) async fn attach(&self, detached: &Detached) -> Result<Guard> {
        match &self.object {
            LockObject::Mutex(mutex) => mutex.attach(detached).await.map(Guard::Mutex),
            LockObject::Semaphore(semaphore) => semaphore.attach(detached).await.map(Guard::Permit),
        }
    }

    /// Returns the state without the permits that the fixture itself took.
    pub(crate) async fn inspect(&self) -> Result<Inspection> {
        let mut state = match &self.object {
            LockObject::Mutex(mutex) => mutex.inspect().await?,
            LockObject::Semaphore(semaphore) => semaphore.inspect().await?,
        };
        state.holders.retain(|holder| self.taken.iter().all(|permit| Some(permit.ticket()) != holder.ticket));
        Ok(state)
    }

    /// Forces the release of the hold of `holder`.
    pub(crate) async fn force(&self, holder: Ticket) -> Result<bool> {
        match &self.object {
            LockObject::Mutex(mutex) => mutex.force_unlock().await,
            LockObject::Semaphore(semaphore) => semaphore.force_release(holder).await,
        }
    }

    /// Waits until this number of acquisitions queue.
    pub(crate) async fn queue_of(&self, waiters: u64) {
        let what = format!("a queue of {waiters}");
        eventually(Duration::from_secs(5), &what, || async {
            self.inspect().await.expect("inspect").waiters == waiters
        })
        .await;
    }
}

/// A guard of the lock.
#[derive(Debug)]
pub(crate) enum Guard {
    Mutex(MutexGuard),
    Permit(Permit),
}

impl From<&Guard> for GrantId {
    fn from(guard: &Guard) -> Self {
        Self::new(guard.fencing_token(), guard.ticket())
    }
}

macro_rules! either {
    ($guard:expr, $inner:ident => $call:expr) => {
        match $guard {
            Guard::Mutex($inner) => $call,
            Guard::Permit($inner) => $call,
        }
    };
}

impl Guard {
    pub(crate) fn ticket(&self) -> Ticket {
        either!(self, guard => guard.ticket())
    }

    pub(crate) fn fencing_token(&self) -> FencingToken {
        either!(self, guard => guard.fencing_token())
    }

    pub(crate) fn is_held(&self) -> bool {
        either!(self, guard => guard.is_held())
    }

    /// Returns the deadline of a hold whose lease is not renewed.
    pub(crate) fn deadline(&self) -> Instant {
        self.renewed_deadline().expect("a lease that is not renewed has an end")
    }

    /// Returns the deadline of a hold whose lease is renewed; `None` if the process itself keeps
    /// the hold.
    pub(crate) fn renewed_deadline(&self) -> Option<Instant> {
        either!(self, guard => guard.deadline()).map(Instant::from_std)
    }

    pub(crate) async fn lost(&self) {
        either!(self, guard => guard.lost().await);
    }

    pub(crate) async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        either!(self, guard => guard.run(future).await)
    }

    pub(crate) async fn detach(self, lease: Ttl) -> Result<Detached> {
        either!(self, guard => guard.detach(lease).await)
    }

    pub(crate) async fn release(self) -> Result<()> {
        either!(self, guard => guard.release().await)
    }
}
