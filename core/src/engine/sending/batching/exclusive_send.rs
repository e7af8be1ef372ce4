//! Steps that exclude each other at the store leave in send_slot.
//!
//! Requests that change the same rows wait for each other there, with a transaction open and a connection taken. Here
//! they wait before they leave, and those who come meanwhile leave with them. It is an arrangement for speed, and none
//! that anything relies on: a request alone does not ask for it, and one that takes long is not waited for.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Id;
use tokio::sync::{Mutex as Turns, MutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::clock::now;

/// The runtime, and the step's own lane.
pub(crate) type LaneKey = (Id, usize);

/// After this time a request that is still under way keeps nobody any more.
pub(super) const STALE: Duration = Duration::from_millis(25);

/// What the requests of several steps leave through, one after the other, first come, first served.
pub(crate) struct ExclusiveSend {
    turns: Turns<()>,
    /// When the last one left.
    since: Mutex<Instant>,
}

/// A send_slot, until it is dropped.
pub(super) type ExclusiveTurn<'a> = MutexGuard<'a, ()>;

impl ExclusiveSend {
    fn new() -> Self {
        Self { turns: Turns::new(()), since: Mutex::new(now()) }
    }

    /// Waits for a send_slot, which lasts as long as what it gives. `None` beside a request that took its own longer than
    /// [`STALE`] ago, and has kept the others for long enough.
    pub(super) async fn pass(&self) -> Option<ExclusiveTurn<'_>> {
        let mut send_slot = pin!(self.turns.lock());
        loop {
            match timeout_at(self.stale_at(), &mut send_slot).await {
                Ok(send_slot) => {
                    *self.since.lock().unwrap_or_else(PoisonError::into_inner) = now();
                    return Some(send_slot);
                }
                Err(_) if now() >= self.stale_at() => return None,
                // Another one has left since.
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
            .field("taken", &self.turns.try_lock().is_err())
            .finish_non_exhaustive()
    }
}

/// The exclusives that two or more steps share, one for each lane that is in use.
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
