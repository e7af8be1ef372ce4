//! What a lease store brings along so that its steps can be tested.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Ticket;
use stanchion_core::steps::{GroupSteps, LimitSteps, Object, PermitSteps, Steps, WakeSource};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::provided::{ProvidedSteps, NoWakeUps, lacks};

/// The steps of all four primitives.
pub trait LeaseSteps: PermitSteps + GroupSteps + LimitSteps {}

impl<T: PermitSteps + GroupSteps + LimitSteps> LeaseSteps for T {}

/// One store object of one process, without an engine: cases drive its steps themselves.
#[derive(Clone, Debug)]
pub struct Process {
    /// What its callers use.
    pub callers: Arc<dyn LeaseSteps>,
    /// What its engine uses, over connections of its own.
    pub own: Arc<dyn LeaseSteps>,
    /// Where its hints come from.
    pub wake: Arc<dyn WakeSource>,
    heard: Arc<Mutex<VecDeque<Ticket>>>,
}

impl Process {
    /// Of these steps. The source has to bring all hints that are sent from now on, whenever it is asked: one that must
    /// connect first is connected here.
    #[must_use]
    pub fn new(callers: Arc<dyn LeaseSteps>, own: Arc<dyn LeaseSteps>, wake: Arc<dyn WakeSource>) -> Self {
        Self { callers, own, wake, heard: Arc::default() }
    }

    /// Of what a store has: wait groups, limiters and a source of wake-ups may be missing. A case that needs what is
    /// missing cannot be shown, and fails unless the call of its suite lists it.
    #[must_use]
    pub fn of(callers: Steps, own: Steps, wake: Option<Arc<dyn WakeSource>>) -> Self {
        let wake = wake.unwrap_or_else(|| Arc::new(NoWakeUps));
        Self::new(Arc::new(ProvidedSteps(callers)), Arc::new(ProvidedSteps(own)), wake)
    }

    /// The next hint to a waiter of this process.
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

    /// Whether no hint comes within 100 ms.
    pub async fn is_silent(&self) -> bool {
        timeout(Duration::from_millis(100), self.hint()).await.is_err()
    }
}

/// What the record of a wait group says of its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many live, by the record's own count.
    pub used: u64,
    /// How many live, by the holds that are kept.
    pub live: u64,
    /// How many have ended, over all generations; those that were cancelled are none.
    pub ended: u64,
    /// The last generation.
    pub generation: u64,
}

/// A lease store whose steps are under test, with a namespace that no other harness sees.
///
/// As a [`Harness`](crate::Harness), each case makes one of its own. Only [`process`](Self::process) has to be there. Each of
/// the others is a capability of the harness: a case that needs one that is missing fails, unless it is listed with a reason
/// in the call of its suite.
#[async_trait]
pub trait StepHarness: Send + Sync + 'static {
    /// Another process, with an identity and connections of its own.
    ///
    /// # Panics
    /// As all of these do, if the store cannot be reached.
    async fn process(&self) -> Process;

    /// A process for which idle names keep their fencing tokens for `tokens` and the rest for `state` (C25).
    async fn forgetful_process(&self, tokens: Duration, state: Duration) -> Process {
        let _ = (tokens, state);
        lacks("processes with another retention time")
    }

    /// A process in another namespace of the same server.
    async fn other_namespace(&self) -> Process {
        lacks("a second namespace")
    }

    /// A harness on a server of its own, whose data survive a kill, and that server.
    async fn alone(&self) -> (Box<dyn StepHarness>, Box<dyn Outages>) {
        lacks("a server that can be stopped and started again")
    }

    /// Keeps every other step from an object's record for `time` from now on: by a transaction that has locked it, or by a
    /// server that does nothing else. Asked of a harness that is [`alone`](Self::alone), for an object that is in use.
    async fn keep_busy(&self, object: &Object, time: Duration) {
        let _ = (object, time);
        lacks("a way to keep a record busy")
    }

    /// Makes the store forget everything it keeps in the namespace, as after a crash without persistence.
    async fn lose_data(&self) {
        lacks("a way to lose data")
    }

    /// How many names the store keeps anything of, beside hints: records that are over, but only wait to be swept, do not
    /// count.
    async fn records(&self) -> usize {
        lacks("a count of records")
    }

    /// How many names have processes noted that wait for the end of a generation.
    async fn watched(&self) -> usize {
        lacks("a count of watched names")
    }

    /// Sets the last fencing token of an object that is free.
    async fn set_token(&self, object: &Object, token: u64) {
        let _ = (object, token);
        lacks("a way to set a token")
    }

    /// What the record of a wait group says of its members.
    async fn tally(&self, group: &Object) -> Tally {
        let _ = group;
        lacks("a look at the record of a wait group")
    }

    /// Looks at everything the store keeps of an object, if there is anything.
    ///
    /// # Panics
    /// If a count, a bound or an index does not agree with what it is about.
    async fn check(&self, object: &Object) {
        let _ = object;
        lacks("a look at all that is kept of an object")
    }
}

/// A server that one case has for itself, to do harm to.
pub trait Outages: Send + Sync {
    /// Stops it where it is: connections stay open, nothing is answered.
    fn pause(&self);

    /// Lets it go on.
    fn resume(&self);

    /// Kills it without a warning.
    fn kill(&self);

    /// Starts it again on the same port and data; returns when it answers.
    fn restart(&self);
}

/// Limiters of a store by a clock that the case sets, each harness with a namespace of its own.
#[async_trait]
pub trait ClockHarness: Send + Sync + 'static {
    /// The steps: what users run, but for the clock.
    fn steps(&self) -> Arc<dyn LimitSteps>;

    /// Sets the store's clock, in µs since 1970.
    async fn at(&self, now: u64);
}
