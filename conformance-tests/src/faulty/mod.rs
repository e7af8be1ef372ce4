//! Faults between a store's steps and its engine: requests and replies that are lost, doubled, late or slow, and wake-ups
//! that are lost or doubled.
//!
//! Without faults an engine never sends a request twice, so that nothing above it shows whether a step is idempotent by its
//! ticket. [`wrap`] puts [`Faults`] into what a store's builder offers by `with_steps`; the cases of the group
//! `under_faults` order them one by one, or have them drawn.
//!
//! # Time limits
//! A lost request or reply ends with `Unknown` after the limit of the [`Faults`], and a third of the shortest lease in the
//! request if that is less, as a client library does whose socket stays silent. So a step that has no limit of the
//! engine's own does not hang. Where the engine's limit is shorter, the engine ends the step first.
//!
//! # What is doubled
//! A doubled request is executed twice in a row, and answered by the second answer. A release without a call is answered
//! by the first: its second answer is an honest no. A late request is executed by [`Faults::deliver`], or between later
//! requests where faults are drawn, long after its caller was told that nobody knows. What an operator does
//! (`resize`, `force`, `set_quota`, `reset`, `clear`) is not sent twice by an engine, and not drawn.

mod draw;
mod steps;
mod wake;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{now, sleep};
use stanchion_core::engine::EngineSteps;
use stanchion_core::steps::{BloomSteps, GroupSteps, LimitSteps, Steps, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ttl};

use self::draw::Draw;
pub use self::steps::FaultySteps;
pub use self::wake::FaultyWake;

/// How long a caller waits for an answer that does not come, if nothing else is said.
pub const LIMIT: Duration = Duration::from_millis(300);

/// The steps that faults can be ordered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// `PermitSteps::acquire`.
    Acquire,
    /// `PermitSteps::renew`.
    Renew,
    /// `PermitSteps::release`.
    Release,
    /// `PermitSteps::cancel`.
    Cancel,
    /// `PermitSteps::poll`.
    Poll,
    /// `PermitSteps::attach`.
    Attach,
    /// `GroupSteps::look`.
    Look,
    /// `GroupSteps::split`.
    Split,
    /// `LimitSteps::decide`.
    Decide,
    /// `LimitSteps::refund`.
    Refund,
    /// `BloomSteps::probe`.
    Probe,
    /// `BloomSteps::merge`.
    Merge,
    /// All others: what tells and what an operator does.
    Other,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is never executed.
    LoseRequest,
    /// It is executed, and nobody hears of it.
    LoseReply,
    /// It is executed twice.
    Double,
    /// It is executed long after its caller has given it up.
    Late,
    /// It takes a part of its time limit.
    Delay,
}

/// A request on its way.
type Sending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What goes wrong with the steps of one store object.
#[derive(Debug)]
pub struct Faults {
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is to become of the next requests of a step, in order.
    orders: Vec<(Step, Fault)>,
    /// Steps that were executed.
    executed: Vec<Step>,
    late: Vec<Sending<()>>,
    no_hints: bool,
    draw: Option<Draw>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("orders", &self.orders)
            .field("draw", &self.draw)
            .finish_non_exhaustive()
    }
}

impl Faults {
    /// None but those that are ordered.
    #[must_use]
    pub fn ordered() -> Self {
        Self { limit: LIMIT, state: Mutex::default() }
    }

    /// Drawn for one request in five, by a seed that is `STANCHION_SEED` or new. It is printed, which the test runner
    /// shows of a case that fails.
    #[must_use]
    pub fn drawn() -> Self {
        let draw = Draw::new();
        println!("STANCHION_SEED={}", draw.seed);
        Self { limit: LIMIT, state: Mutex::new(State { draw: Some(draw), ..State::default() }) }
    }

    /// With another time limit of a request that is not answered.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders what becomes of the next request of a step for which nothing is ordered yet.
    pub fn order(&self, step: Step, fault: Fault) {
        self.state().orders.push((step, fault));
    }

