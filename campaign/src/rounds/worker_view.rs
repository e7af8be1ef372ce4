//! The nemesis' view of a worker: its history so far.

use std::collections::HashSet;
use std::path::Path;

use super::tail::HistoryTail;
use crate::history::{Event, What};

/// The state of a worker, from its growing history.
#[derive(Debug)]
pub(super) struct WorkerView {
    tail: HistoryTail,
    waiting: HashSet<u64>,
    holding: HashSet<u64>,
    /// The number of grants so far.
    pub(super) grants: usize,
}

impl WorkerView {
    pub(super) fn new() -> Self {
        Self { tail: HistoryTail::default(), waiting: HashSet::new(), holding: HashSet::new(), grants: 0 }
    }

    /// Reads the events that were added.
    pub(super) fn look(&mut self, history: &Path) {
        for event in self.tail.look(history) {
            self.see(&event);
        }
    }

    fn see(&mut self, event: &Event) {
        let operation = event.operation;
        match event.what {
            What::Invoked { .. } => {
                self.waiting.insert(operation);
            }
            What::Granted { .. } => {
                self.grants += 1;
                self.waiting.remove(&operation);
                self.holding.insert(operation);
            }
            What::Releasing { .. } | What::Lost => {
                self.holding.remove(&operation);
            }
            _ => {
                self.waiting.remove(&operation);
            }
        }
    }

    /// Returns whether the worker has a hold.
    pub(super) fn holds(&self) -> bool {
        !self.holding.is_empty()
    }

    /// Returns the number of calls that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether the worker waits for a hold and has none.
    pub(super) fn only_waits(&self) -> bool {
        self.holding.is_empty() && !self.waiting.is_empty()
    }
}
