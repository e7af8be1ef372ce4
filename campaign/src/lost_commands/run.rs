//! The runs: each call under each contention, first without a fault, and then with each of its
//! commands lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stanchion_core::{Kind, Store};

use super::holding::Holding;
use super::limiting::Limiting;
use super::report::{Breach, Counts, Report};
use super::trial::{Checked, Ended, SHORT, Setting, Trial, after_fault};
use super::waiting::Waiting;
use super::{Call, Contention, LEASE, Loss, Losses, TestedServer};
use stanchion_conformance::support::{EPSILON, POLL_FLOOR, join_all, spawn, timeout, unique};
use stanchion_testbed::faults::{Proxy, When};

/// Number of concurrent runs. A run mostly waits.
const CONCURRENT_RUNS: usize = 6;
/// Maximum number of commands: more than any call needs.
const MAXIMUM_COMMANDS: u64 = 100;
/// Timeout for a call that is to be dropped to send its k-th command.
const DROP_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Timeout for the server's reply that is then lost.
const REPLY_TIMEOUT: Duration = Duration::from_millis(100);

/// A call under one contention, with one command lost, or none.
#[derive(Clone, Copy, Debug)]
struct Plan {
    call: Call,
    contention: Contention,
    loss: Loss,
    /// The number of the lost command, counted from 1. With `None`, a plan with `dropped` still
    /// drops the future.
    k: Option<u64>,
}

/// The result of a run without a breach.
#[derive(Debug)]
struct Run {
    /// The number of commands that the call sent before it ended.
    commands: u64,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Granted,
    Refused,
    Failed,
    Dropped,
}

pub(super) async fn all(tested: &Arc<dyn TestedServer>, witness: &Arc<dyn Store>, losses: Losses) -> Report {
    let mut report = Report::default();
    // First without a fault, to learn how many commands each call sends.
    let contentions = Plan::without_loss(tested.kinds(), witness.as_ref());
    let mut plans = Vec::new();
    for (plan, run) in carry_out(tested, witness, contentions).await {
        if let Ok(run) = &run {
            plans.extend(plan.with_losses(run.commands, losses));
        }
        report.note(plan, run);
    }
    for (plan, run) in carry_out(tested, witness, plans).await {
        report.note(plan, run);
    }
    report
}

/// Runs the plans, some of them concurrently.
async fn carry_out(
    tested: &Arc<dyn TestedServer>,
    witness: &Arc<dyn Store>,
    plans: Vec<Plan>,
) -> Vec<(Plan, Checked<Run>)> {
    let plans: Arc<[Plan]> = plans.into();
    let next = Arc::new(AtomicUsize::new(0));
    let workers = (0..CONCURRENT_RUNS).map(|_| {
        let (plans, next) = (Arc::clone(&plans), Arc::clone(&next));
        let (tested, witness) = (Arc::clone(tested), Arc::clone(witness));
        spawn(async move {
            let mut runs = Vec::new();
            while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                runs.push((*plan, plan.run(&tested, &witness).await));
            }
            runs
        })
    });
    join_all(workers.collect()).await.into_iter().flatten().collect()
}

impl Plan {
    /// Plans every call that the store supports under every contention, without a loss.
    fn without_loss(kinds: &[Kind], store: &dyn Store) -> Vec<Self> {
        let offers = |call: &Call| {
            let detaches = store.capabilities().detach || call.kind() != Kind::Mutex;
            kinds.contains(&call.kind()) && (detaches || !call.attaches())
        };
        let mut plans = Vec::new();
        for call in Call::ALL.into_iter().filter(offers) {
            for contention in call.contentions() {
                let mut loss = Loss::all()[0];
                // The bucket does not fill in time: the call must be dropped.
                loss.dropped = call == Call::WaitTokens && *contention == Contention::Held;
                plans.push(Self { call, contention: *contention, loss, k: None });
            }
        }
        plans
    }

    /// Plans the same call with each of its commands lost, and with one more, in case another run
    /// sends one more.
    fn with_losses(self, commands: u64, losses: Losses) -> Vec<Self> {
        let one_more = Self { k: Some(commands + 1), ..self };
        let mut plans = vec![one_more];
        for k in 1..=commands.min(MAXIMUM_COMMANDS) {
            let fits = |loss: &Loss| loss.dropped || !self.loss.dropped;
            let of_k = losses.of(self.call, self.contention, k).into_iter().filter(fits);
            plans.extend(of_k.map(|loss| Self { loss, k: Some(k), ..self }));
        }
        plans
    }

