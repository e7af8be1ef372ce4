//! Mutexes and semaphores as one, through their public traits.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{
    Detached, FencingToken, Inspection, Kind, Mutex, MutexGuard, Name, Permit, Result, Semaphore, Store,
    Ticket, Ttl,
};
use stanchion_memory::MemoryStore;

use crate::sequential::model::Terms;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Mutex,
    Semaphore,
}

#[derive(Clone, Debug)]
pub(crate) enum Real {
    Mutex(Arc<dyn Mutex>),
    Semaphore(Arc<dyn Semaphore>),
}

impl Real {
    pub(crate) fn open(what: What, store: &MemoryStore, terms: &Terms) -> Self {
        match what {
            What::Mutex => Self::Mutex(store.mutex("a", terms.mutex()).unwrap()),
            What::Semaphore => Self::Semaphore(store.semaphore("a", terms.semaphore()).unwrap()),
        }
    }

    pub(crate) async fn attempt(self, weight: u32) -> Result<Option<Guard>> {
        Ok(match self {
            Self::Mutex(one) => one.try_lock().await?.map(Guard::Mutex),
            Self::Semaphore(one) if weight == 1 => one.try_acquire().await?.map(Guard::Permit),
            Self::Semaphore(one) => one.try_acquire_many(weight).await?.map(Guard::Permit),
        })
    }

    pub(crate) async fn acquire(self, weight: u32, limit: Option<Duration>) -> Result<Option<Guard>> {
        Ok(match (self, limit) {
            (Self::Mutex(one), None) => Some(Guard::Mutex(one.lock().await?)),
            (Self::Mutex(one), Some(limit)) => one.lock_for(limit).await?.map(Guard::Mutex),
            (Self::Semaphore(one), None) if weight == 1 => Some(Guard::Permit(one.acquire().await?)),
            (Self::Semaphore(one), None) => Some(Guard::Permit(one.acquire_many(weight).await?)),
            (Self::Semaphore(one), Some(limit)) => {
                one.acquire_many_for(weight, limit).await?.map(Guard::Permit)
            }
        })
    }

    pub(crate) async fn attach(&self, ticket: Ticket) -> Result<Guard> {
        Ok(match self {
            Self::Mutex(one) => Guard::Mutex(one.attach(&detached(Kind::Mutex, one.name(), ticket)).await?),
            Self::Semaphore(one) => {
                Guard::Permit(one.attach(&detached(Kind::Semaphore, one.name(), ticket)).await?)
            }
        })
    }

    pub(crate) async fn inspect(&self) -> Result<Inspection> {
        match self {
            Self::Mutex(one) => one.inspect().await,
            Self::Semaphore(one) => one.inspect().await,
        }
    }

    /// Frees what that ticket holds; of a mutex, whatever is held.
    pub(crate) async fn force(&self, ticket: Ticket) -> Result<bool> {
        match self {
            Self::Mutex(one) => one.force_unlock().await,
            Self::Semaphore(one) => one.force_release(ticket).await,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Guard {
    Mutex(MutexGuard),
    Permit(Permit),
}

impl Guard {
    pub(crate) fn ticket(&self) -> Ticket {
        match self {
            Self::Mutex(guard) => guard.ticket(),
            Self::Permit(guard) => guard.ticket(),
        }
    }

    pub(crate) fn token(&self) -> FencingToken {
        match self {
            Self::Mutex(guard) => guard.fencing_token(),
            Self::Permit(guard) => guard.fencing_token(),
        }
    }

    pub(crate) fn weight(&self) -> u32 {
        match self {
            Self::Mutex(_) => 1,
            Self::Permit(guard) => guard.weight(),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Mutex(guard) => guard.is_held(),
            Self::Permit(guard) => guard.is_held(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<std::time::Instant> {
        match self {
            Self::Mutex(guard) => guard.deadline(),
            Self::Permit(guard) => guard.deadline(),
        }
    }

    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match self {
            Self::Mutex(guard) => Box::pin(guard.lost()),
            Self::Permit(guard) => Box::pin(guard.lost()),
        }
    }

    /// Another guard of the same hold, where there is such a thing.
    pub(crate) fn reenter(&self) -> Option<Self> {
        match self {
            Self::Mutex(guard) => Some(Self::Mutex(guard.reenter())),
            Self::Permit(_) => None,
        }
    }

    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Self::Mutex(guard) => guard.release().await,
            Self::Permit(guard) => guard.release().await,
        }
    }

    pub(crate) async fn detach(self, lease: Ttl) -> Result<Detached> {
        match self {
            Self::Mutex(guard) => guard.detach(lease).await,
            Self::Permit(guard) => guard.detach(lease).await,
        }
    }
}

/// Returns a hold that was detached under this ticket, or was not.
pub(crate) fn detached(kind: Kind, name: &str, ticket: Ticket) -> Detached {
    Detached::new(kind, "stanchion", &Name::new(name).unwrap(), ticket, FencingToken::new(1).unwrap())
}
