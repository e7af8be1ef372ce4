//! The store.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "bloom")]
use stanchion_core::{BloomFilter, BloomOptions};
use stanchion_core::{
    Capabilities, Error, Limiter, LimiterOptions, ListOptions, ListPage, Mutex, MutexMode, MutexOptions,
    Name, Result, Semaphore, SemaphoreOptions, Stats, Store, WaitGroup, WaitGroupOptions,
};

use crate::STORE;
#[cfg(feature = "bloom")]
use crate::bloom::MemoryFilter;
use crate::builder::MemoryStoreBuilder;
use crate::limiter::MemoryLimiter;
use crate::mutex::MemoryMutex;
use crate::namespaces::{DEFAULT, States};
use crate::semaphore::MemorySemaphore;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::wait_group::MemoryWaitGroup;

/// A store in this process.
///
/// Clones are one store object: closing one closes all. [`client`](Self::client) returns another
/// store object over the same state, as another process would have on a networked store.
///
/// # Guarantees
/// The guarantees of the four traits, without leases unless
/// [`ttl`](stanchion_core::HoldOptions::ttl) asks for one: a hold is kept by its guard, which
/// cannot be cut off. The state of an unused name disappears by itself ([C25]).
///
/// # What is not guaranteed
/// Nothing survives the process, and nobody in another one is excluded: two processes with stores
/// of one name both get the lock. Between processes use a server. A leaked guard
/// (`std::mem::forget`) holds until the process ends, unless it has a lease that is not renewed or
/// a `max_hold`.
///
/// # Drop
/// Objects and guards made by the store stay usable without it.
///
/// [C25]: stanchion_core::contract#c25
#[derive(Clone)]
pub struct MemoryStore {
    session: Arc<Session>,
    sessions: Arc<Sessions>,
}

impl MemoryStore {
    /// Creates a store with its own state.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a new store object over the state of this name, which all callers in the process
    /// share. The state is dropped with the last store object, handle or guard.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::over(States::named(name, || States::new(Self::builder())))
    }

    /// Returns a builder, to set a manual clock for limiters or another retention.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    /// Returns another store object over the same state and namespace. Closing one ends only its
    /// own calls and guards.
    #[must_use]
    pub fn client(&self) -> Self {
        Self::with_namespace(Arc::clone(&self.sessions.states), &self.session.namespace)
    }

    fn over(states: Arc<States>) -> Self {
        Self::with_namespace(states, DEFAULT)
    }

    fn with_namespace(states: Arc<States>, namespace: &str) -> Self {
        let (sessions, session) = Sessions::begin(states, namespace);
        Self { session, sessions }
    }

    /// Returns this store's view of another namespace, as [`Store::namespace`], without I/O. The
    /// retention of its names ([C25]) counts without a view, too, until the last store object,
    /// handle and guard of any namespace is dropped.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name; `Closed` if this view is closed.
    ///
    /// [C25]: stanchion_core::contract#c25
    pub fn namespace(&self, namespace: &str) -> Result<Self> {
        let open = self.session.check_open().and_then(|()| self.sessions.of(namespace));
        let session = open.map_err(in_operation("namespace", namespace))?;
        Ok(Self { session, sessions: Arc::clone(&self.sessions) })
    }

    /// Returns the number of names of this namespace with state, over all store objects. First
    /// removes state whose time is over ([C25]).
    ///
    /// [C25]: stanchion_core::contract#c25
    #[must_use]
    pub fn len(&self) -> usize {
        self.session.state.len()
    }

    /// Returns whether no name of this namespace has state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything, of all namespaces, as a networked store that loses its data: a tool for
    /// tests.
    ///
    /// All holds are lost, and all stored limits, quotas, buckets, wait groups, Bloom filters and
    /// fencing tokens are gone. Tokens keep growing because the clock does ([M3]), as long as fewer
    /// than one a microsecond were drawn. A queued waiter keeps waiting, stores the limit again,
    /// and is served; a waiter for a group gets `StateLost` ([W6]).
    ///
    /// [M3]: stanchion_core::contract#m3
    /// [W6]: stanchion_core::contract#w6
    pub fn simulate_data_loss(&self) {
        self.sessions.states.all().iter().for_each(|state| state.forget());
    }

    /// Checks the name, the options and that the store is open, for all constructors ([C19]).
    ///
    /// [C19]: stanchion_core::contract#c19
    fn name(&self, operation: &'static str, name: &str, options: Result<()>) -> Result<Name> {
        let checked = Name::new(name).and_then(|name| options.map(|()| name));
        let open = checked.and_then(|name| self.session.check_open().map(|()| name));
        open.map_err(in_operation(operation, name))
    }
}

impl MemoryStoreBuilder {
    /// Builds the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        MemoryStore::over(Arc::new(States::new(self)))
    }
}

fn in_operation(operation: &'static str, name: &str) -> impl FnOnce(Error) -> Error {
    move |error| error.context(operation, STORE, name)
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        let checked = self.name("mutex", name, options.check())?;
        let mutex =
            MemoryMutex::open(&self.session, checked, &options).map_err(in_operation("mutex", name))?;
        Ok(Arc::new(mutex))
    }

    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        let checked = self.name("semaphore", name, options.check())?;
        let opened = MemorySemaphore::open(&self.session, checked, &options);
        Ok(Arc::new(opened.map_err(in_operation("semaphore", name))?))
    }

    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        let checked = self.name("wait_group", name, options.check())?;
        let opened = MemoryWaitGroup::open(&self.session, checked, &options);
        Ok(Arc::new(opened.map_err(in_operation("wait_group", name))?))
    }

    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        let checked = self.name("limiter", name, options.check())?;
        let opened = MemoryLimiter::open(&self.session, checked, &options);
        Ok(Arc::new(opened.map_err(in_operation("limiter", name))?))
    }

    #[cfg(feature = "bloom")]
    fn bloom_filter(&self, name: &str, options: BloomOptions) -> Result<Arc<dyn BloomFilter>> {
        let checked = self.name("bloom_filter", name, options.check())?;
        let opened = MemoryFilter::open(&self.session, checked, &options);
        Ok(Arc::new(opened.map_err(in_operation("bloom_filter", name))?))
    }

    async fn namespace(&self, namespace: &str) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Self::namespace(self, namespace)?))
    }

    /// Holds no lock for longer than it takes to look at a sixteenth of the names of one kind.
    /// O(that) for each 1,000 names.
    async fn list(&self, options: ListOptions) -> Result<ListPage> {
        crate::listing::list(&self.session, &options).map_err(in_operation("list", ""))
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::full(STORE, MutexMode::Process);
        capabilities.bloom_filters = cfg!(feature = "bloom");
        capabilities.shared = false;
        capabilities.survives_restart = Some(false);
        capabilities
    }

    /// O(names).
    fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        stats.connections = Some(0);
        for entry in self.session.state.entries() {
            let (holds, waiters) = entry.read(|permits| permits.count_of(self.session.id));
            stats.holds += holds;
            stats.waiters += waiters;
        }
        stats
    }

    async fn ping(&self) -> Result<()> {
        self.session.check_open().map_err(in_operation("ping", ""))
    }

    async fn close(&self) -> Result<()> {
        self.session.close();
        for entry in self.session.state.entries() {
            entry.change(|permits, transition| permits.close(self.session.id, transition));
        }
        self.session.closing.notify_waiters();
        Ok(())
    }
}
