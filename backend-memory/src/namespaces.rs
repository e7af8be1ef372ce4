//! The namespaces of a store: a state for each, and of each store object a session.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use stanchion_core::Result;
use stanchion_core::engine::check_namespace;

use crate::builder::MemoryStoreBuilder;
use crate::clock::StoreClock;
use crate::limiter::LimiterClock;
use crate::session::Session;
use crate::state::State;

/// The namespace of a store that was not asked for another.
pub(crate) const DEFAULT: &str = "stanchion";

/// The states of all namespaces, which all store objects of one store share.
#[derive(Debug)]
pub(crate) struct States {
    options: MemoryStoreBuilder,
    clock: StoreClock,
    all: Mutex<HashMap<String, Arc<State>>>,
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

    /// Returns from which length on a wait is told.
    pub(crate) fn slow_wait(&self) -> Duration {
        self.options.slow_wait
    }

    pub(crate) fn all(&self) -> Vec<Arc<State>> {
        self.locked().values().cloned().collect()
    }

    fn of(&self, namespace: &str) -> Arc<State> {
        let fresh = || {
            let clock =
                self.options.clock.clone().map_or(LimiterClock::Store(self.clock), LimiterClock::Manual);
            Arc::new(State::new(namespace, self.clock, clock, self.options.retention))
        };
        let mut all = self.locked();
        if !all.contains_key(namespace) {
            // Of a namespace that nobody uses, and that has no state any more, nothing stays.
            all.retain(|_, state| Arc::strong_count(state) > 1 || state.len() > 0);
        }
        Arc::clone(all.entry(namespace.to_owned()).or_insert_with(fresh))
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Arc<State>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sessions of a store object, one for each namespace that is open.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) states: Arc<States>,
    open: Mutex<HashMap<String, Weak<Session>>>,
}

impl Sessions {
    /// Returns the sessions of a new store object, and that of its own namespace.
    pub(crate) fn begin(states: Arc<States>, namespace: &str) -> (Arc<Self>, Arc<Session>) {
        let sessions = Self { states, open: Mutex::default() };
        let session = sessions.open(namespace);
        (Arc::new(sessions), session)
    }

    /// Returns the session of a namespace; it begins unless it is open.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name.
    pub(crate) fn of(&self, namespace: &str) -> Result<Arc<Session>> {
        check_namespace(namespace)?;
        Ok(self.open(namespace))
    }

    fn open(&self, namespace: &str) -> Arc<Session> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.get(namespace).and_then(Weak::upgrade);
        if let Some(session) = known.filter(|session| !session.is_closed()) {
            return session;
        }
        open.retain(|_, session| session.strong_count() > 0);
        let session = Session::new(namespace, self.states.of(namespace), Arc::clone(&self.states));
        open.insert(namespace.to_owned(), Arc::downgrade(&session));
        session
    }
}
