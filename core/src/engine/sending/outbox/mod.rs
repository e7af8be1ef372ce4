//! The outbox: releases, cancels and refunds that no caller waits for. `Drop` queues them; the engine's thread delivers them.
//!
//! Messages of one kind to one lane leave together. Kinds and lanes are delivered concurrently, so that a lane whose server is
//! slow or away delays no other; what failed and what is new, too.

mod emptied;
mod message;
mod queue;

use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use self::emptied::Emptied;
use self::message::Channel;
pub(crate) use self::message::Message;
use self::queue::{Entry, Queue};
use crate::ErrorKind;
use crate::clock::now;
use crate::clock::sleep;
use crate::spi::{Answers, Steps};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{JoinSet, Mutex, MutexGuard, Notify};

/// Number of messages from which on no call begins that could add one, while the store does not take them (C28).
const FULL: usize = 10_000;

/// The queue. Each entry was a hold, a waiter or a reservation of this process before.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Used for the lanes only.
    steps: Steps,
    queue: Mutex<Queue>,
    filled: Notify,
    emptied: Notify,
    emptied_for_threads: Emptied,
    /// A channel is full.
    full: AtomicBool,
    /// Ends the rests of channels. It is a hint, and so not one of the signals that the model checker follows.
    hurry: Arc<tokio::sync::Notify>,
}

/// The result of a delivery task.
enum Done {
    Sent { channel: Channel, batch: Vec<Entry>, failed: Vec<bool> },
    Rested(Channel),
}

impl Outbox {
    pub(crate) fn new(steps: Steps) -> Self {
        Self {
            steps,
            queue: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
            emptied_for_threads: Emptied::default(),
            full: AtomicBool::new(false),
            hurry: Arc::new(tokio::sync::Notify::new()),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message. Never blocks, and needs no runtime. At `give_up`, if set, delivery is no longer tried.
    pub(crate) fn push(&self, message: Message, give_up: Option<Instant>) {
        let channel = message.channel(&self.steps);
        let mut queue = self.queue();
        queue.add(Entry { channel, message, give_up });
        self.note_full(&queue);
        let ready = queue.is_ready();
        drop(queue);
        if ready {
            self.filled.notify_one();
        }
    }

    /// Returns whether there are so many messages about objects of that lane that the store does not take that no call may add
    /// one (C28).
    pub(crate) fn is_full(&self, lane: usize) -> bool {
        self.full.load(Ordering::Relaxed) && self.queue().is_full(Some(lane), FULL)
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

    /// As [`drained`](Self::drained), but blocks the thread, for `time` at most. Returns whether everything was delivered or
    /// given up by then.
    pub(crate) fn drain_blocking(&self, time: Duration) -> bool {
        self.hurry.notify_waiters();
        self.emptied_for_threads.wait(time, || self.queue().is_empty())
    }

    /// Delivers until stopped and empty.
    pub(crate) async fn deliver(&self, steps: &Steps) {
        let mut tasks = JoinSet::new();
        loop {
            while let Some((channel, batch)) = self.take() {
                let steps = steps.clone();
                tasks.spawn(async move {
                    let failed = send(&steps, &batch).await;
                    Done::Sent { channel, batch, failed }
                });
            }
            if self.is_over() {
                return;
            }
            let done = tokio::select! {
                () = self.filled.notified() => continue,
                Some(done) = tasks.join_next() => done.unwrap_or_else(|error| resume_unwind(error.into_panic())),
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

/// Sends messages of one kind in one request; returns for each whether it has to be sent again.
async fn send(steps: &Steps, batch: &[Entry]) -> Vec<bool> {
    let (mut releases, mut cancels, mut refunds) = (Vec::new(), Vec::new(), Vec::new());
    for entry in batch {
        match &entry.message {
            Message::Release(release) => releases.push(release.clone()),
            Message::Cancel(cancel) => cancels.push(cancel.clone()),
            Message::Refund(refund) => refunds.push(refund.clone()),
        }
    }
    if !releases.is_empty() {
        failed(batch, steps.permits.release(&releases).await)
    } else if !cancels.is_empty() {
        failed(batch, steps.permits.cancel(&cancels).await)
    } else if let Some(limits) = &steps.limits {
        failed(batch, limits.refund(&refunds).await)
    } else {
        vec![false; batch.len()]
    }
}

/// Returns which answers are missing, or errors that may pass.
fn failed<T>(batch: &[Entry], answers: Answers<T>) -> Vec<bool> {
    let mut answers = answers.into_iter();
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
