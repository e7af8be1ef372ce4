//! The engine: waiting, renewal, release and retry, written once for all lease stores.
//!
//! A backend provides its [`steps`](crate::spi) twice, over a connection for the callers and over
//! one for the engine, and a source of wake-ups. [`Engine`] makes mutexes, semaphores, wait groups,
//! limiters and Bloom filters of them. Callers' steps run on the callers' runtime; where there are
//! several, on one of them and on the engine's own. Renewals, releases queued by `Drop`, polls and
//! wake-ups run on the engine's own thread, so that neither a blocked worker nor the end of the
//! caller's runtime stops them. The namespaces of a store object have an engine each, and one
//! thread.
//!
//! | module | does |
//! | --- | --- |
//! | `taking` | acquires: the request, its grant, the handles that callers use |
//! | `keeping` | keeps holds: their state, renewal and end |
//! | `waiting` | knows which callers wait, and delivers wake-ups to them |
//! | `sending` | puts many callers' requests into one, and delivers releases that no caller waits for |
//! | `limiter`, `bloom` | the same for limiters and Bloom filters |
//! | `listing` | lists names, page by page |
//! | `contained` | gives each step its time limit, and contains its panics; `part_sizes` makes requests smaller that outlast it |
//! | `shared`, `serve`, `timing` | the state of one namespace, what its thread does, the intervals |
//! | `namespaces` | the engines of one store object |
//! | `agreed`, `retrying` | a parameter that handle and store agree on; how a call goes on while the store is away |

mod agreed;
mod background;
mod bloom;
mod contained;
mod keeping;
mod limiter;
mod listing;
#[cfg(test)]
mod model_tests;
mod namespaces;
mod part_sizes;
mod retrying;
mod sending;
mod serve;
mod shared;
mod taking;
mod timing;
mod waiting;

use std::sync::{Arc, Weak};
use std::time::Duration;

pub use self::agreed::Agreed;
pub use self::background::{Background, EngineSteps, StepsWrap};
use self::contained::Containment;
use self::limiter::handle::LimiterHandle;
pub(crate) use self::listing::unsupported as list_unsupported;
pub use self::namespaces::{Begun, Namespaces, check_namespace};
use self::shared::{EngineHandle, Shared};
use self::taking::group::WaitGroupHandle;
use self::taking::handle::ObjectHandle;
use self::taking::locks::Permits;
pub use self::waiting::record_seen::RecordSeen;
use crate::clock::timeout;
use crate::runtime::EngineThread;
use crate::spi::{NO_LIMIT, Object, Ping, Purpose, Steps, StepsExt};
use crate::{BloomFilter, BloomOptions};
use crate::{
    Capabilities, Error, ErrorKind, Kind, Limiter, LimiterOptions, Mutex, MutexOptions, Name, OnMismatch,
    Result, Semaphore, SemaphoreOptions, Stats, WaitGroup, WaitGroupOptions, check_times,
};

/// Maximum time for which [`Engine::close`] waits for the last releases.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for which a drop may block its thread.
const MAXIMUM_DRAIN: Duration = Duration::from_secs(60);

/// The engine of one namespace of a store object. Clones share it. It ends after the last releases,
/// once the last clone, handle and guard is dropped, and its thread with the last of its engines.
#[derive(Clone, Debug)]
pub struct Engine {
    handle: Arc<EngineHandle>,
}

/// A reference to an engine that does not keep it alive.
#[derive(Clone, Debug)]
pub struct WeakEngine {
    handle: Weak<EngineHandle>,
}

impl WeakEngine {
    /// Returns the engine, unless the last clone, handle and guard is dropped.
    #[must_use]
    pub fn upgrade(&self) -> Option<Engine> {
        Some(Engine { handle: self.handle.upgrade()? })
    }

    /// Whether there is nothing left to [`upgrade`](Self::upgrade).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.handle.strong_count() == 0
    }
}

