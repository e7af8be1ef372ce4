//! A store that is away for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use stanchion_core::clock::now;
use stanchion_core::{
    Capabilities, Error, ErrorKind, Limiter, LimiterOptions, ListOptions, ListPage, Mutex, MutexOptions,
    Result, Semaphore, SemaphoreOptions, Stats, Store, WaitGroup, WaitGroupOptions,
};
use stanchion_memory::MemoryStore;
use stanchion_web::Dashboard;
use tokio::time::sleep;

use crate::common::get;
use crate::events::Events;

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A store that can be silent.
#[derive(Debug)]
struct Silent {
    store: MemoryStore,
    is_away: AtomicBool,
}

#[async_trait]
impl Store for Silent {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        self.store.mutex(name, options)
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
        if self.is_away.load(Ordering::Relaxed) {
            sleep(TIMEOUT).await;
            return Err(Error::new(ErrorKind::Unavailable, "nobody answers"));
        }
        self.store.list(options).await
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    async fn ping(&self) -> Result<()> {
        self.store.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

#[tokio::test(start_paused = true)]
async fn its_return_is_seen_soon_and_the_stream_goes_on() {
    let silent = Arc::new(Silent { store: MemoryStore::new(), is_away: AtomicBool::new(false) });
    let _guard = silent.mutex("a", MutexOptions::new()).unwrap().lock().await.unwrap();
    let store: Arc<dyn Store> = Arc::<Silent>::clone(&silent);
    let router = Dashboard::new(store).into_router().unwrap();
    let mut events = Events::open(&router, "/events").await;
    assert_eq!(events.next().await["set"].as_array().unwrap().len(), 1);

    silent.is_away.store(true, Ordering::Relaxed);
    let away = events.next().await;
    assert!(away["error"].as_str().unwrap().contains("nobody answers"), "{away}");
    assert_eq!(away["gone"].as_array().unwrap().len(), 0, "what was seen stays");
    assert_eq!(get(&router, "/api/v1/health").await.status, StatusCode::SERVICE_UNAVAILABLE);

    silent.is_away.store(false, Ordering::Relaxed);
    let back = now();
    while events.next().await["error"].is_string() {}
    assert!(back.elapsed() <= 2 * TIMEOUT, "{:?}", back.elapsed());
    assert_eq!(get(&router, "/api/v1/health").await.status, StatusCode::OK);
}
