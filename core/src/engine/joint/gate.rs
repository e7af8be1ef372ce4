//! Steps that exclude each other at the store leave in turn.
//!
//! Requests that change the same rows wait for each other there, with a transaction open and a connection taken. Here
//! they wait before they leave, and those who come meanwhile leave with them. It is an arrangement for speed, and none
//! that anything relies on: a request alone does not ask for it, and one that takes long is not waited for.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Turns, MutexGuard};
use tokio::time::{Instant, timeout_at};

use super::{LaneKey, STALE};
use crate::clock::now;

/// What the requests of several steps leave through, one after the other, first come, first served.
pub(crate) struct Gate {
    turns: Turns<()>,
    /// When the last one left.
    since: Mutex<Instant>,
}

/// A turn, until it is dropped.
pub(super) type InTurn<'a> = MutexGuard<'a, ()>;

impl Gate {
    fn new() -> Self {
        Self { turns: Turns::new(()), since: Mutex::new(now()) }
    }

    /// Waits for a turn, which lasts as long as what it gives. `None` beside a request that took its own longer than
    /// [`STALE`] ago, and has kept the others for long enough.
    pub(super) async fn pass(&self) -> Option<InTurn<'_>> {
        let mut turn = pin!(self.turns.lock());
        loop {
            match timeout_at(self.stale_at(), &mut turn).await {
                Ok(turn) => {
                    *self.since.lock().unwrap_or_else(PoisonError::into_inner) = now();
                    return Some(turn);
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

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("taken", &self.turns.try_lock().is_err()).finish_non_exhaustive()
    }
}

/// The gates that two or more steps share, one for each lane that is in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates(Arc<Mutex<ByLane>>);

type ByLane = Vec<(LaneKey, Weak<Gate>)>;

impl Gates {
    pub(crate) fn of(&self, key: LaneKey) -> Arc<Gate> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gates.retain(|(_, gate)| gate.strong_count() > 0);
        let found = gates.iter().find(|(of, _)| *of == key).and_then(|(_, gate)| gate.upgrade());
        found.unwrap_or_else(|| {
            let gate = Arc::new(Gate::new());
            gates.push((key, Arc::downgrade(&gate)));
            gate
        })
    }
}
