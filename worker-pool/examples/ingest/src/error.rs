//! The error of running the service.

use std::io;

/// Why the service cannot start, or cannot finish its queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failed {
    /// A call of the operating system failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// The attempted action.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The place to store in is neither a folder nor a URL.
    #[error("{0} is not a place to store in")]
    Place(String),
    /// The object store does not accept its URL or settings.
    #[error("cannot open the object store: {0}")]
    Store(#[from] object_store::Error),
    /// The pool does not accept its settings.
    #[error("cannot start the pool: {0}")]
    Pool(#[from] stanchion_pool::ConfigError),
    /// The pool does not finish its queue.
    #[error("cannot finish the queue: {0}")]
    Drain(#[from] stanchion_pool::DrainError),
}

impl Failed {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
