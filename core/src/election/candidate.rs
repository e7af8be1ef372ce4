//! A candidate.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::yield_now;

use super::{ElectionHandle, ElectionOptions};
use crate::clock::sleep;
use crate::{ErrorKind, FencingToken, Mutex, MutexGuard, Result};

/// A candidate in an election, made by [`StoreExt::elect`](crate::StoreExt::elect). It does nothing
/// until [`run`](Self::run).
#[must_use = "a candidate stands for election only while `run` is polled"]
pub struct Election<F> {
    mutex: Arc<dyn Mutex>,
    options: ElectionOptions,
    lead: F,
    shared: Arc<Shared>,
}

/// State that a candidate and its handles share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The guard of the term, while this candidate leads.
    term: StdMutex<Weak<MutexGuard>>,
    orders: watch::Sender<Orders>,
    /// Whether the term is at a step that orders wait for.
    finishing: watch::Sender<bool>,
}

/// Orders that handles have given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Orders {
    /// Number of calls of `step_down`.
    steps_down: u64,
    withdrawn: bool,
}

/// How a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TermEnd {
    Done,
    SteppedDown,
    Lost,
}

impl<F> Election<F> {
    pub(crate) fn new(mutex: Arc<dyn Mutex>, options: ElectionOptions, lead: F) -> Self {
        let shared = Shared {
            term: StdMutex::new(Weak::new()),
            orders: watch::Sender::new(Orders::default()),
            finishing: watch::Sender::new(false),
        };
        Self { mutex, options, lead, shared: Arc::new(shared) }
    }

    /// Returns a handle of this candidate, for other tasks.
    #[must_use]
    pub fn handle(&self) -> ElectionHandle {
        ElectionHandle::new(&self.shared, &self.mutex)
    }

    /// Makes a candidate with other terms of this one, for the same handles.
    pub(super) fn leading<G>(self, lead: impl FnOnce(F, Finishing) -> G) -> Election<G> {
        let finishing = Finishing(Arc::clone(&self.shared));
        Election {
            mutex: self.mutex,
            options: self.options,
            lead: lead(self.lead, finishing),
            shared: self.shared,
        }
    }

    /// Stands for election until [`withdraw`](ElectionHandle::withdraw): waits in the queue of
    /// candidates, leads, and stands again.
    ///
    /// The future of a term is dropped at the end of its lease or when its loss is known, whichever
    /// is first, so that it takes no step while another candidate leads ([M1], [M4]). Writes to
    /// other systems need the term's fencing token all the same: a request that has left is on its
    /// way. A term that ends by itself is followed by a pause, so that a `lead` that ends at once
    /// does not spin.
    ///
    /// # Errors
    /// Errors that standing again does not solve: `Unauthorized`, `ConfigMismatch`, `UnsafeStore`,
    /// `Overloaded`, `Closed`. Outages are waited for. Each error but `Closed` is logged by an
    /// event, too.
    ///
    /// # Panics
    /// If `lead` or its future panics; the term has ended then.
    ///
    /// # Cancel safety
    /// A dropped call drops the future of the term, leaves the queue and queues the release.
    ///
    /// [M1]: crate::contract#m1
    /// [M4]: crate::contract#m4
    pub async fn run<W>(self) -> Result<()>
    where
        F: FnMut(FencingToken) -> W,
        W: Future<Output = ()>,
    {
        let candidate = self.leading(|mut lead, _| {
            move |guard: &Arc<MutexGuard>| {
                let term = lead(guard.fencing_token());
                async move {
                    term.await;
                    Ok(())
                }
            }
        });
        candidate.stand().await
    }

    /// Stands for election while `work` runs, such as the server of the same program (axum's
    /// `serve(…)` as it is): as [`run`](Self::run), in one task with it. When `work` is done,
    /// withdraws, and returns its result. If the candidacy ends before `work`, since its handle
    /// withdrew or the store was closed, `work` goes on.
    ///
    /// # Errors
    /// As [`run`](Self::run), without `Closed`; `work` is dropped then.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_while<W, S>(self, work: S) -> Result<S::Output>
    where
        F: FnMut(FencingToken) -> W,
        W: Future<Output = ()>,
        S: IntoFuture,
    {
        let handle = self.handle();
        while_running(self.run(), handle, work).await
    }

    /// As [`run`](Self::run), until a term returns an error. An error that ends it is logged by an
    /// event, since nobody reads the result of a spawned candidate.
    pub(super) async fn stand<W>(self) -> Result<()>
    where
        F: FnMut(&Arc<MutexGuard>) -> W,
        W: Future<Output = Result<()>>,
    {
        let mutex = Arc::clone(&self.mutex);
        let ended = self.stand_until_error().await;
        if let Err(error) = &ended
            && error.kind() != ErrorKind::Closed
        {
            tracing::error!(
                name: "stanchion.election.failed",
                {
                    stanchion.name = mutex.name(),
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                },
                "a candidate stands no more"
            );
        }
        ended
    }

