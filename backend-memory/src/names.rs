//! A sharded map from name to state. It is used when a handle is created or dropped, never by an
//! operation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

use stanchion_core::Name;

use crate::clock::Moment;
use crate::sync::{Mutex, MutexGuard};

/// Number of parts of the map, each with a lock of its own.
pub(crate) const SHARDS: usize = 16;

/// State that can outlive the handles of its name.
pub(crate) trait Resident {
    /// Returns a lower bound: every later token of the name must be larger.
    fn token_floor(&self) -> u64;

    /// Returns until when, in store time, the state has to stay without a handle; `None` if it need
    /// not.
    fn retained_until(&self, at: Moment) -> Option<u64>;
}

/// All names of one kind.
pub(crate) struct Names<T> {
    shards: Box<[Mutex<Shard<T>>]>,
    hasher: RandomState,
}

struct Shard<T> {
    /// In the order of the bytes of the names, in which listings go through them.
    slots: BTreeMap<Name, Slot<T>>,
    /// Names without a handle whose state is kept, by the end of that time. Each name is in it at
    /// most once.
    resting: BinaryHeap<Reverse<(u64, Name)>>,
    /// Upper bound on the tokens of every name that was removed (M2).
    token_floor: u64,
}

struct Slot<T> {
    state: Arc<T>,
    /// Handles of this name. Guards and calls keep a handle alive.
    handles: usize,
    /// Whether the name is in `resting`.
    rests: bool,
}

impl<T: Resident> Names<T> {
    /// Makes an empty map, of which every token has to be larger than `token_floor`.
    pub(crate) fn new(token_floor: u64) -> Self {
        let shard = || Mutex::new(Shard { slots: BTreeMap::new(), resting: BinaryHeap::new(), token_floor });
        Self { shards: std::iter::repeat_with(shard).take(SHARDS).collect(), hasher: RandomState::new() }
    }

    /// Returns the state of a name, for a new handle; `fresh` creates it with the floor of its
    /// tokens.
    pub(crate) fn open(&self, name: &Name, at: Moment, fresh: impl FnOnce(u64) -> T) -> Arc<T> {
        let mut shard = self.shard(name);
        shard.sweep(at, 2);
        if let Some(slot) = shard.slots.get_mut(name) {
            slot.handles += 1;
            return Arc::clone(&slot.state);
        }
        let state = Arc::new(fresh(shard.token_floor));
        shard.slots.insert(name.clone(), Slot { state: Arc::clone(&state), handles: 1, rests: false });
        state
    }

    /// Ends a handle of a name. The last one removes the state, unless it has to be kept (C25).
    pub(crate) fn leave(&self, name: &Name, at: Moment) {
        let mut shard = self.shard(name);
        if let Some(slot) = shard.slots.get_mut(name) {
            slot.handles -= 1;
            shard.settle(name, at);
        }
    }

    /// Removes all states whose time is over, and returns the number of the others.
    pub(crate) fn len(&self, at: Moment) -> usize {
        let shards = self.shards.iter().map(lock);
        shards.map(|mut shard| shard.sweep(at, usize::MAX)).sum()
    }

    /// Returns an upper bound on the tokens of the names that were removed.
    pub(crate) fn token_floor(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).token_floor).max().unwrap_or(0)
    }

    /// Returns all states.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let shards = self.shards.iter().map(lock);
        shards
            .flat_map(|shard| shard.slots.values().map(|slot| Arc::clone(&slot.state)).collect::<Vec<_>>())
            .collect()
    }

    /// Returns the state of a name, if there is one. It adds no handle.
    pub(crate) fn find(&self, name: &Name) -> Option<Arc<T>> {
        self.shard(name).slots.get(name).map(|slot| Arc::clone(&slot.state))
    }

    /// Returns the first names of a shard that begin with `prefix` and come after `after`, in the
    /// order of their bytes. O(log names + most).
    pub(crate) fn after(&self, shard: usize, prefix: &str, after: &str, most: usize) -> Vec<Name> {
        let begin = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let shard = lock(&self.shards[shard]);
        let names = shard.slots.range::<str, _>((begin, Bound::Unbounded)).map(|(name, _)| name);
        names.take_while(|name| name.as_str().starts_with(prefix)).take(most).cloned().collect()
    }

    /// Forgets the names that no handle uses, and the tokens of the removed names.
    pub(crate) fn forget(&self) {
        for mut shard in self.shards.iter().map(lock) {
            shard.token_floor = 0;
            shard.resting.clear();
            shard.slots.retain(|_, slot| {
                slot.rests = false;
                slot.handles > 0
            });
        }
    }

    fn shard(&self, name: &Name) -> MutexGuard<'_, Shard<T>> {
        let hash = self.hasher.hash_one(name);
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        lock(&self.shards[index])
    }
}

impl<T: Resident> Shard<T> {
    /// Checks up to `maximum` names whose time is over, and returns how many names are left.
    fn sweep(&mut self, at: Moment, maximum: usize) -> usize {
        for _ in 0..maximum {
            if self.resting.peek().is_none_or(|Reverse((until, _))| *until > at.micros) {
                break;
            }
            if let Some(Reverse((_, name))) = self.resting.pop() {
                if let Some(slot) = self.slots.get_mut(&name) {
                    slot.rests = false;
                }
                self.settle(&name, at);
            }
        }
        self.slots.len()
    }

    /// Keeps or removes a name without a handle.
    fn settle(&mut self, name: &Name, at: Moment) {
        let Some(slot) = self.slots.get_mut(name).filter(|slot| slot.handles == 0 && !slot.rests) else {
            return;
        };
        if let Some(until) = slot.state.retained_until(at) {
            slot.rests = true;
            self.resting.push(Reverse((until, name.clone())));
        } else if let Some(slot) = self.slots.remove(name) {
            self.token_floor = self.token_floor.max(slot.state.token_floor());
        }
    }
}

fn lock<T>(shard: &Mutex<Shard<T>>) -> MutexGuard<'_, Shard<T>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::time::Duration;

    use super::*;
    use crate::clock::StoreClock;
    use crate::sync::model::exhaust;

    /// A state that is kept for a second after its last use.
    struct Second;

    impl Resident for Second {
        fn token_floor(&self) -> u64 {
            0
        }

        fn retained_until(&self, at: Moment) -> Option<u64> {
            (at.micros < 1_000_000).then_some(1_000_000)
        }
    }

    #[test]
    fn c25_opening_other_names_removes_states_whose_time_is_over() {
        let schedules = exhaust(1, || {
            let begun = StoreClock::start().read();
            let at = |micros| Moment { now: begun.now + Duration::from_micros(micros), micros };
            let name = |number: u32| Name::new(&number.to_string()).unwrap();
            let names = Names::new(0);
            let visit = |number, micros| -> Weak<Second> {
                let state = Arc::downgrade(&names.open(&name(number), at(micros), |_| Second));
                names.leave(&name(number), at(micros));
                state
            };
            let states: Vec<_> = (0..100).map(|number| visit(number, 0)).collect();
            let kept = || states.iter().filter(|state| state.strong_count() > 0).count();
            assert_eq!(kept(), 100);
            // `len`, which would sweep too, is not called.
            for number in 100..1_100 {
                visit(number, 1_000_000);
            }
            assert_eq!(kept(), 0);
        });
        assert_eq!(schedules, 1);
    }
}
