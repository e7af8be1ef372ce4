//! What a lease store brings along so that its steps can be tested.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Ticket;
use stanchion_core::engine::steps::{GroupSteps, LimitSteps, Object, PermitSteps, WakeSource};
use tokio::sync::Mutex;
use tokio::time::timeout;

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
/// As a [`Harness`](crate::Harness), each case makes one of its own.
#[async_trait]
pub trait StepHarness: Send + Sync + 'static {
    /// Another process, with an identity and connections of its own.
    ///
    /// # Panics
    /// As all of these do, if the store cannot be reached.
    async fn process(&self) -> Process;

    /// A process for which idle names keep their fencing tokens for `tokens` and the rest for `state` (C25).
    async fn forgetful_process(&self, tokens: Duration, state: Duration) -> Process;

    /// A process in another namespace of the same server.
    async fn stranger(&self) -> Process;

    /// A harness on a server of its own, whose data survive a kill, and that server.
    async fn alone(&self) -> (Box<dyn StepHarness>, Box<dyn Outages>);

    /// Keeps every other step from an object's record for `time` from now on: by a transaction that has locked it, or by a
    /// server that does nothing else. Asked of a harness that is [`alone`](Self::alone), for an object that is in use.
    async fn keep_busy(&self, object: &Object, time: Duration);

    /// Makes the store forget everything it keeps in the namespace, as after a crash without persistence.
    async fn lose_data(&self);

    /// How many names the store keeps anything of, beside hints: records that are over, but only wait to be swept, do not
    /// count.
    async fn records(&self) -> usize;

    /// How many names have processes noted that wait for the end of a generation.
    async fn watched(&self) -> usize;

    /// Sets the last fencing token of an object that is free.
    async fn set_token(&self, object: &Object, token: u64);

    /// What the record of a wait group says of its members.
    async fn tally(&self, group: &Object) -> Tally;

    /// Looks at everything the store keeps of an object, if there is anything.
    ///
    /// # Panics
    /// If a count, a bound or an index does not agree with what it is about.
    async fn check(&self, object: &Object);
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
