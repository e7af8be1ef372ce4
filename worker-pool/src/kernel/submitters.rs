//! The submitters that wait for room in the queue.

use std::collections::{BTreeMap, BTreeSet};

/// Submitters without room, served in the order of arrival. A place that becomes free is promised
/// to the first of them, so that a later submitter cannot take it.
#[derive(Debug)]
pub(crate) struct Submitters<W> {
    waiting: BTreeMap<u64, W>,
    promised: BTreeSet<u64>,
    next: u64,
}

/// The state of a waiting submitter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SubmitterState {
    Waiting,
    /// A place was promised to it, and this answer uses the promise.
    Admitted,
    /// The pool was closed while it waited.
    Refused,
}

impl<W> Submitters<W> {
    pub(crate) fn new() -> Self {
        Self { waiting: BTreeMap::new(), promised: BTreeSet::new(), next: 0 }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn promised(&self) -> usize {
        self.promised.len()
    }

    pub(crate) fn add(&mut self, waker: W) -> u64 {
        let submitter = self.next;
        self.next += 1;
        self.waiting.insert(submitter, waker);
        submitter
    }

    pub(crate) fn poll(&mut self, submitter: u64, waker: W) -> SubmitterState {
        if self.promised.remove(&submitter) {
            return SubmitterState::Admitted;
        }
        match self.waiting.get_mut(&submitter) {
            Some(kept) => {
                *kept = waker;
                SubmitterState::Waiting
            }
            None => SubmitterState::Refused,
        }
    }

    /// Promises a place to the first submitter, and returns its waker.
    pub(crate) fn promise(&mut self) -> Option<W> {
        let (submitter, waker) = self.waiting.pop_first()?;
        self.promised.insert(submitter);
        Some(waker)
    }

    /// Removes a submitter; returns `true` if a place had been promised to it.
    pub(crate) fn remove(&mut self, submitter: u64) -> bool {
        self.waiting.remove(&submitter);
        self.promised.remove(&submitter)
    }

    /// Refuses every submitter, with or without a promise.
    pub(crate) fn refuse_all(&mut self) -> impl Iterator<Item = W> {
        self.promised.clear();
        std::mem::take(&mut self.waiting).into_values()
    }
}
