//! The outbox: releases, cancels and refunds that no caller waits for. `Drop` queues them; the
//! engine's thread delivers them.
//!
//! Requests of one lane leave together. Lanes are delivered concurrently, so that one that is slow
//! or away delays no other; what failed and what is new, too. Each request is idempotent by its
//! ticket, so an attempt whose reply was lost is repeated.

mod emptied;
mod queue;

use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use self::emptied::Emptied;
use self::queue::{Channel, Entry, Queue};
use crate::ErrorKind;
use crate::clock::{now, sleep};
use crate::spi::{Request, Steps};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Broadcast, JoinSet, Mutex, MutexGuard, Notify};

/// Number of requests from which on no call begins that could add one, while the server does not
/// take them (C28).
const FULL: usize = 10_000;

/// The queue. Each entry was a hold, a waiter or a reservation of this process before.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Used for the lanes only.
    steps: Arc<dyn Steps>,
    queue: Mutex<Queue>,
    filled: Notify,
    emptied: Broadcast,
    emptied_for_threads: Emptied,
    /// A channel is full.
    full: AtomicBool,
    /// Ends the rests of channels. It is a hint, and so not one of the signals that the model
    /// checker follows.
    hurry: Arc<tokio::sync::Notify>,
}

/// The result of a delivery task.
enum Done {
    Sent { channel: Channel, batch: Vec<Entry>, failed: Vec<bool> },
    Rested(Channel),
}

impl Outbox {
    pub(crate) fn new(steps: Arc<dyn Steps>) -> Self {
        Self {
            steps,
            queue: Mutex::default(),
            filled: Notify::new(),
            emptied: Broadcast::new(),
            emptied_for_threads: Emptied::default(),
            full: AtomicBool::new(false),
            hurry: Arc::new(tokio::sync::Notify::new()),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a release, a cancel or a refund. Never blocks, and needs no runtime. At `give_up`, if
    /// set, delivery is no longer tried.
    pub(crate) fn push(&self, request: impl Into<Request>, give_up: Option<Instant>) {
        let request = request.into();
        let channel = Channel { lane: self.steps.lane(&request), is_again: false };
        let mut queue = self.queue();
        queue.add(Entry { channel, request, give_up });
        self.note_full(&queue);
        let ready = queue.is_ready();
        drop(queue);
        if ready {
            self.filled.notify_one();
        }
    }

    /// Returns whether the backlog of that server is full. While it is, no new call may start
    /// (C28).
    pub(crate) fn is_full(&self, server: impl FnOnce() -> usize) -> bool {
        self.full.load(Ordering::Relaxed) && self.queue().is_full(Some(server()), FULL)
    }

    fn note_full(&self, queue: &Queue) {
        self.full.store(queue.is_full(None, FULL), Ordering::Relaxed);
    }

    /// Lets [`deliver`](Self::deliver) return once the queue is empty.
    pub(crate) fn stop(&self) {
        self.queue().stopping = true;
        self.filled.notify_one();
        self.hurry.notify_waiters();
    }

    /// Resolves when everything queued is delivered or given up.
    pub(crate) async fn drained(&self) {
        self.hurry.notify_waiters();
        loop {
            let emptied = self.emptied.notified();
            let mut emptied = std::pin::pin!(emptied);
            emptied.as_mut().enable();
            if self.queue().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// As [`drained`](Self::drained), but blocks the thread, for `time` at most. Returns whether
    /// everything was delivered or given up by then.
    pub(crate) fn drain_blocking(&self, time: Duration) -> bool {
        self.hurry.notify_waiters();
        self.emptied_for_threads.wait(time, || self.queue().is_empty())
    }

    /// Delivers until stopped and empty.
    pub(crate) async fn deliver(&self, steps: &Arc<dyn Steps>) {
        let mut tasks = JoinSet::new();
        loop {
            while let Some((channel, batch)) = self.take() {
                let steps = Arc::clone(steps);
                tasks.spawn(async move {
                    let failed = send(&*steps, &batch).await;
                    Done::Sent { channel, batch, failed }
                });
            }
            if self.is_over() {
                return;
            }
            let done = tokio::select! {
                biased;
                Some(done) = tasks.join_next() => done.unwrap_or_else(|error| resume_unwind(error.into_panic())),
                () = self.filled.notified() => continue,
            };
            match done {
                Done::Rested(channel) => self.queue().rested(channel),
                Done::Sent { channel, batch, failed } => {
                    for (channel, pause) in self.settle(channel, batch, &failed) {
                        let hurry = Arc::clone(&self.hurry);
                        tasks.spawn(async move {
                            tokio::select! {
                                biased;
                                () = sleep(pause) => {}
                                () = hurry.notified() => {}
                            }
                            Done::Rested(channel)
                        });
                    }
                }
            }
        }
    }

    fn take(&self) -> Option<(Channel, Vec<Entry>)> {
        self.queue().take()
    }

    fn is_over(&self) -> bool {
        let queue = self.queue();
        queue.stopping && queue.is_empty()
    }

    fn settle(&self, channel: Channel, batch: Vec<Entry>, failed: &[bool]) -> Vec<(Channel, Duration)> {
        let mut queue = self.queue();
        let resting = queue.settle(channel, batch, failed, now());
        self.note_full(&queue);
        let empty = queue.is_empty();
        drop(queue);
        if empty {
            self.emptied.notify_waiters();
            self.emptied_for_threads.notify();
        }
        resting
    }
}

/// Sends requests of one lane; returns for each whether it has to be sent again: its answer is
/// missing, or is an error that may pass.
async fn send(steps: &dyn Steps, batch: &[Entry]) -> Vec<bool> {
    let requests: Vec<_> = batch.iter().map(|entry| entry.request.clone()).collect();
    let mut answers = steps.send(&requests, now() + steps.request_timeout()).await.into_iter();
    let failed = |_: &Entry| match answers.next() {
        Some(Ok(_)) => false,
        Some(Err(error)) => {
            tracing::debug!(
                error.type = error.kind().as_str(),
                exception.message = ?error,
                "a release was not delivered yet"
            );
            error.kind() != ErrorKind::InvalidArgument
        }
        None => true,
    };
    batch.iter().map(failed).collect()
}
