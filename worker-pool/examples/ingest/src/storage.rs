//! Stores batches as objects.

use std::mem;
use std::path::Path as Folder;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, parse_url_opts};
use tokio::time::sleep;
use url::Url;

use crate::batch::Batch;
use crate::error::Failed;

const MINIMUM_RETRY_PAUSE: Duration = Duration::from_millis(50);
const MAXIMUM_RETRY_PAUSE: Duration = Duration::from_secs(2);

/// An object store, and the names of the objects that this process writes.
#[derive(Debug)]
pub struct Storage {
    store: Box<dyn ObjectStore>,
    folder: Path,
    objects: AtomicU64,
    payloads: AtomicU64,
    next: AtomicU64,
}

impl Storage {
    /// Opens a store: a folder, which is created if it does not exist, or a URL (`file:///…`; with
    /// the feature `s3` also `s3://BUCKET/…`, with the settings from the environment variables
    /// `AWS_…`).
    ///
    /// # Errors
    ///
    /// [`Failed`] if the folder, the URL or the settings cannot be used.
    pub fn open(place: &str) -> Result<Self, Failed> {
        let (store, folder) = match Url::parse(place) {
            Ok(url) if url.scheme() == "file" => {
                let folder = url.to_file_path().map_err(|()| Failed::Place(place.to_owned()))?;
                (local(&folder)?, Path::default())
            }
            Ok(url) => remote(&url)?,
            Err(_) => (local(Folder::new(place))?, Path::default()),
        };
        // Names sort by the start of the process, and no two processes share one.
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let folder = folder.join(format!("{start:012}-{:016x}", rand::random::<u64>()));
        Ok(Self { store, folder, objects: 0.into(), payloads: 0.into(), next: 0.into() })
    }

    /// Returns the number of stored payloads.
    pub fn stored(&self) -> u64 {
        self.payloads.load(Ordering::Acquire)
    }

    /// Returns the number of written objects.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Acquire)
    }

    /// Stores a batch as one object. Retries every failed attempt under the same name, with pauses
    /// of 50 ms to 2 s: if a failed attempt wrote the object after all, the retry overwrites it.
    ///
    /// # Cancel safety
    ///
    /// Not cancel-safe: the batch is lost.
    pub async fn store(&self, mut batch: Batch) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = self.folder.clone().join(format!("{number:09}.ndjson"));
        let object = PutPayload::from(mem::take(&mut batch.lines));
        let mut pause = MINIMUM_RETRY_PAUSE;
        while let Err(error) = self.store.put(&name, object.clone()).await {
            eprintln!("cannot store {name}, next attempt in {pause:?}: {error}");
            sleep(pause).await;
            pause = (pause * 2).min(MAXIMUM_RETRY_PAUSE);
        }
        self.objects.fetch_add(1, Ordering::AcqRel);
        self.payloads.fetch_add(batch.payloads, Ordering::AcqRel);
    }
}

/// Opens a folder whose objects survive a crash of the machine once they are stored.
fn local(folder: &Folder) -> Result<Box<dyn ObjectStore>, Failed> {
    std::fs::create_dir_all(folder).map_err(Failed::io("make the folder of the store"))?;
    Ok(Box::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true)))
}

fn remote(url: &Url) -> Result<(Box<dyn ObjectStore>, Path), Failed> {
    #[cfg(feature = "s3")]
    {
        // With two cryptographic libraries in the workspace rustls has no default. An earlier
        // choice of the process stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let settings = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("AWS_"))?;
        Some((name.to_ascii_lowercase(), value.into_string().ok()?))
    });
    Ok(parse_url_opts(url, settings)?)
}
