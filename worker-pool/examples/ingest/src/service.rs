//! The whole service, from its settings to its end.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stanchion_pool::WorkerPool;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::batch::Batches;
use crate::endpoint::{Endpoint, router};
use crate::server::serve;
use crate::settings::Settings;
use crate::storage::Storage;

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failed {
    /// The system said no.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A place that is neither a folder nor a URL.
    #[error("{0} is not a place to store in")]
    Place(String),
    /// The object store does not take its URL or settings.
    #[error("cannot open the object store: {0}")]
    Store(#[from] object_store::Error),
    /// The pool does not take its settings.
    #[error("cannot start the pool: {0}")]
    Pool(#[from] stanchion_pool::ConfigError),
}

impl Failed {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

/// What became of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Payloads in requests that were answered 202.
    pub accepted: u64,
    /// Payloads that are in objects.
    pub stored: u64,
    /// Objects.
    pub objects: u64,
    /// Connections that did not end by themselves.
    pub cut_off: usize,
}

impl Summary {
    /// Payloads that were accepted and not stored: the store failed for longer than the shutdown may take.
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

/// Runs the service until `stop` resolves: then it stops accepting connections, finishes the requests under way, lets the
/// pool finish what is queued, and stores the last batch. Tells where it listens once it does.
///
/// # Errors
///
/// What keeps it from starting.
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
        endpoint.pool().drain().await;
        drop(stop_aging);
        let _ = (&mut aging).await;
        batches.store_older_than(Duration::ZERO).await;
    };
    if timeout(settings.grace, finish).await.is_err() {
        eprintln!("the store did not take everything within {:?}", settings.grace);
        aging.abort();
    }
    drop(endpoint.pool().shutdown(Duration::ZERO).await);
    let storage = batches.storage();
    Ok(Summary {
        accepted: endpoint.accepted(),
        stored: storage.stored(),
        objects: storage.objects(),
        cut_off,
    })
}

/// Stores batches that few requests come to, until it is told to stop; never in the middle of one.
async fn age(batches: Arc<Batches>, age: Duration, mut stopped: oneshot::Receiver<()>) {
    while timeout(age / 2, &mut stopped).await.is_err() {
        batches.store_older_than(age / 2).await;
    }
}