    async fn run(self, tested: &Arc<dyn TestedServer>, witness: &Arc<dyn Store>) -> Checked<Run> {
        match self.call {
            Call::Wait | Call::WaitFor => self.one::<Waiting>(tested, witness).await,
            call if call.kind() == Kind::Limiter => self.one::<Limiting>(tested, witness).await,
            _ => self.one::<Holding>(tested, witness).await,
        }
    }

    async fn one<T: Trial>(self, tested: &Arc<dyn TestedServer>, witness: &Arc<dyn Store>) -> Checked<Run> {
        let proxy = Proxy::to(&tested.server()).map_err(|error| error.to_string())?;
        let own = tested.connect(&proxy.url(&tested.server())).await;
        let setting = Setting {
            call: self.call,
            contention: self.contention,
            name: unique("await"),
            own: Arc::clone(&own),
            witness: Arc::clone(witness),
            tested: Arc::clone(tested),
        };
        let trial = Arc::new(after_fault(T::prepare(setting).await)?);
        let checked = self.strike(&proxy, &trial, tested.request_timeout()).await;
        let checked = checked.map_err(|text| format!("{text}\n{proxy}"));
        // A hold that it cannot release does not exist: `check` has verified that.
        drop(own.close().await);
        checked
    }

    async fn strike<T: Trial>(self, proxy: &Proxy, trial: &Arc<T>, request: Duration) -> Checked<Run> {
        let mark = proxy.mark();
        // There is no command number 0.
        let rule = proxy.on(When::nth(self.k.unwrap_or(0)), self.loss.action());
        let holder = (self.contention == Contention::Releasing).then(|| {
            let trial = Arc::clone(trial);
            spawn(async move { trial.make_way().await })
        });
        let ended = match self.loss.dropped {
            true => {
                let struck = async {
                    proxy.wait_for_requests(mark, self.k.unwrap_or(MAXIMUM_COMMANDS), DROP_TIMEOUT).await;
                    rule.wait_fired(REPLY_TIMEOUT).await;
                };
                tokio::select! {
                    biased;
                    answer = trial.call() => Ended::of(answer),
                    () = struck => Ended::Dropped,
                }
            }
            false => {
                let limit = self.bound(request);
                let answer = timeout(limit, trial.call()).await;
                Ended::of(answer.map_err(|_| format!("it has not ended within {limit:?}"))?)
            }
        };
        let commands = proxy.requests_since(mark);
        rule.remove();
        let how = How::of(&ended);
        match holder {
            Some(holder) => after_fault(holder.join().await)?,
            None => after_fault(trial.make_way().await)?,
        }
        trial.check(ended).await?;
        Ok(Run { commands, how })
    }

    /// Returns the maximum time of the call.
    fn bound(self, request: Duration) -> Duration {
        let wait = match self.call {
            // A second attempt, after a pause, finds what became of the first.
            _ if self.call.attaches() => request + EPSILON,
            _ if self.call.is_one_attempt() => Duration::ZERO,
            Call::TryLockFor
            | Call::TryAcquireFor
            | Call::TryAddFor
            | Call::WaitFor
            | Call::WaitTokensFor
                if self.contention == Contention::Held =>
            {
                return SHORT + EPSILON;
            }
            // The client notices a loss after the request timeout, and a silent session after its
            // TTL. Then it asks again, at the poll floor at the latest.
            _ => request + POLL_FLOOR + LEASE,
        };
        wait + request + EPSILON
    }
}

impl How {
    fn of<T>(ended: &Ended<T>) -> Self {
        match ended {
            Ended::Granted(_) => Self::Granted,
            Ended::Refused => Self::Refused,
            Ended::Failed(_) => Self::Failed,
            Ended::Dropped => Self::Dropped,
        }
    }
}

impl Report {
    fn note(&mut self, plan: Plan, run: Checked<Run>) {
        let Plan { call, contention, loss, k } = plan;
        let counts = self.counts.entry(call.to_string()).or_default();
        counts.runs += 1;
        match run {
            Ok(run) => counts.note(&run, k.unwrap_or(u64::MAX)),
            Err(text) => self.breaches.push(Breach { call, contention, loss, k, text }),
        }
    }
}

impl Counts {
    fn note(&mut self, run: &Run, k: u64) {
        if run.commands >= k {
            self.struck += 1;
            self.commands = self.commands.max(k);
        }
        *match run.how {
            How::Granted => &mut self.granted,
            How::Refused => &mut self.refused,
            How::Failed => &mut self.failed,
            How::Dropped => &mut self.dropped,
        } += 1;
    }
}
