//! The runs: for each call, scene and loss, k counts up until the call ends before its k-th command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stanchion_core::{Kind, Store};
use tokio::time::timeout;

use super::holding::Holding;
use super::limiting::Limiting;
use super::report::{Breach, Counts, Report};
use super::trial::{Checked, Ended, SHORT, Setting, Trial, plain};
use super::waiting::Waiting;
use super::{Call, LEASE, Loss, Scene, Stand};
use crate::cases::support::{EPSILON, POLL_FLOOR, join_all, spawn, unique};
use crate::faults::{Proxy, When};

/// Chains that run at the same time: most of their time they wait.
const SIDE_BY_SIDE: usize = 12;
/// More commands than any call needs.
const MOST_COMMANDS: u64 = 40;
/// How long a call that is to be dropped may take to its k-th command.
const UNTIL_DROPPED: Duration = Duration::from_millis(1_000);
/// How long a server may take to reply what is then lost.
const REPLIED: Duration = Duration::from_millis(100);

/// The runs of one call, in one scene, under one loss.
#[derive(Clone, Copy, Debug)]
struct Chain {
    call: Call,
    scene: Scene,
    loss: Loss,
}

/// How a run ended, if all was as it should be.
#[derive(Debug)]
struct Run {
    /// Commands that the call sent before it ended.
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

pub(super) async fn all(stand: &Arc<dyn Stand>, witness: &Arc<dyn Store>) -> Report {
    let chains: Arc<[Chain]> = chains(stand.kinds()).into();
    let next = Arc::new(AtomicUsize::new(0));
    let workers = (0..SIDE_BY_SIDE).map(|_| {
        let (chains, next) = (Arc::clone(&chains), Arc::clone(&next));
        let (stand, witness) = (Arc::clone(stand), Arc::clone(witness));
        spawn(async move {
            let mut results = Vec::new();
            while let Some(chain) = chains.get(next.fetch_add(1, Ordering::Relaxed)) {
                results.push((chain.call, chain.run(&stand, &witness).await));
            }
            results
        })
    });
    let mut report = Report::default();
    for (call, (counts, breach)) in join_all(workers.collect()).await.into_iter().flatten() {
        report.counts.entry(call.to_string()).or_default().add(counts);
        report.breaches.extend(breach);
    }
    report
}

/// Those that wait the longest come first.
fn chains(kinds: &[Kind]) -> Vec<Chain> {
    let mut chains = Vec::new();
    for call in Call::ALL.into_iter().filter(|call| kinds.contains(&call.kind())) {
        for scene in call.scenes() {
            for loss in Loss::all() {
                // Nobody waits so long for a bucket to fill.
                if call == Call::WaitTokens && *scene == Scene::Held && !loss.dropped {
                    continue;
                }
                chains.push(Chain { call, scene: *scene, loss });
            }
        }
    }
    chains.sort_by_key(|chain| chain.scene == Scene::Free);
    chains
}

impl Chain {
    async fn run(self, stand: &Arc<dyn Stand>, witness: &Arc<dyn Store>) -> (Counts, Option<Breach>) {
        let mut counts = Counts::default();
        for k in 1..=MOST_COMMANDS {
            let run = match self.call {
                Call::Wait | Call::WaitFor => self.one::<Waiting>(k, stand, witness).await,
                call if call.kind() == Kind::Limiter => self.one::<Limiting>(k, stand, witness).await,
                _ => self.one::<Holding>(k, stand, witness).await,
            };
            match run {
                Ok(run) => {
                    counts.note(&run, k);
                    if run.commands < k {
                        return (counts, None);
                    }
                }
                Err(text) => return (counts, Some(self.breach(k, text))),
            }
        }
        (counts, Some(self.breach(MOST_COMMANDS, "it needs one command after the other".to_owned())))
    }

    fn breach(self, k: u64, text: String) -> Breach {
        let Self { call, scene, loss } = self;
        Breach { call, scene, loss, k, text }
    }

    async fn one<T: Trial>(self, k: u64, stand: &Arc<dyn Stand>, witness: &Arc<dyn Store>) -> Checked<Run> {
        let proxy = Proxy::to(&stand.server()).map_err(|error| error.to_string())?;
        let own = stand.connect(&proxy.url(&stand.server())).await;
        let setting = Setting {
            call: self.call,
            scene: self.scene,
            name: unique("await"),
            own: Arc::clone(&own),
            witness: Arc::clone(witness),
            stand: Arc::clone(stand),
        };
        let trial = Arc::new(plain(T::prepare(setting).await)?);
        let checked = self.strike(k, &proxy, &trial, stand.request_timeout()).await;
        let checked = checked.map_err(|text| format!("{text}\n{proxy}"));
        // What it cannot give back, nobody holds: that was looked at.
        drop(own.close().await);
        checked
    }

    async fn strike<T: Trial>(
        self,
        k: u64,
        proxy: &Proxy,
        trial: &Arc<T>,
        request: Duration,
    ) -> Checked<Run> {
        let mark = proxy.mark();
        let rule = proxy.on(When::nth(k), self.loss.action());
        let holder = (self.scene == Scene::Releasing).then(|| {
            let trial = Arc::clone(trial);
            spawn(async move { trial.make_way().await })
        });
        let ended = match self.loss.dropped {
            true => {
                let struck = async {
                    proxy.wait_for_requests(mark, k, UNTIL_DROPPED).await;
                    rule.wait_fired(REPLIED).await;
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
            Some(holder) => plain(holder.join().await)?,
            None => plain(trial.make_way().await)?,
        }
        trial.check(ended).await?;
        Ok(Run { commands, how })
    }

    /// How long the call may take.
    fn bound(self, request: Duration) -> Duration {
        let wait = match self.call {
            _ if self.call.is_one_attempt() => Duration::ZERO,
            Call::TryLockFor
            | Call::TryAcquireFor
            | Call::TryAddFor
            | Call::WaitFor
            | Call::WaitTokensFor
                if self.scene == Scene::Held =>
            {
                return SHORT + EPSILON;
            }
            // What is lost is noticed after the request's limit; then it is asked again, at the poll floor if need be.
            _ => request + POLL_FLOOR + LEASE / 2,
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

impl Counts {
    fn note(&mut self, run: &Run, k: u64) {
        self.runs += 1;
        self.struck += usize::from(run.commands >= k);
        self.commands = self.commands.max(if run.commands >= k { k } else { 0 });
        *match run.how {
            How::Granted => &mut self.granted,
            How::Refused => &mut self.refused,
            How::Failed => &mut self.failed,
            How::Dropped => &mut self.dropped,
        } += 1;
    }

    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.struck += other.struck;
        self.commands = self.commands.max(other.commands);
        self.granted += other.granted;
        self.refused += other.refused;
        self.failed += other.failed;
        self.dropped += other.dropped;
    }
}
