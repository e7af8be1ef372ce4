//! The declarations of a store about itself.

/// The means by which a store keeps the holds of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MutexMode {
    /// This process: they end with it.
    Process,
    /// Leases in the store.
    Lease,
    /// A database session.
    Session,
}

/// The offers of a store where the contract lets stores differ; the conformance suite checks the
/// declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// `memory`, `redis`, `postgres`, or another store's own name.
    pub store: &'static str,
    /// The means by which the store keeps a mutex.
    pub mutex_mode: MutexMode,
    /// `Store::wait_group` works.
    pub wait_groups: bool,
    /// `Store::limiter` works.
    pub limiters: bool,
    /// `Store::bloom_filter` works. It never does without the Cargo feature `bloom`.
    pub bloom_filters: bool,
    /// The store wakes waiters. Otherwise they proceed by the poll floor ([C14]).
    ///
    /// [C14]: crate::contract#c14
    pub wake_ups: bool,
    /// `Store::namespace` works.
    pub namespaces: bool,
    /// `Store::list` works.
    pub listing: bool,
    /// `detach` and `attach` work. Where sessions keep mutexes, this is about mutexes; other kinds
    /// can be detached.
    pub detach: bool,
    /// The state lives outside this process, and other processes share it.
    pub shared: bool,
    /// Holds survive a restart of the store with its durable configuration; `None` if that could
    /// not be read.
    pub survives_restart: Option<bool>,
}

impl Capabilities {
    /// Makes the capabilities of a store that offers everything; unset the others.
    #[must_use]
    pub fn full(store: &'static str, mutex_mode: MutexMode) -> Self {
        Self {
            store,
            mutex_mode,
            wait_groups: true,
            limiters: true,
            bloom_filters: true,
            wake_ups: true,
            namespaces: true,
            listing: true,
            detach: true,
            shared: true,
            survives_restart: None,
        }
    }
}
