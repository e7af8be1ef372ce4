//! One interface for the objects that a call can hold: a mutex, a semaphore of three, a wait group
//! with a limit of three.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{
    Detached, Error, FencingToken, Inspection, Kind, Member, Mutex, MutexGuard, MutexOptions, Permit, Result,
    Semaphore, SemaphoreOptions, Store, Ticket, Ttl, WaitGroup, WaitGroupOptions,
};

use super::{Call, LEASE};

/// The permits of the semaphore, and the limit of the group.
const ALL: u32 = 3;
/// The permits or members that a call asks for.
const SOME: u32 = 2;

/// A handle of an object.
#[derive(Clone)]
pub(super) enum Acquirable {
    Mutex(Arc<dyn Mutex>),
    Semaphore(Arc<dyn Semaphore>),
    Group(Arc<dyn WaitGroup>),
}

/// The hold of a successful call.
#[derive(Debug)]
pub(super) enum Acquired {
    Mutex(MutexGuard),
    Permit(Permit),
    Members(Vec<Member>),
}

impl Acquirable {
    pub(super) fn open(store: &dyn Store, kind: Kind, name: &str) -> Result<Self> {
        Ok(match kind {
            Kind::Mutex => Self::Mutex(store.mutex(name, MutexOptions::default().ttl(LEASE))?),
            Kind::Semaphore => Self::Semaphore(store.semaphore(name, SemaphoreOptions::new(ALL).ttl(LEASE))?),
            _ => Self::Group(store.wait_group(name, WaitGroupOptions::default().limit(ALL).ttl(LEASE))?),
        })
    }

    /// Takes everything; the object must be free.
    pub(super) async fn take_all(&self) -> Result<Acquired> {
        match self {
            Self::Mutex(mutex) => mutex.lock().await.map(Acquired::Mutex),
            Self::Semaphore(semaphore) => semaphore.acquire_many(ALL).await.map(Acquired::Permit),
            Self::Group(group) => group.add_many(ALL).await.map(Acquired::Members),
        }
    }

    /// Takes everything, if the object is free.
    pub(super) async fn try_take_all(&self) -> Result<Option<Acquired>> {
        Ok(match self {
            Self::Mutex(mutex) => mutex.try_lock().await?.map(Acquired::Mutex),
            Self::Semaphore(semaphore) => semaphore.try_acquire_many(ALL).await?.map(Acquired::Permit),
            Self::Group(group) => {
                let mut members = Vec::new();
                for _ in 0..ALL {
                    members.extend(group.add_for(Duration::ZERO).await?);
                }
                (members.len() == ALL as usize).then_some(Acquired::Members(members))
            }
        })
    }

    /// Makes a call that acquires. `limit` is its time limit, if it has one; `detached` is what an
    /// attach takes over.
    pub(super) async fn call(
        &self,
        call: Call,
        limit: Duration,
        detached: Option<&Detached>,
    ) -> Result<Option<Acquired>> {
        let detached = || detached.ok_or_else(|| Error::invalid_argument("nothing was detached"));
        match self {
            Self::Mutex(mutex) => {
                let guard = match call {
                    Call::TryLock => mutex.try_lock().await?,
                    Call::TryLockFor => mutex.lock_for(limit).await?,
                    Call::AttachMutex => Some(mutex.attach(detached()?).await?),
                    _ => Some(mutex.lock().await?),
                };
                Ok(guard.map(Acquired::Mutex))
            }
            Self::Semaphore(semaphore) => {
                let permit = match call {
                    Call::TryAcquire => semaphore.try_acquire_many(SOME).await?,
                    Call::TryAcquireFor => semaphore.acquire_many_for(SOME, limit).await?,
                    Call::AttachPermit => Some(semaphore.attach(detached()?).await?),
                    _ => Some(semaphore.acquire_many(SOME).await?),
                };
                Ok(permit.map(Acquired::Permit))
            }
            Self::Group(group) => {
                let members = match call {
                    Call::TryAddFor => group.add_for(limit).await?.map(|member| vec![member]),
                    Call::AttachMember => Some(vec![group.attach(detached()?).await?]),
                    _ => Some(group.add_many(SOME).await?),
                };
                Ok(members.map(Acquired::Members))
            }
        }
    }

    /// Acquires and detaches a hold.
    pub(super) async fn detached(&self) -> Result<Detached> {
        let lease = Ttl::new(LEASE)?;
        match self {
            Self::Mutex(mutex) => mutex.lock().await?.detach(lease).await,
            Self::Semaphore(semaphore) => semaphore.acquire_many(SOME).await?.detach(lease).await,
            Self::Group(group) => group.add().await?.detach(lease).await,
        }
    }

    pub(super) async fn inspect(&self) -> Result<Inspection> {
        match self {
            Self::Mutex(mutex) => mutex.inspect().await,
            Self::Semaphore(semaphore) => semaphore.inspect().await,
            Self::Group(group) => group.inspect().await,
        }
    }
}

impl Acquired {
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        let mut tickets: Vec<_> = match self {
            Self::Mutex(guard) => vec![guard.ticket()],
            Self::Permit(permit) => vec![permit.ticket()],
            Self::Members(members) => members.iter().map(Member::ticket).collect(),
        };
        tickets.sort_unstable();
        tickets
    }

    /// Returns the smallest token.
    pub(super) fn token(&self) -> Option<FencingToken> {
        match self {
            Self::Mutex(guard) => Some(guard.fencing_token()),
            Self::Permit(permit) => Some(permit.fencing_token()),
            Self::Members(members) => members.iter().map(Member::fencing_token).min(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        match self {
            Self::Mutex(guard) => guard.is_held(),
            Self::Permit(permit) => permit.is_held(),
            Self::Members(members) => members.iter().all(Member::is_held),
        }
    }

    pub(super) async fn give_back(self) -> Result<()> {
        match self {
            Self::Mutex(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
            Self::Members(members) => {
                for member in members {
                    member.done().await?;
                }
                Ok(())
            }
        }
    }
}
