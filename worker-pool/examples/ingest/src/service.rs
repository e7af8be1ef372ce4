//! The whole service, from its settings to its end.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stanchion_pool::WorkerPool;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::batches::Batches;
use crate::endpoint::{Endpoint, router};
use crate::error::Failed;
use crate::server::serve;
use crate::settings::Settings;
use crate::storage::Storage;

/// The totals of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Payloads in requests that were answered 202.
    pub accepted: u64,
    /// Payloads that were stored.
    pub stored: u64,
    /// Objects that were written.
    pub objects: u64,
    /// Connections that had to be cut off.
    pub cut_off: usize,
}

impl Summary {
    /// Returns the number of payloads that were accepted and not stored: the store failed for
    /// longer than the shutdown may take.
    pub fn lost(&self) -> u64 {
        self.accepted.saturating_sub(self.stored)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, stored, objects, cut_off } = self;
        write!(f, "{accepted} payloads accepted, {stored} stored in {objects} objects, ")?;
        write!(f, "{} lost; {cut_off} connections cut off", self.lost())
    }
}

/// Runs the service until `stop` resolves. Then stops accepting connections, finishes the requests
/// under way, lets the pool finish its queue, and stores the last batch. Calls `listening` with the
/// address once the service listens.
///
/// # Errors
///
/// [`Failed`] if the service cannot start, or cannot finish its queue.
pub async fn run(
    settings: &Settings,
    listening: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<Summary, Failed> {
    let batches = Arc::new(Batches::new(Storage::open(&settings.store)?, settings.batch.get()));
    let pool = WorkerPool::builder().workers(settings.workers.get()).queue(settings.queue.get()).build()?;
    let endpoint = Arc::new(Endpoint::new(pool, Arc::clone(&batches), settings));
    let listener = TcpListener::bind(settings.listen).await.map_err(Failed::io("listen"))?;
    listening(listener.local_addr().map_err(Failed::io("tell where it listens"))?);

    let (stop_aging, stopped) = oneshot::channel();
    let mut aging = tokio::spawn(age(Arc::clone(&batches), settings.batch_age, stopped));
    let router = router(Arc::clone(&endpoint));
    let cut_off = serve(listener, router, settings, stop).await;

    let finish = async {
        let drained = endpoint.pool().drain().await;
        drop(stop_aging);
        let _ = (&mut aging).await;
        batches.store_older_than(Duration::ZERO).await;
        drained
    };
    let finished = timeout(settings.grace, finish).await;
    if finished.is_err() {
        eprintln!("the store did not take everything within {:?}", settings.grace);
        aging.abort();
    }
    drop(endpoint.pool().shutdown(Duration::ZERO).await);
    finished.unwrap_or(Ok(()))?;
    let storage = batches.storage();
    Ok(Summary {
        accepted: endpoint.accepted(),
        stored: storage.stored(),
        objects: storage.objects(),
        cut_off,
    })
}

/// Stores batches that few requests reach, until it is told to stop; it never stops while it stores
/// one.
async fn age(batches: Arc<Batches>, age: Duration, mut stopped: oneshot::Receiver<()>) {
    while timeout(age / 2, &mut stopped).await.is_err() {
        batches.store_older_than(age / 2).await;
    }
}
