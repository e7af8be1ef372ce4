//! The namespaces of a store, a state for each.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::builder::MemoryStoreBuilder;
use crate::clock::StoreClock;
use crate::limiter::LimiterClock;
use crate::state::State;

/// The namespace of a store that was not asked for another.
pub(crate) const DEFAULT: &str = "stanchion";

/// The states of all namespaces, which all store objects of one store share.
pub(crate) struct States {
    options: MemoryStoreBuilder,
    clock: StoreClock,
    all: Mutex<Namespaces>,
}

/// The namespaces with a state.
#[derive(Default)]
struct Namespaces {
    states: HashMap<String, Arc<State>>,
    /// Their names, the one that was looked at least recently first.
    order: VecDeque<String>,
    /// Upper bound on the tokens of all states that were removed (M2).
    token_floor: u64,
}

impl States {
    pub(crate) fn new(options: MemoryStoreBuilder) -> Self {
        Self { options, clock: StoreClock::start(), all: Mutex::default() }
    }

    /// Returns the states of this name in the process; the first call creates them.
    pub(crate) fn named(name: &str, fresh: impl FnOnce() -> Self) -> Arc<Self> {
        static STORES: LazyLock<Mutex<HashMap<String, Weak<States>>>> = LazyLock::new(Mutex::default);
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(states) = stores.get(name).and_then(Weak::upgrade) {
            return states;
        }
        stores.retain(|_, states| states.strong_count() > 0);
        let states = Arc::new(fresh());
        stores.insert(name.to_owned(), Arc::downgrade(&states));
        states
    }

    /// Returns the duration from which a finished wait is logged.
    pub(crate) fn slow_wait(&self) -> Duration {
        self.options.slow_wait
    }

    pub(crate) fn all(&self) -> Vec<Arc<State>> {
        self.locked().states.values().cloned().collect()
    }

    /// Returns the state of a namespace.
    pub(crate) fn of(&self, namespace: &str) -> Arc<State> {
        let mut all = self.locked();
        if let Some(state) = all.states.get(namespace) {
            return Arc::clone(state);
        }
        all.sweep(2);
        let clock = self.options.clock.clone().map_or(LimiterClock::Store(self.clock), LimiterClock::Manual);
        let retention = self.options.retention;
        let state = Arc::new(State::new(namespace, self.clock, clock, retention, all.token_floor));
        all.states.insert(namespace.to_owned(), Arc::clone(&state));
        all.order.push_back(namespace.to_owned());
        state
    }

    fn locked(&self) -> MutexGuard<'_, Namespaces> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Namespaces {
    /// Looks at up to `maximum` namespaces, and removes those that nobody uses and that have no
    /// state any more. A new namespace must not cost more the more there are.
    fn sweep(&mut self, maximum: usize) {
        for _ in 0..maximum {
            let Some(namespace) = self.order.pop_front() else { return };
            match self.states.get(&namespace) {
                Some(state) if Arc::strong_count(state) == 1 && state.len() == 0 => {
                    self.token_floor = self.token_floor.max(state.token_floor());
                    self.states.remove(&namespace);
                }
                _ => self.order.push_back(namespace),
            }
        }
    }
}