impl Engine {
    /// Starts the engine, on a thread of its own or on the one that it is given.
    ///
    /// `callers` are the steps over the callers' connection.
    ///
    /// # Errors
    /// `Unavailable` if the system has no thread to give; `InvalidArgument` for a `drain` above 1
    /// min, or a time limit of requests that is not 1 ms to 1 h.
    pub fn start(capabilities: Capabilities, callers: Arc<dyn Steps>, own: Background) -> Result<Self> {
        check_times(callers.request_timeout(), &[])?;
        check_times(own.steps.request_timeout(), &[])?;
        let Background { drain, slow_wait, .. } = own;
        if drain > MAXIMUM_DRAIN {
            return Err(Error::invalid_argument("drain is at most 1 min"));
        }
        let thread = own.thread.clone().map_or_else(EngineThread::start, Ok)?;
        let containment = Arc::new(Containment::new(thread.outages(capabilities.store), own.shares_servers));
        let (callers, own) = (containment.around(callers), own.contained(&containment));
        let (wake, namespace) = (own.wake.clone(), Arc::clone(&own.namespace));
        let calls = thread.call_runtime();
        let shared = Arc::new(Shared::new(capabilities, callers, wake, containment, namespace, calls));
        serve::begin(&thread, Arc::clone(&shared), Background { thread: None, ..own })?;
        Ok(Self { handle: Arc::new(EngineHandle { shared, thread: Some(thread), drain, slow_wait }) })
    }

