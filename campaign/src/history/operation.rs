//! Recording one call and its hold.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use stanchion_core::{FencingToken, Member, MutexGuard, Permit, Ticket};

use super::{ObjectId, Recorder, What, clock};

/// One call in progress.
///
/// # Drop
/// Before an answer, it records that the call was cancelled; after a grant, that the hold is given
/// up. An error of that write is ignored.
#[derive(Debug)]
#[must_use = "dropping it before an answer means that the call was cancelled"]
pub struct Operation {
    recorder: Recorder,
    object: ObjectId,
    number: u64,
    state: AtomicU8,
}

const ASKED: u8 = 0;
const GRANTED: u8 = 1;
const OVER: u8 = 2;

impl Operation {
    pub(super) fn new(recorder: Recorder, object: ObjectId, number: u64) -> Self {
        Self { recorder, object, number, state: AtomicU8::new(ASKED) }
    }

    /// Returns the number of the operation.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Records an event of this operation at the present time, and returns the time in µs.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn record(&self, what: What) -> io::Result<u64> {
        self.record_at(clock::now(), what)
    }

    /// Records an event of this operation at a time that was read before, and returns that time.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn record_at(&self, at: u64, what: What) -> io::Result<u64> {
        match what {
            What::Granted { .. } => self.state.store(GRANTED, Ordering::Relaxed),
            What::Renewed { .. } | What::Believed { .. } | What::Wrote { .. } | What::WriteRefused { .. } => {
            }
            _ => self.state.store(OVER, Ordering::Relaxed),
        }
        self.recorder.record_at(at, self.number, Some(&self.object), what)?;
        Ok(at)
    }

    /// Records that the call was granted `guard`, and keeps both together.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn granted<G: Guard>(self, guard: G) -> io::Result<RecordedHold<G>> {
        let deadline = guard.deadline().map(clock::micros_of);
        let (ticket, token, weight) = (guard.ticket(), guard.token(), guard.weight());
        self.record(What::Granted { ticket, token, deadline, weight })?;
        Ok(RecordedHold { operation: self, guard })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let what = match *self.state.get_mut() {
            ASKED => What::Cancelled,
            GRANTED => What::Releasing { lease: None },
            _ => return,
        };
        let _ = self.record(what);
    }
}

/// The values that a [`RecordedHold`] reads from a guard.
pub trait Guard {
    /// Returns the ticket.
    fn ticket(&self) -> Ticket;
    /// Returns the fencing token.
    fn token(&self) -> FencingToken;
    /// Returns the number of permits; 1 for an object without permits.
    fn weight(&self) -> u32;
    /// Returns the deadline.
    fn deadline(&self) -> Option<Instant>;
    /// Returns whether the holder believes in it.
    fn is_held(&self) -> bool;
}

macro_rules! guard {
    ($guard:ty, $weight:expr) => {
        impl Guard for $guard {
            fn ticket(&self) -> Ticket {
                self.ticket()
            }
            fn token(&self) -> FencingToken {
                self.fencing_token()
            }
            fn weight(&self) -> u32 {
                let weight: fn(&$guard) -> u32 = $weight;
                weight(self)
            }
            fn deadline(&self) -> Option<Instant> {
                self.deadline()
            }
            fn is_held(&self) -> bool {
                self.is_held()
            }
        }
    };
}

guard!(MutexGuard, |_| 1);
guard!(Permit, |permit| permit.weight());
guard!(Member, |_| 1);

/// A guard and its operation.
///
/// # Drop
/// Records that the hold is given up, and only then drops the guard: a recorded belief is never
/// longer than the real one.
#[derive(Debug)]
#[must_use = "dropping a hold releases it"]
pub struct RecordedHold<G> {
    // Dropped in this order.
    operation: Operation,
    guard: G,
}

impl<G: Guard> RecordedHold<G> {
    /// Returns the operation, to record guarded writes or a loss.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Calls `is_held` in the order of [`What::Believed`]; records and returns the result.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn believes(&self) -> io::Result<bool> {
        let at = clock::now();
        let held = self.guard.is_held();
        let deadline = self.guard.deadline().map(clock::micros_of);
        self.operation.record_at(at, What::Believed { held, deadline })?;
        Ok(held)
    }

    /// Records that the hold is given up, and returns operation and guard. The caller ends the hold
    /// at once and records the outcome.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn releasing(self) -> io::Result<(Operation, G)> {
        self.giving_up(None)
    }

    /// Does the same as [`releasing`](Self::releasing) for a hold that is detached with `lease` µs.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn detaching(self, lease: u64) -> io::Result<(Operation, G)> {
        self.giving_up(Some(lease))
    }

    fn giving_up(self, lease: Option<u64>) -> io::Result<(Operation, G)> {
        self.operation.record(What::Releasing { lease })?;
        Ok((self.operation, self.guard))
    }
}

impl<G> Deref for RecordedHold<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.guard
    }
}
