//! The model checker that stands in for threads in unit tests: [`explore`] runs a scenario under
//! many schedules, and whatever threads meet at is a point where it may let another one go on.
//!
//! What it covers: all orders of the operations on locks, flags and signals, as far as their number
//! allows; a thread that sleeps without anybody to wake it fails the run. What it does not: flags
//! are sequentially consistent here, and an operation of a signal is one step (how tokio carries it
//! out is tokio's to check).
//!
//! A failure prints a seed; `SHUTTLE_RANDOM_SEED` takes it. `STANCHION_MODEL_RUNS=N` tries `N`
//! times as many schedules.

#![allow(dead_code, reason = "each crate that includes this file uses a part of it")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a tool of tests, with time of its own")]

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering};
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
use shuttle::{Config, MaxSteps, Runner};
use tokio::runtime::Runtime;

/// Where the schedules begin, unless `SHUTTLE_RANDOM_SEED` says otherwise.
const SEED: u64 = 0x5ca1_ab1e;
/// The most changes of priority in a schedule that has few of them.
const CHANGES: usize = 4;
/// No scenario takes so many steps, unless it runs in circles.
const STEPS: usize = 20_000;

/// Runs a scenario under so many random schedules, and under as many with few preemptions.
pub(crate) fn explore(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let schedules = schedules * scale();
    let scenario = Arc::new(scenario);
    let again = Arc::clone(&scenario);
    run(RandomScheduler::new_from_seed(SEED, schedules), move || scenario());
    run(PctScheduler::new_from_seed(SEED, CHANGES, schedules), move || again());
}

/// Runs a scenario under every schedule there is, and tells how many there are: at most `most`.
pub(crate) fn exhaust(most: usize, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let schedules = run(DfsScheduler::new(Some(most + 1), false), scenario);
    assert!(schedules <= most, "there are more than {most} schedules");
    schedules
}

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    config.stack_size = 0x4_0000;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario)
}

fn scale() -> usize {
    std::env::var("STANCHION_MODEL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

/// A number below `end`, drawn by the schedule.
pub(crate) fn draw(end: usize) -> usize {
    shuttle::rand::thread_rng().gen_range(0..end)
}

/// Lets another thread go on.
pub(crate) async fn pause() {
    shuttle::future::yield_now().await;
}

/// Runs a task beside the one that calls, and gives what it returns.
pub(crate) fn beside<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = T> {
    let task = shuttle::future::spawn(task);
    async { task.await.unwrap() }
}

/// When a call is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveUp {
    Endless,
    /// After so many polls, woken or not.
    Polls(usize),
    /// As soon as it is woken: what woke it is never looked at.
    Woken,
}

impl GiveUp {
    /// One of all kinds.
    pub(crate) fn draw() -> Self {
        match draw(4) {
            0 => Self::Woken,
            1 | 2 => Self::Polls(draw(3)),
            _ => Self::Endless,
        }
    }

    /// Waits for a call for so long and drops it; `None` if it was given up.
    pub(crate) async fn wait<T>(self, mut call: Pin<Box<impl Future<Output = T> + ?Sized>>) -> Option<T> {
        let mut polls = 0;
        let given = poll_fn(|cx| {
            if self == Self::Polls(polls) || (self == Self::Woken && polls == 1) {
                return Poll::Ready(None);
            }
            polls += 1;
            if matches!(self, Self::Polls(_)) {
                cx.waker().wake_by_ref();
            }
            call.as_mut().poll(cx).map(Some)
        })
        .await;
        drop(call);
        given
    }
}

/// The time of a scenario: it stands still unless it is moved. Leases and alarms go by it.
pub(crate) struct Time {
    runtime: Runtime,
    over: AtomicBool,
}

impl Time {
    /// Runs a scenario in a time of its own.
    pub(crate) fn scenario<F: Future<Output = ()>>(scenario: impl FnOnce(Arc<Self>) -> F) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let handle = runtime.handle().clone();
        let entered = handle.enter();
        let time = Arc::new(Self { runtime, over: AtomicBool::new(false) });
        shuttle::future::block_on(scenario(Arc::clone(&time)));
        drop(entered);
    }

    /// Moves it, and wakes those whose time has come.
    pub(crate) fn advance(&self, by: Duration) {
        // Nobody is preempted in here: the step ends when all are woken.
        self.runtime.block_on(tokio::time::advance(by));
    }

    /// Moves it at any moment, by steps of 1 to `most` ms, until it is [stopped](Self::stop).
    pub(crate) fn flow(self: &Arc<Self>, most: usize) -> impl Future<Output = ()> {
        let time = Arc::clone(self);
        beside(async move {
            while !time.over.load(Ordering::SeqCst) {
                time.advance(Duration::from_millis(1 + u64::try_from(draw(most)).unwrap()));
                pause().await;
            }
        })
    }

    pub(crate) fn stop(&self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

thread_local! {
    /// Signals behave as if whoever waits for one were heard from its first poll on only.
    static LATE: Cell<bool> = const { Cell::new(false) };
}

/// A bug planted into all signals, for as long as this lives: between a look at the state and the
/// first poll of the wait, nobody is told anything.
#[must_use]
pub(crate) struct LateSignals(());

impl LateSignals {
    pub(crate) fn insert() -> Self {
        LATE.set(true);
        Self(())
    }
}

impl Drop for LateSignals {
    fn drop(&mut self) {
        LATE.set(false);
    }
}

/// tokio's signal, with a point before each operation.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    signal: tokio::sync::Notify,
    point: AtomicBool,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn point(&self) {
        self.point.load(Ordering::SeqCst);
    }

    pub(crate) fn notify_one(&self) {
        self.point();
        self.signal.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        self.point();
        self.signal.notify_waiters();
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.point();
        let heard = (!LATE.get()).then(|| Box::pin(self.signal.notified()));
        Notified { notify: self, heard }
    }
}

/// A wait for a signal.
#[derive(Debug)]
pub(crate) struct Notified<'a> {
    notify: &'a Notify,
    heard: Option<Pin<Box<tokio::sync::futures::Notified<'a>>>>,
}

impl Notified<'_> {
    pub(crate) fn enable(mut self: Pin<&mut Self>) -> bool {
        self.heard.as_mut().is_some_and(|heard| heard.as_mut().enable())
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.notify.point();
        let signal = &self.notify.signal;
        self.heard.get_or_insert_with(|| Box::pin(signal.notified())).as_mut().poll(cx)
    }
}
