//! The state of a namespace, which all store objects of one store share.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::micros;
use stanchion_core::{Kind, Name};

#[cfg(feature = "bloom")]
use crate::bloom::FilterEntry;
use crate::clock::{Moment, StoreClock};
use crate::entry::{Entry, Named};
use crate::kernel::{Generations, Permits};
use crate::limiter::{LimiterClock, LimiterEntry};
use crate::names::Names;

/// One namespace: its clock and its names.
pub(crate) struct State {
    namespace: Arc<str>,
    pub(crate) clock: StoreClock,
    pub(crate) limiter_clock: LimiterClock,
    retention: Duration,
    mutexes: Names<Entry>,
    semaphores: Names<Entry>,
    groups: Names<Entry>,
    pub(crate) limiters: Names<LimiterEntry>,
    #[cfg(feature = "bloom")]
    pub(crate) filters: Names<FilterEntry>,
}

impl State {
    /// Makes a state whose tokens are larger than `token_floor` (M2).
    pub(crate) fn new(
        namespace: &str,
        clock: StoreClock,
        limiter_clock: LimiterClock,
        retention: Duration,
        token_floor: u64,
    ) -> Self {
        Self {
            namespace: Arc::from(namespace),
            clock,
            limiter_clock,
            retention,
            mutexes: Names::new(token_floor),
            semaphores: Names::new(token_floor),
            groups: Names::new(token_floor),
            limiters: Names::new(0),
            #[cfg(feature = "bloom")]
            filters: Names::new(0),
        }
    }

    /// Returns the state of a mutex, a semaphore or a wait group, for a new handle.
    pub(crate) fn open(&self, kind: Kind, name: &Name) -> Arc<Entry> {
        let generations = (kind == Kind::WaitGroup).then(|| Generations::new(self.retention));
        // A mutex has one permit, always.
        let limit_retention = (kind != Kind::Mutex).then_some(self.retention);
        let fresh = |token_floor| {
            let named = Named { namespace: Arc::clone(&self.namespace), kind, name: name.clone() };
            Entry::new(named, self.clock, Permits::new(token_floor, generations, limit_retention))
        };
        self.names(kind).open(name, self.clock.read(), fresh).watched()
    }

    /// Returns the state of a limiter, for a new handle.
    pub(crate) fn open_limiter(&self, name: &Name, at: Moment) -> Arc<LimiterEntry> {
        self.limiters.open(name, at, |_| LimiterEntry::new(micros(self.retention)))
    }

    /// Ends a handle of a mutex, a semaphore or a wait group.
    pub(crate) fn leave(&self, kind: Kind, name: &Name) {
        self.names(kind).leave(name, self.clock.read());
    }

    pub(crate) fn names(&self, kind: Kind) -> &Names<Entry> {
        match kind {
            Kind::Semaphore => &self.semaphores,
            Kind::WaitGroup => &self.groups,
            // Limiters and Bloom filters have names of other types.
            _ => &self.mutexes,
        }
    }

    /// Returns all mutexes, semaphores and wait groups.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        [&self.mutexes, &self.semaphores, &self.groups].into_iter().flat_map(Names::all).collect()
    }

    /// Returns an upper bound on the tokens of all names, if none of them has state (M2).
    pub(crate) fn token_floor(&self) -> u64 {
        [&self.mutexes, &self.semaphores, &self.groups].map(Names::token_floor).into_iter().max().unwrap_or(0)
    }

    /// Returns the number of names with state.
    pub(crate) fn len(&self) -> usize {
        let at = self.clock.read();
        let holds: usize =
            [&self.mutexes, &self.semaphores, &self.groups].map(|names| names.len(at)).iter().sum();
        #[cfg(feature = "bloom")]
        let holds = holds + self.filters.len(at);
        holds + self.limiters.len(self.limiter_clock.read())
    }

    /// Forgets everything except the waiters.
    pub(crate) fn forget(&self) {
        for entry in self.entries() {
            entry.change(|permits, transition| permits.forget(transition));
        }
        self.limiters.all().iter().for_each(|limiter| limiter.forget());
        self.limiters.forget();
        #[cfg(feature = "bloom")]
        {
            self.filters.all().iter().for_each(|filter| filter.forget());
            self.filters.forget();
        }
        [&self.mutexes, &self.semaphores, &self.groups].into_iter().for_each(Names::forget);
    }
}
