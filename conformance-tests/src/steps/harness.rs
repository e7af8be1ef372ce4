//! The interface between a lease store and the tests of its steps.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Ticket;
use stanchion_core::spi::{Object, Steps, WakeSource};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::provided::{NoWakeUps, ProvidedSteps, lacks};

/// One store object of one process, without an engine: cases drive its steps themselves.
#[derive(Clone, Debug)]
pub struct Process {
    /// The steps that its callers use.
    pub callers: Arc<dyn Steps>,
    /// The steps that its engine uses, over connections of its own.
    pub own: Arc<dyn Steps>,
    /// The source of its hints.
    pub wake: Arc<dyn WakeSource>,
    heard: Arc<Mutex<VecDeque<Ticket>>>,
}

impl Process {
    /// Creates a process with these steps. The source must deliver all hints that are sent from now
    /// on, whenever it is asked: a source that must connect first has to be connected before this
    /// call.
    #[must_use]
    pub fn new(callers: Arc<dyn Steps>, own: Arc<dyn Steps>, wake: Arc<dyn WakeSource>) -> Self {
        Self { callers, own, wake, heard: Arc::default() }
    }

    /// Creates a process of a store that may lack wait groups, limiters or a source of wake-ups. A
    /// case that needs a missing part cannot be shown, and fails unless the call of its suite lists
    /// it.
    #[must_use]
    pub fn of(callers: Arc<dyn Steps>, own: Arc<dyn Steps>, wake: Option<Arc<dyn WakeSource>>) -> Self {
        let wake = wake.unwrap_or_else(|| Arc::new(NoWakeUps));
        Self::new(Arc::new(ProvidedSteps(callers)), Arc::new(ProvidedSteps(own)), wake)
    }

    /// Returns the next hint to a waiter of this process.
    ///
    /// # Panics
    /// If the source is silent three times in a row, or its server is gone.
    pub async fn hint(&self) -> Ticket {
        let mut heard = self.heard.lock().await;
        for _ in 0..3 {
            if let Some(ticket) = heard.pop_front() {
                return ticket;
            }
            heard.extend(self.wake.next().await.expect("a server"));
        }
        heard.pop_front().expect("a hint")
    }

    /// Returns whether no hint comes within 100 ms.
    pub async fn is_silent(&self) -> bool {
        timeout(Duration::from_millis(100), self.hint()).await.is_err()
    }
}

/// The counts of members in the record of a wait group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The live members, by the record's own count.
    pub used: u64,
    /// The live members, by the holds that are kept.
    pub live: u64,
    /// The members that have ended, over all generations; cancelled ones do not count.
    pub ended: u64,
    /// The last generation.
    pub generation: u64,
}

/// A lease store whose steps are under test, with a namespace that no other harness sees.
///
/// Each case makes its own, like a [`Harness`](crate::Harness). Only [`process`](Self::process) is
/// required. Each other method is a capability of the harness: a case that needs a missing
/// capability fails, unless the call of its suite lists it with a reason.
#[async_trait]
pub trait StepHarness: Send + Sync + 'static {
    /// Connects another process, with an identity and connections of its own.
    ///
    /// # Panics
    /// If the store cannot be reached, like all methods here.
    async fn process(&self) -> Process;

    /// Connects a process whose idle names keep their fencing tokens for `tokens` and the rest for
    /// `state` ([C25]).
    ///
    /// [C25]: stanchion_core::contract#c25
    async fn forgetful_process(&self, tokens: Duration, state: Duration) -> Process {
        let _ = (tokens, state);
        lacks("processes with another retention time")
    }

    /// Connects a process to another namespace of the same server.
    async fn other_namespace(&self) -> Process {
        lacks("a second namespace")
    }

    /// Starts a private server, whose data survive a kill, and returns a harness on it together
    /// with the server.
    async fn alone(&self) -> (Box<dyn StepHarness>, Box<dyn Outages>) {
        lacks("a server that can be stopped and started again")
    }

    /// Blocks all other steps on an object's record for `time`: by a transaction that has locked
    /// it, or by keeping the server busy. It is called on a harness with a private server
    /// ([`alone`](Self::alone)), for an object that is in use.
    async fn keep_busy(&self, object: &Object, time: Duration) {
        let _ = (object, time);
        lacks("a way to keep a record busy")
    }

    /// Makes the store forget everything it keeps in the namespace, as after a crash without
    /// persistence.
    async fn lose_data(&self) {
        lacks("a way to lose data")
    }

    /// Returns the number of names with any state in the store, apart from hints. Records that only
    /// wait to be swept do not count.
    async fn records(&self) -> usize {
        lacks("a count of records")
    }

    /// Returns the number of names with processes that wait for the end of a generation.
    async fn watched(&self) -> usize {
        lacks("a count of watched names")
    }

    /// Sets the last fencing token of an object that is free.
    async fn set_token(&self, object: &Object, token: u64) {
        let _ = (object, token);
        lacks("a way to set a token")
    }

    /// Returns the counts of members in the record of a wait group.
    async fn tally(&self, group: &Object) -> Tally {
        let _ = group;
        lacks("access to the record of a wait group")
    }

    /// Checks the consistency of all state that the store keeps of an object.
    ///
    /// # Panics
    /// If a count, a bound or an index does not agree with the state that it describes.
    async fn check(&self, object: &Object) {
        let _ = object;
        lacks("access to all state of an object")
    }
}

/// A private server of one case, which the case can pause and kill.
pub trait Outages: Send + Sync {
    /// Pauses the server: connections stay open, and no request is answered.
    fn pause(&self);

    /// Resumes the server.
    fn resume(&self);

    /// Kills the server without a warning.
    fn kill(&self);

    /// Restarts the server on the same port and data; returns when it answers.
    fn restart(&self);
}

/// The limiters of a store with a clock that the case sets. Each harness has its own namespace.
#[async_trait]
pub trait ClockHarness: Send + Sync + 'static {
    /// Returns the steps: the same as in production, except for the clock.
    fn steps(&self) -> Arc<dyn Steps>;

    /// Sets the store's clock, in µs since 1970.
    async fn at(&self, now: u64);
}