    async fn stand_until_error<W>(mut self) -> Result<()>
    where
        F: FnMut(&Arc<MutexGuard>) -> W,
        W: Future<Output = Result<()>>,
    {
        let mut orders = self.shared.orders.subscribe();
        loop {
            let locked = tokio::select! {
                biased;
                () = ordered(&mut orders, |orders| orders.withdrawn) => return Ok(()),
                locked = self.mutex.lock() => locked,
            };
            if self.lead(locked?, &mut orders).await? == TermEnd::Lost {
                continue;
            }
            tokio::select! {
                biased;
                () = ordered(&mut orders, |orders| orders.withdrawn) => return Ok(()),
                () = paused(self.options.pause) => {}
            }
        }
    }

    /// Leads for one term.
    async fn lead<W>(&mut self, guard: MutexGuard, orders: &mut watch::Receiver<Orders>) -> Result<TermEnd>
    where
        F: FnMut(&Arc<MutexGuard>) -> W,
        W: Future<Output = Result<()>>,
    {
        let (name, token) = (self.mutex.name(), guard.fencing_token());
        tracing::info!(
            name: "stanchion.election.won",
            {
                stanchion.name = name,
                stanchion.fencing_token = token.get(),
            },
            "leads"
        );
        let guard = Arc::new(guard);
        // Before a handle can see this term: its orders from then on are for this term.
        let steps_down = orders.borrow_and_update().steps_down;
        *self.shared.term() = Arc::downgrade(&guard);
        let (end, led) = tokio::select! {
            biased;
            () = self.shared.ordered_to_end(orders, steps_down) => (TermEnd::SteppedDown, Ok(())),
            led = guard.run((self.lead)(&guard)) => led.map_or((TermEnd::Lost, Ok(())), |led| (TermEnd::Done, led)),
        };
        if end == TermEnd::Lost {
            tracing::warn!(
                name: "stanchion.election.lost",
                {
                    stanchion.name = name,
                    stanchion.fencing_token = token.get(),
                },
                "lost the lead"
            );
            return Ok(end);
        }
        tracing::info!(
            name: "stanchion.election.ended",
            {
                stanchion.name = name,
                stanchion.fencing_token = token.get(),
                stanchion.outcome = if end == TermEnd::Done { "done" } else { "stepped_down" },
            },
            "leads no more"
        );
        // A handle that looks at this moment has the guard, and drops it at once, which queues the
        // release.
        if let Some(guard) = Arc::into_inner(guard) {
            // After an error the release is under way, or the term was lost as it ended: the next
            // candidate leads either way.
            let _ = guard.release().await;
        }
        led.map(|()| end)
    }
}

/// Runs a candidacy while `work` runs, and withdraws it then.
pub(super) async fn while_running<S: IntoFuture>(
    candidacy: impl Future<Output = Result<()>>,
    handle: ElectionHandle,
    work: S,
) -> Result<S::Output> {
    let (mut candidacy, mut work) = (pin!(candidacy), pin!(work.into_future()));
    tokio::select! {
        biased;
        done = &mut work => {
            handle.withdraw();
            // Nobody waits for its errors any more; the events log them.
            drop(candidacy.await);
            Ok(done)
        }
        ended = &mut candidacy => match ended {
            Err(error) if error.kind() != ErrorKind::Closed => Err(error),
            _ => Ok(work.await),
        },
    }
}

impl<F> fmt::Debug for Election<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("mutex", &self.mutex)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Steps of a term that [`step_down`](ElectionHandle::step_down) and
/// [`withdraw`](ElectionHandle::withdraw) wait for.
#[derive(Clone)]
pub(super) struct Finishing(Arc<Shared>);

impl Finishing {
    /// Makes one such step, which is short.
    pub(super) async fn step<T>(&self, step: impl Future<Output = T>) -> T {
        /// Ends the step, also where it is dropped.
        struct End<'a>(&'a watch::Sender<bool>);

        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.send_replace(false);
            }
        }

        self.0.finishing.send_replace(true);
        let _end = End(&self.0.finishing);
        step.await
    }
}

impl Shared {
    /// Resolves when a handle has ordered the end of this term, and the term is at no step that
    /// this waits for.
    async fn ordered_to_end(&self, orders: &mut watch::Receiver<Orders>, steps_down: u64) {
        ordered(orders, |now| now.withdrawn || now.steps_down != steps_down).await;
        drop(self.finishing.subscribe().wait_for(|finishing| !finishing).await);
    }

    pub(super) fn is_leading(&self) -> bool {
        self.term().upgrade().is_some_and(|guard| guard.is_held())
    }

    pub(super) fn step_down(&self) {
        self.orders.send_modify(|orders| orders.steps_down += 1);
    }

    pub(super) fn withdraw(&self) {
        self.orders.send_modify(|orders| orders.withdrawn = true);
    }

    fn term(&self) -> MutexGuardOfTerm<'_> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type MutexGuardOfTerm<'a> = std::sync::MutexGuard<'a, Weak<MutexGuard>>;

/// Waits for the pause after a term.
async fn paused(pause: Duration) {
    // On the memory store no step of a term need wait: other tasks have their turn here, also
    // without a pause.
    yield_now().await;
    sleep(pause).await;
}

/// Resolves when the handles' orders are of that kind.
async fn ordered(orders: &mut watch::Receiver<Orders>, are: impl FnMut(&Orders) -> bool) {
    // An error would say that all handles and the candidate are gone.
    drop(orders.wait_for(are).await);
}
