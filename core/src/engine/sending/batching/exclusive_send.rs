//! Serialises the requests of two steps that exclude each other at the store.
//!
//! Requests that change the same rows wait for each other at the store, with a transaction open and a connection in use.
//! Here they wait before they leave, and calls that arrive meanwhile leave with them. This is for speed only; nothing
//! relies on it: a request of a single call is sent without it, and a slow request is not waited for.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Id;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use tokio::time::Instant;

use crate::clock::now;
use crate::clock::timeout_at;

/// A runtime, and a lane of the step.
pub(crate) type LaneKey = (Id, usize);

/// Time after which a request that is still under way delays the others no longer.
pub(super) const STALE: Duration = Duration::from_millis(25);

/// Lets the requests of several steps leave one after the other, first come, first served.
pub(crate) struct ExclusiveSend {
    sending: AsyncMutex<()>,
    /// When the last request left.
    since: Mutex<Instant>,
}

/// The right to send, until it is dropped.
pub(super) type ExclusiveTurn<'a> = MutexGuard<'a, ()>;

impl ExclusiveSend {
    fn new() -> Self {
        Self { sending: AsyncMutex::new(()), since: Mutex::new(now()) }
    }

    /// Waits for the right to send. Returns `None` once the request that has it has been under way for [`STALE`].
    pub(super) async fn acquire(&self) -> Option<ExclusiveTurn<'_>> {
        let mut turn = pin!(self.sending.lock());
        loop {
            match timeout_at(self.stale_at(), &mut turn).await {
                Ok(turn) => {
                    *self.since.lock().unwrap_or_else(PoisonError::into_inner) = now();
                    return Some(turn);
                }
                Err(_) if now() >= self.stale_at() => return None,
                // Another request has left since.
                Err(_) => {}
            }
        }
    }

    fn stale_at(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) + STALE
    }
}

impl fmt::Debug for ExclusiveSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExclusiveSend")
            .field("taken", &self.sending.try_lock().is_err())
            .finish_non_exhaustive()
    }
}

/// The [`ExclusiveSend`]s that two or more steps share, one for each lane in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExclusiveSends(Arc<Mutex<ByLane>>);

type ByLane = Vec<(LaneKey, Weak<ExclusiveSend>)>;

impl ExclusiveSends {
    pub(crate) fn of(&self, key: LaneKey) -> Arc<ExclusiveSend> {
        let mut exclusives = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        exclusives.retain(|(_, exclusive)| exclusive.strong_count() > 0);
        let found =
            exclusives.iter().find(|(of, _)| *of == key).and_then(|(_, exclusive)| exclusive.upgrade());
        found.unwrap_or_else(|| {
            let exclusive = Arc::new(ExclusiveSend::new());
            exclusives.push((key, Arc::downgrade(&exclusive)));
            exclusive
        })
    }
}
