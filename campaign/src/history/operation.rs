//! Recording one call and what it was granted.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use stanchion_core::{FencingToken, Member, MutexGuard, Permit, Ticket};

use super::{ObjectId, Recorder, What, clock};

/// One call under way.
///
/// # Drop
/// Before an answer was recorded, it records that the call was cancelled; after a grant, that the hold is given up. An
/// error of that write is passed over.
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

    /// The number of the operation.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Records an event of this operation, now, and gives its time in µs.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn record(&self, what: What) -> io::Result<u64> {
        self.record_at(clock::now(), what)
    }

    /// Records an event of this operation of a time that was read before, and gives that time.
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

    /// Records that the call was granted that guard, and keeps both together.
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

/// What a [`RecordedHold`] reads of a guard.
pub trait Guard {
    /// The ticket.
    fn ticket(&self) -> Ticket;
    /// The fencing token.
    fn token(&self) -> FencingToken;
    /// The permits; 1 where there are none.
    fn weight(&self) -> u32;
    /// The deadline.
    fn deadline(&self) -> Option<Instant>;
    /// Whether it is believed in.
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
/// Records that the hold is given up, and only then drops the guard: what the history says of a belief is never longer
/// than the belief.
#[derive(Debug)]
#[must_use = "dropping a hold releases it"]
pub struct RecordedHold<G> {
    // Dropped in this order.
    operation: Operation,
    guard: G,
}

impl<G: Guard> RecordedHold<G> {
    /// The operation, to record what is done with the hold: guarded writes, a loss that was seen.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Asks whether it is held, in the order of [`What::Believed`], records and returns the answer.
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

    /// Records that the hold is given up and hands it out: to be released, done or dropped at once, and the outcome
    /// recorded.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub fn releasing(self) -> io::Result<(Operation, G)> {
        self.giving_up(None)
    }

    /// As [`releasing`](Self::releasing), for a hold that is to be detached with a lease of so many µs.
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
