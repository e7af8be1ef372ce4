//! Who waits for room in the queue.

use std::collections::{BTreeMap, BTreeSet};

/// Submitters without room, first come, first served. A place that becomes free is promised to the first of them, so
/// that nobody who comes later can take it.
#[derive(Debug)]
pub(crate) struct Turns<W> {
    waiting: BTreeMap<u64, W>,
    promised: BTreeSet<u64>,
    next: u64,
}

/// What became of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TurnState {
    Waiting,
    /// A place was promised, and is used by this answer.
    Admitted,
    /// The pool was closed since.
    Refused,
}

impl<W> Turns<W> {
    pub(crate) fn new() -> Self {
        Self { waiting: BTreeMap::new(), promised: BTreeSet::new(), next: 0 }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn promised(&self) -> usize {
        self.promised.len()
    }

    pub(crate) fn line_up(&mut self, waker: W) -> u64 {
        let turn = self.next;
        self.next += 1;
        self.waiting.insert(turn, waker);
        turn
    }

    pub(crate) fn look(&mut self, turn: u64, waker: W) -> TurnState {
        if self.promised.remove(&turn) {
            return TurnState::Admitted;
        }
        match self.waiting.get_mut(&turn) {
            Some(kept) => {
                *kept = waker;
                TurnState::Waiting
            }
            None => TurnState::Refused,
        }
    }

    /// Promises a place to the first.
    pub(crate) fn promise(&mut self) -> Option<W> {
        let (turn, waker) = self.waiting.pop_first()?;
        self.promised.insert(turn);
        Some(waker)
    }

    /// Forgets a turn; `true` if a place had been promised to it.
    pub(crate) fn forget(&mut self, turn: u64) -> bool {
        self.waiting.remove(&turn);
        self.promised.remove(&turn)
    }

    /// Refuses everybody, promised or not.
    pub(crate) fn refuse_all(&mut self) -> impl Iterator<Item = W> {
        self.promised.clear();
        std::mem::take(&mut self.waiting).into_values()
    }
}
