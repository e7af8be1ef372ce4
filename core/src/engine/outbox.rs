//! Releases and cancels that nobody waits for: what `Drop` queues and the engine's thread delivers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::steps::{Answers, Cancel, Refund, Release, Steps};
use crate::ErrorKind;
use crate::clock::{now, sleep};

/// One message. All are idempotent by ticket, so that an attempt whose reply was lost is simply made again.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Release(Release),
    Cancel(Cancel),
    Refund(Refund),
}

#[derive(Debug)]
struct Entry {
    message: Message,
    /// From here on what the message would free is free.
    give_up: Option<Instant>,
}

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Taken by the deliverer and not yet confirmed.
    under_way: usize,
    stopping: bool,
}

/// The queue. Unbounded, but every entry was a hold or a waiter of this process before.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    filled: Notify,
    emptied: Notify,
}

/// Messages of one step call.
const BATCH: usize = 256;

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message; never blocks and needs no runtime. It is given up at that moment, if there is one.
    pub(crate) fn push(&self, message: Message, give_up: Option<Instant>) {
        self.queue().entries.push_back(Entry { message, give_up });
        self.filled.notify_one();
    }

    /// Lets [`deliver`](Self::deliver) return once the queue is empty.
    pub(crate) fn stop(&self) {
        self.queue().stopping = true;
        self.filled.notify_one();
    }

    /// Resolves when everything queued is delivered or given up.
    pub(crate) async fn drained(&self) {
        loop {
            let emptied = self.emptied.notified();
            let mut emptied = std::pin::pin!(emptied);
            emptied.as_mut().enable();
            {
                let queue = self.queue();
                if queue.entries.is_empty() && queue.under_way == 0 {
                    return;
                }
            }
            emptied.await;
        }
    }

    /// Delivers until stopped and empty.
    pub(crate) async fn deliver(&self, steps: &Steps) {
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(batch) = self.take().await else { return };
            let undelivered = send(steps, batch).await;
            let failed = !undelivered.is_empty();
            self.settle(undelivered);
            if failed {
                sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            } else {
                pause = FIRST_PAUSE;
            }
        }
    }

    async fn take(&self) -> Option<Vec<Entry>> {
        loop {
            {
                let mut queue = self.queue();
                if !queue.entries.is_empty() {
                    let count = queue.entries.len().min(BATCH);
                    let batch: Vec<_> = queue.entries.drain(..count).collect();
                    queue.under_way = batch.len();
                    return Some(batch);
                }
                if queue.stopping {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Confirms the batch under way; what is not delivered goes to the end, unless its lease is over.
    fn settle(&self, undelivered: Vec<Entry>) {
        let at = now();
        let mut queue = self.queue();
        queue.under_way = 0;
        queue
            .entries
            .extend(undelivered.into_iter().filter(|entry| entry.give_up.is_none_or(|end| at < end)));
        if queue.entries.is_empty() {
            drop(queue);
            self.emptied.notify_waiters();
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Sends a batch, one request for each step; gives back what has to be sent again.
async fn send(steps: &Steps, batch: Vec<Entry>) -> Vec<Entry> {
    let (mut releases, mut cancels, mut refunds) = (Vec::new(), Vec::new(), Vec::new());
    let (mut released, mut cancelled, mut refunded) = (Vec::new(), Vec::new(), Vec::new());
    for entry in batch {
        match &entry.message {
            Message::Release(release) => {
                releases.push(release.clone());
                released.push(entry);
            }
            Message::Cancel(cancel) => {
                cancels.push(cancel.clone());
                cancelled.push(entry);
            }
            Message::Refund(refund) => {
                refunds.push(refund.clone());
                refunded.push(entry);
            }
        }
    }
    let mut undelivered = Vec::new();
    if !releases.is_empty() {
        undelivered.extend(failed(released, steps.permits.release(&releases).await));
    }
    if !cancels.is_empty() {
        undelivered.extend(failed(cancelled, steps.permits.cancel(&cancels).await));
    }
    if let Some(limits) = steps.limits.as_ref().filter(|_| !refunds.is_empty()) {
        undelivered.extend(failed(refunded, limits.refund(&refunds).await));
    }
    undelivered
}

/// The entries whose answers are errors that may pass.
fn failed<T>(entries: Vec<Entry>, answers: Answers<T>) -> impl Iterator<Item = Entry> {
    let mut answers = answers.into_iter();
    entries.into_iter().filter(move |_| match answers.next() {
        Some(Ok(_)) => false,
        Some(Err(error)) => {
            tracing::debug!(%error, "release not delivered yet");
            error.kind() != ErrorKind::InvalidArgument
        }
        None => true,
    })
}
