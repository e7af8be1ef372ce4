//! Layers, as methods of a store.

use std::sync::Arc;

use http::request::Parts;
use stanchion_core::{Quota, Result, SemaphoreOptions, Store};

use crate::key::Key;
use crate::{ConcurrencyLimitLayer, RateLimitLayer};

/// The layers of this crate, as methods of a store that `stanchion::connect` opened: the same as
/// their constructors. A store of another type becomes one: `let store: Arc<dyn Store> =
/// Arc::new(store.clone());`.
pub trait LayerExt: sealed::Sealed {
    /// Makes a layer that gives each client, by its [key](crate::key), this quota over all
    /// instances: [`RateLimitLayer::new`].
    ///
    /// # Errors
    /// Those of [`RateLimitLayer::new`].
    fn rate_limit<K: Into<Key>>(
        &self,
        prefix: impl Into<Arc<str>>,
        key: impl Fn(&Parts) -> K + Send + Sync + 'static,
        quota: Quota,
    ) -> Result<RateLimitLayer>;

    /// Makes a layer over the semaphore with that name, whose requests wait for 5 s at most:
    /// [`ConcurrencyLimitLayer::new`].
    ///
    /// # Errors
    /// As [`Store::semaphore`].
    fn concurrency_limit(&self, name: &str, options: SemaphoreOptions) -> Result<ConcurrencyLimitLayer>;
}

impl LayerExt for Arc<dyn Store> {
    fn rate_limit<K: Into<Key>>(
        &self,
        prefix: impl Into<Arc<str>>,
        key: impl Fn(&Parts) -> K + Send + Sync + 'static,
        quota: Quota,
    ) -> Result<RateLimitLayer> {
        RateLimitLayer::new(Self::clone(self), prefix, key, quota)
    }

    fn concurrency_limit(&self, name: &str, options: SemaphoreOptions) -> Result<ConcurrencyLimitLayer> {
        ConcurrencyLimitLayer::new(Self::clone(self), name, options)
    }
}

mod sealed {
    use std::sync::Arc;

    use stanchion_core::Store;

    /// Keeps the trait to this crate, so that it can grow.
    #[expect(unnameable_types, reason = "nobody else implements the trait")]
    pub trait Sealed {}

    impl Sealed for Arc<dyn Store> {}
}