    /// Starts the engine over the steps that `wrap` makes of these, if there is a wrap.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_wrapped(
        wrap: Option<&StepsWrap>,
        capabilities: Capabilities,
        callers: Arc<dyn Steps>,
        own: Background,
    ) -> Result<Self> {
        let (callers, own) = match wrap {
            Some(wrap) => wrap.wrap(callers, own),
            None => (callers, own),
        };
        Self::start(capabilities, callers, own)
    }

    /// Returns a mutex, without I/O.
    ///
    /// # Errors
    /// `InvalidArgument`, `Closed`.
    pub fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        self.mutex_for(Purpose::Guard, name, options)
    }

    /// Returns a mutex whose holds are for that purpose, without I/O. A backend that locks mutexes
    /// in its users' transactions asks for its turns by this.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    pub fn mutex_for(&self, purpose: Purpose, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        options
            .check()
            .and_then(|()| self.object(Kind::Mutex, name))
            .map(|object| {
                // The limit of a mutex is not a parameter, so there is nothing to compare.
                let handle = ObjectHandle::new(&self.handle, object, 1, OnMismatch::Adopt, options.hold);
                Arc::new(Permits(handle.with_purpose(purpose))) as Arc<dyn Mutex>
            })
            .map_err(|error| self.context("mutex", name, error))
    }

    /// Returns a semaphore, without I/O.
    ///
    /// # Errors
    /// `InvalidArgument`, `Closed`.
    pub fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        options
            .check()
            .and_then(|()| self.object(Kind::Semaphore, name))
            .map(|object| {
                let SemaphoreOptions { permits, on_mismatch, hold } = options;
                let handle = ObjectHandle::new(&self.handle, object, permits, on_mismatch, hold);
                Arc::new(Permits(handle)) as Arc<dyn Semaphore>
            })
            .map_err(|error| self.context("semaphore", name, error))
    }

    /// Returns a wait group, without I/O.
    ///
    /// # Errors
    /// `InvalidArgument`, `Closed`; `Unsupported` if the store has no steps of wait groups.
    pub fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        options
            .check()
            .and_then(|()| self.object(Kind::WaitGroup, name))
            .and_then(|object| {
                let WaitGroupOptions { limit, on_mismatch, hold } = options;
                let limit = limit.unwrap_or(NO_LIMIT);
                let group =
                    WaitGroupHandle::new(ObjectHandle::new(&self.handle, object, limit, on_mismatch, hold))?;
                Ok(Arc::new(group) as Arc<dyn WaitGroup>)
            })
            .map_err(|error| self.context("wait_group", name, error))
    }

    /// Returns a limiter, without I/O.
    ///
    /// # Errors
    /// `InvalidArgument`, `Closed`; `Unsupported` on a store without limiters.
    pub fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        let made = options.check().and_then(|()| self.object(Kind::Limiter, name)).and_then(|object| {
            if !self.capabilities().limiters {
                return Err(Error::new(ErrorKind::Unsupported, "this store does not offer limiters"));
            }
            Ok(Arc::new(LimiterHandle::new(&self.handle, object, options)?) as Arc<dyn Limiter>)
        });
        made.map_err(|error| self.context("limiter", name, error))
    }

    /// Returns a Bloom filter, without I/O.
    ///
    /// # Errors
    /// `InvalidArgument`, `Closed`; `Unsupported` on a store without Bloom filters.
    pub fn bloom_filter(&self, name: &str, options: &BloomOptions) -> Result<Arc<dyn BloomFilter>> {
        let made = options.check().and_then(|()| self.object(Kind::BloomFilter, name)).and_then(|object| {
            if !self.capabilities().bloom_filters {
                return Err(Error::new(ErrorKind::Unsupported, "this store does not offer Bloom filters"));
            }
            Ok(Arc::new(bloom::handle::Filter::new(&self.handle, object, options)?) as Arc<dyn BloomFilter>)
        });
        made.map_err(|error| self.context("bloom_filter", name, error))
    }

    fn object(&self, kind: Kind, name: &str) -> Result<Object> {
        self.handle.shared.check_open()?;
        Ok(Object { kind, name: Name::new(name)? })
    }

    fn context(&self, operation: &'static str, name: &str, error: Error) -> Error {
        error.context(operation, self.handle.shared.store(), name)
    }

    /// Returns what the store offers.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.handle.shared.capabilities
    }

    /// Returns what the engine does at the moment. The backend adds its connections.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = &self.handle.shared;
        let (holds, waiters) = (shared.registry.len(), shared.waiters.len());
        Stats { connections: None, requests: shared.containment.requests(), holds, waiters }
    }

    /// Makes one round trip to the store.
    ///
    /// # Errors
    /// As the step; `Closed`.
    pub async fn ping(&self) -> Result<()> {
        let shared = &self.handle.shared;
        let pinged = match shared.check_open() {
            Ok(()) => shared.on(shared.steps.ask(Ping)).await,
            Err(error) => Err(error),
        };
        pinged.map_err(|error| self.context("ping", "", error))
    }

    /// Closes the store object ([C12]): see [`Store::close`](crate::Store::close).
    ///
    /// # Errors
    /// `Timeout` if the store did not take all releases within 5 s.
    ///
    /// [C12]: crate::contract#c12
    pub async fn close(&self) -> Result<()> {
        self.check("close")?;
        self.handle.shared.close();
        self.drained("close").await
    }

    /// Sends everything queued, and leaves the store open: see
    /// [`Store::drain`](crate::Store::drain).
    ///
    /// # Errors
    /// `Timeout` if the store did not take all releases within 5 s.
    pub async fn drain(&self) -> Result<()> {
        self.check("drain")?;
        self.drained("drain").await
    }

    /// As [`drain`](Self::drain), blocking the thread for `timeout` at most. On the engine's own
    /// thread it does nothing.
    ///
    /// # Errors
    /// `Timeout` if the store did not take all releases within that time.
    pub fn drain_blocking(&self, timeout: Duration) -> Result<()> {
        self.check("drain_blocking")?;
        let shared = &self.handle.shared;
        if shared.is_on_thread() || shared.outbox.drain_blocking(timeout) {
            return Ok(());
        }
        Err(self.not_drained("drain_blocking"))
    }

    /// Returns the error of a call that a forked child of the process that opened the store makes.
    ///
    /// # Errors
    /// `Closed` in such a child.
    pub fn check(&self, operation: &'static str) -> Result<()> {
        self.handle.shared.check_process().map_err(|error| self.context(operation, "", error))
    }

    /// Returns the error of a call on a store that cannot be used any more.
    ///
    /// # Errors
    /// `Closed` after [`close`](Self::close), after a panic of the store, and in a forked child.
    pub fn check_open(&self, operation: &'static str) -> Result<()> {
        self.handle.shared.check_open().map_err(|error| self.context(operation, "", error))
    }

    /// Does some work over the connections that the engine's runtime has, whatever runtime polls
    /// it: for calls that must not wait for a connection that the user has in his hands. The work
    /// ends when it is dropped.
    pub async fn on_own_connections<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.shared.by_engine(work).await
    }

    /// Returns a reference that does not keep the engine alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine { handle: Arc::downgrade(&self.handle) }
    }

    async fn drained(&self, operation: &'static str) -> Result<()> {
        let shared = &self.handle.shared;
        let drained = shared.on(timeout(CLOSE_TIMEOUT, shared.outbox.drained())).await;
        drained.map_err(|_| self.not_drained(operation))
    }

    fn not_drained(&self, operation: &'static str) -> Error {
        let error =
            Error::new(ErrorKind::Timeout, "the store did not take all releases; their leases will end");
        self.context(operation, "", error)
    }
}