    /// Whether everything ordered has happened.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.state().orders.is_empty()
    }

    /// Loses all wake-ups from now on.
    pub fn lose_hints(&self) {
        self.state().no_hints = true;
    }

    /// How often a step was executed.
    #[must_use]
    pub fn executed(&self, step: Step) -> usize {
        self.state().executed.iter().filter(|executed| **executed == step).count()
    }

    /// How many late requests are on their way.
    #[must_use]
    pub fn late(&self) -> usize {
        self.state().late.len()
    }

    /// Executes all late requests.
    pub async fn deliver(&self) {
        loop {
            let Some(late) = self.state().late.pop() else { return };
            late.await;
        }
    }

    /// Draws no more faults, and executes all late requests.
    pub async fn calm(&self) {
        self.state().draw = None;
        self.deliver().await;
    }

    /// The time limit of a request with these leases.
    fn limit_of(&self, leases: impl Iterator<Item = Ttl>) -> Duration {
        leases.map(Ttl::renewal).min().map_or(self.limit, |lease| lease.min(self.limit))
    }

    /// What becomes of this request, and a late one that comes before it.
    fn next(&self, step: Step) -> (Option<Fault>, Option<Sending<()>>) {
        let mut state = self.state();
        if let Some(place) = state.orders.iter().position(|(ordered, _)| *ordered == step) {
            return (Some(state.orders.remove(place).1), None);
        }
        let State { draw: Some(draw), late, .. } = &mut *state else { return (None, None) };
        let before = draw.late(late.len()).map(|place| late.swap_remove(place));
        (draw.fault(step), before)
    }

    /// Sends a request, and does to it what was ordered or drawn.
    ///
    /// # Errors
    /// `Unknown` after `limit` if no answer came.
    async fn carry<T: Send + 'static>(
        &self,
        step: Step,
        limit: Duration,
        answered_again: bool,
        send: impl Fn() -> Sending<T> + Send,
    ) -> Result<T> {
        let end = now() + limit;
        let (fault, before) = self.next(step);
        if let Some(before) = before {
            before.await;
        }
        match fault {
            None => return Ok(self.execute(step, send()).await),
            Some(Fault::Delay) => {
                sleep(limit / 4).await;
                return Ok(self.execute(step, send()).await);
            }
            Some(Fault::Double) => {
                let first = self.execute(step, send()).await;
                let second = self.execute(step, send()).await;
                return Ok(if answered_again { second } else { first });
            }
            Some(Fault::LoseReply) => drop(self.execute(step, send()).await),
            Some(Fault::LoseRequest) => {}
            Some(Fault::Late) => {
                let late = send();
                self.state().late.push(Box::pin(async move { drop(late.await) }));
            }
        }
        sleep(end.saturating_duration_since(now())).await;
        Err(Error::new(ErrorKind::Unknown, "no answer came within the request's time limit"))
    }

    async fn execute<T>(&self, step: Step, request: Sending<T>) -> T {
        let answer = request.await;
        self.state().executed.push(step);
        answer
    }
}

/// Puts faults between a store's steps, both its callers' and its engine's, and its engine.
#[must_use]
pub fn wrap(steps: EngineSteps, faults: &Arc<Faults>) -> EngineSteps {
    let EngineSteps { callers, own, wake } = steps;
    let wake = wake.map(|wake| Arc::new(FaultyWake::new(wake, faults)) as Arc<dyn WakeSource>);
    EngineSteps { callers: wrap_steps(callers, faults), own: wrap_steps(own, faults), wake }
}

fn wrap_steps(mut steps: Steps, faults: &Arc<Faults>) -> Steps {
    steps.permits = Arc::new(FaultySteps::new(steps.permits, faults));
    steps.groups =
        steps.groups.map(|groups| Arc::new(FaultySteps::new(groups, faults)) as Arc<dyn GroupSteps>);
    steps.limits =
        steps.limits.map(|limits| Arc::new(FaultySteps::new(limits, faults)) as Arc<dyn LimitSteps>);
    steps.bloom = steps.bloom.map(|bloom| Arc::new(FaultySteps::new(bloom, faults)) as Arc<dyn BloomSteps>);
    steps
}
