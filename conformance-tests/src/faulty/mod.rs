//! Faults between a store's steps and its engine: lost, doubled, late or slow requests, lost
//! replies, and lost or doubled wake-ups.
//!
//! Without faults, an engine never sends a request twice, so a test above the engine cannot show
//! whether a step is idempotent by its ticket. [`wrap`] puts [`Faults`] around the steps that a
//! store's builder passes to `with_steps`. The cases of the group `under_faults` order single
//! faults, or draw them at random.
//!
//! # Time limits
//! A lost request or reply ends with `Unknown` after the limit of the [`Faults`], or after a third
//! of a lease in the request if that is less. A client library with a silent socket does the same.
//! So a step without a limit by the engine does not hang. If the engine's limit is shorter, the
//! engine ends the step first.
//!
//! # Doubled and late requests
//! A doubled request is executed twice in a row, and its caller gets the second answer. A release
//! without a call is the exception: it gets the first answer, because its second one is an honest
//! no. A late request gets the answer `Unknown`, and is executed long after: by
//! [`Faults::deliver`], or between later requests if faults are drawn. An engine sends an
//! operator's request (`resize`, `force`, `set_quota`, `reset`, `clear`) only once, so no faults
//! are drawn for it.

mod draw;
mod steps;
mod wake;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{now, sleep};
use stanchion_core::engine::EngineSteps;
use stanchion_core::spi::{RequestKind, Steps, WakeSource};
use stanchion_core::{Error, ErrorKind, Result};

use self::draw::Draw;
pub use self::steps::FaultySteps;
pub use self::wake::FaultyWake;

/// Default time limit of a request without an answer.
pub const LIMIT: Duration = Duration::from_millis(300);

/// The fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is never executed.
    LoseRequest,
    /// The request is executed, and its reply is lost.
    LoseReply,
    /// The request is executed twice.
    Double,
    /// The request is executed long after its caller has given it up.
    Late,
    /// The request takes a part of its time limit.
    Delay,
}

/// A request in flight.
type Sending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The faults of the steps of one store object.
#[derive(Debug)]
pub struct Faults {
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The ordered faults: kind and fault, in the order of the requests.
    orders: Vec<(RequestKind, Fault)>,
    /// The executed requests.
    executed: Vec<RequestKind>,
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
    /// Creates faults that happen only if they are ordered.
    #[must_use]
    pub fn ordered() -> Self {
        Self { limit: LIMIT, state: Mutex::default() }
    }

    /// Creates faults that are drawn for one request in five. The seed is `STANCHION_SEED` or a new
    /// one. It is printed; the test runner shows it if the case fails.
    #[must_use]
    pub fn drawn() -> Self {
        let draw = Draw::new();
        println!("STANCHION_SEED={}", draw.seed);
        Self { limit: LIMIT, state: Mutex::new(State { draw: Some(draw), ..State::default() }) }
    }

    /// Sets the time limit of a request without an answer.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders a fault for the next request of a kind. Further orders of the same kind apply to the
    /// requests after it.
    pub fn order(&self, kind: RequestKind, fault: Fault) {
        self.state().orders.push((kind, fault));
    }

    /// Returns whether all ordered faults have happened.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.state().orders.is_empty()
    }

    /// Loses all wake-ups from now on.
    pub fn lose_hints(&self) {
        self.state().no_hints = true;
    }

    /// Returns how often requests of a kind were executed.
    #[must_use]
    pub fn executed(&self, kind: RequestKind) -> usize {
        self.state().executed.iter().filter(|executed| **executed == kind).count()
    }

    /// Returns how many late requests are in flight.
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

    /// Returns the fault of this request, and a late request that is executed before it.
    fn next(&self, kind: RequestKind) -> (Option<Fault>, Option<Sending<()>>) {
        let mut state = self.state();
        if let Some(place) = state.orders.iter().position(|(ordered, _)| *ordered == kind) {
            return (Some(state.orders.remove(place).1), None);
        }
        let State { draw: Some(draw), late, .. } = &mut *state else { return (None, None) };
        let before = draw.late(late.len()).map(|place| late.swap_remove(place));
        (draw.fault(kind), before)
    }

    /// Sends a request with the fault that was ordered or drawn for it.
    ///
    /// # Errors
    /// `Unknown` after `limit` if no answer came.
    async fn carry<T: Send + 'static>(
        &self,
        kind: RequestKind,
        limit: Duration,
        answered_again: bool,
        send: impl Fn() -> Sending<T> + Send,
    ) -> Result<T> {
        let end = now() + limit;
        let (fault, before) = self.next(kind);
        if let Some(before) = before {
            before.await;
        }
        match fault {
            None => return Ok(self.execute(kind, send()).await),
            Some(Fault::Delay) => {
                sleep(limit / 4).await;
                return Ok(self.execute(kind, send()).await);
            }
            Some(Fault::Double) => {
                let first = self.execute(kind, send()).await;
                let second = self.execute(kind, send()).await;
                return Ok(if answered_again { second } else { first });
            }
            Some(Fault::LoseReply) => drop(self.execute(kind, send()).await),
            Some(Fault::LoseRequest) => {}
            Some(Fault::Late) => {
                let late = send();
                self.state().late.push(Box::pin(async move { drop(late.await) }));
            }
        }
        sleep(end.saturating_duration_since(now())).await;
        Err(Error::new(ErrorKind::Unknown, "no answer came within the request's time limit"))
    }

    async fn execute<T>(&self, kind: RequestKind, request: Sending<T>) -> T {
        let answer = request.await;
        self.state().executed.push(kind);
        answer
    }
}

/// Puts faults between a store's engine and its steps: those of its callers and those of the engine
/// itself.
#[must_use]
pub fn wrap(steps: EngineSteps, faults: &Arc<Faults>) -> EngineSteps {
    let EngineSteps { callers, own, wake } = steps;
    let wake = wake.map(|wake| Arc::new(FaultyWake::new(wake, faults)) as Arc<dyn WakeSource>);
    let faulty = |steps| Arc::new(FaultySteps::new(steps, faults)) as Arc<dyn Steps>;
    EngineSteps { callers: faulty(callers), own: faulty(own), wake }
}
