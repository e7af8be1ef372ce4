//! Reservations whose time has not come: their order, and the refund of a cancelled one.

use std::collections::{BTreeMap, BTreeSet};

use super::MAX;

/// The live reservations of one bucket. Empty costs nothing; everything else is logarithmic in
/// their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reservations {
    by_id: BTreeMap<u128, Entry>,
    by_time: BTreeSet<(u64, u128)>,
    /// Cost taken since the set was last empty, less the full refunds.
    taken: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    ready_at: u64,
    cost: u64,
    /// `taken` just after this reservation, so that `taken - mark` is the cost behind it.
    mark: u64,
}

impl Reservations {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Forgets the reservations whose time has come.
    pub(super) fn purge(&mut self, now: u64) {
        while let Some(&(ready_at, id)) = self.by_time.first()
            && ready_at <= now
        {
            self.by_time.pop_first();
            self.by_id.remove(&id);
        }
        self.settle();
    }

    pub(super) fn ready_at(&self, id: u128) -> Option<u64> {
        self.by_id.get(&id).map(|entry| entry.ready_at)
    }

    /// The time of the last one in the order.
    pub(super) fn latest(&self) -> Option<u64> {
        self.by_time.last().map(|&(ready_at, _)| ready_at)
    }

    /// Adds a reservation of a cost above 0, behind all others.
    pub(super) fn insert(&mut self, id: u128, cost: u64, ready_at: u64) {
        self.charge(cost);
        self.by_time.insert((ready_at, id));
        self.by_id.insert(id, Entry { ready_at, cost, mark: self.taken });
    }

    /// Counts a cost taken behind all live reservations.
    pub(super) fn charge(&mut self, cost: u64) {
        let shift = cost.saturating_sub(MAX - self.taken);
        if shift > 0 {
            self.rebase(shift);
        }
        self.taken += cost;
    }

    /// Removes a reservation and returns its refund, in whole tokens; 0 if it is not live.
    ///
    /// With nothing behind it, the refund is the whole cost, and the bucket is as if the
    /// reservation had never been made. Otherwise it is the part that the reservations behind it
    /// did not use ([L7]), at most `shared` less their cost: they keep their times, and the sum
    /// must fit into the burst at those times ([L1]).
    ///
    /// Only a full refund lowers the cost behind the earlier ones. A partial refund moves tokens to
    /// a time later than the cancelled reservation's own; an earlier reservation that got them too
    /// would give them back twice.
    ///
    /// [L7]: crate::contract#l7
    /// [L1]: crate::contract#l1
    pub(super) fn cancel(&mut self, id: u128, shared: u64) -> u64 {
        let Some(Entry { ready_at, cost, mark }) = self.by_id.remove(&id) else {
            return 0;
        };
        self.by_time.remove(&(ready_at, id));
        let behind = self.taken.saturating_sub(mark);
        let refund = if behind == 0 {
            self.taken = self.taken.saturating_sub(cost);
            cost
        } else {
            cost.min(shared).saturating_sub(behind)
        };
        self.settle();
        refund
    }

    /// Lowers `taken` and all marks together. A reservation whose mark would fall below zero has
    /// more than [`MAX`] behind it and can never give anything back.
    #[cold]
    fn rebase(&mut self, shift: u64) {
        self.taken -= shift;
        for entry in self.by_id.values_mut() {
            match entry.mark.checked_sub(shift) {
                Some(mark) => entry.mark = mark,
                None => *entry = Entry { cost: 0, mark: 0, ..*entry },
            }
        }
    }

    fn settle(&mut self) {
        if self.by_id.is_empty() {
            self.taken = 0;
        }
    }
}
