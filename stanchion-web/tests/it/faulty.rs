//! A store that can be away, and that counts what it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::{
    Capabilities, Detached, Error, ErrorKind, Inspection, Limiter, LimiterOptions, ListOptions, ListPage,
    Mutex, MutexGuard, MutexOptions, Result, Semaphore, SemaphoreOptions, Stats, Store, Ticket, WaitGroup,
    WaitGroupOptions,
};
use stanchion_memory::MemoryStore;

/// The time limit of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

type Listings = std::sync::Mutex<Vec<Instant>>;

/// What does not work.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Nobody answers.
    pub(crate) is_away: AtomicBool,
    /// Nobody answers after a listing.
    pub(crate) goes_away: AtomicBool,
    /// The answer to a release by force is lost.
    pub(crate) loses_answers: AtomicBool,
    /// How long a listing takes, in ms.
    pub(crate) listing_ms: AtomicU64,
    /// When each listing began.
    pub(crate) listings: Listings,
}

impl Faults {
    async fn answer(&self) -> Result<()> {
        if self.is_away.load(Ordering::Relaxed) {
            sleep(TIMEOUT).await;
            return Err(Error::new(ErrorKind::Unavailable, "nobody answers"));
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(crate) struct FaultyStore {
    store: MemoryStore,
    pub(crate) faults: Arc<Faults>,
}

#[async_trait]
impl Store for FaultyStore {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        let mutex = self.store.mutex(name, options)?;
        Ok(Arc::new(FaultyMutex { mutex, faults: Arc::clone(&self.faults) }))
    }

    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        self.store.semaphore(name, options)
    }

    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        self.store.wait_group(name, options)
    }

    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        self.store.limiter(name, options)
    }

    async fn list(&self, options: ListOptions) -> Result<ListPage> {
        self.faults.answer().await?;
        self.faults.listings.lock().unwrap().push(now());
        sleep(Duration::from_millis(self.faults.listing_ms.load(Ordering::Relaxed))).await;
        let page = self.store.list(options).await;
        if self.faults.goes_away.load(Ordering::Relaxed) {
            self.faults.is_away.store(true, Ordering::Relaxed);
        }
        page
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    async fn ping(&self) -> Result<()> {
        self.faults.answer().await
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

#[derive(Debug)]
struct FaultyMutex {
    mutex: Arc<dyn Mutex>,
    faults: Arc<Faults>,
}

#[async_trait]
impl Mutex for FaultyMutex {
    fn name(&self) -> &str {
        self.mutex.name()
    }

    async fn lock(&self) -> Result<MutexGuard> {
        self.mutex.lock().await
    }

    async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        self.mutex.try_lock().await
    }

    async fn lock_for(&self, timeout: Duration) -> Result<Option<MutexGuard>> {
        self.mutex.lock_for(timeout).await
    }

    async fn attach(&self, detached: &Detached) -> Result<MutexGuard> {
        self.mutex.attach(detached).await
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.faults.answer().await?;
        self.mutex.inspect().await
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.mutex.force_unlock().await
    }

    async fn force_unlock_of(&self, ticket: Ticket) -> Result<bool> {
        self.faults.answer().await?;
        let freed = self.mutex.force_unlock_of(ticket).await?;
        if self.faults.loses_answers.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unknown, "the connection broke"));
        }
        Ok(freed)
    }
}
