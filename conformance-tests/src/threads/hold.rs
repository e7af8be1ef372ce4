//! A hold whose calls are made by threads.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::blocking::Guard;
use stanchion_core::clock::Instant;
use stanchion_core::{Detached, Error, FencingToken, GuardKind, Hold, HoldBackend, Result, Ticket, Ttl};

use super::on_thread;

/// How long a thread that waits for a loss has the guard at a time.
const LOOK: Duration = Duration::from_millis(10);

/// A guard of the blocking face, until it is given up.
pub(super) struct ThreadHold<K: GuardKind> {
    store: &'static str,
    name: String,
    guard: Arc<Mutex<Option<Guard<K>>>>,
}

impl<K: GuardKind> ThreadHold<K> {
    /// Makes the asynchronous guard of a case from one of the blocking face.
    pub(super) fn guard(store: &'static str, guard: Guard<K>, weight: u32) -> stanchion_core::Guard<K> {
        let (ticket, token) = (guard.ticket(), guard.fencing_token());
        let name = guard.name().to_owned();
        let backend = Self { store, name, guard: Arc::new(Mutex::new(Some(guard))) };
        stanchion_core::Guard::new(Hold::new(Arc::new(backend), ticket, token, weight))
    }

    fn with<T>(&self, look: impl FnOnce(&Guard<K>) -> T) -> Option<T> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(look)
    }

    fn take(&self) -> Option<Guard<K>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl<K: GuardKind> HoldBackend for ThreadHold<K> {
    fn is_held(&self, _: Ticket) -> bool {
        self.with(Guard::is_held).unwrap_or(false)
    }

    fn deadline(&self, _: Ticket) -> Option<Instant> {
        self.with(Guard::deadline)?.map(Instant::from_std)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, self.store, &self.name)
    }

    async fn lost(&self, _: Ticket) {
        loop {
            let guard = Arc::clone(&self.guard);
            let looked = on_thread(move || {
                let guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
                guard.as_ref().map_or(Ok(true), |guard| guard.lost().wait_for(LOOK))
            });
            if looked.await.expect("a thread may wait") {
                return;
            }
        }
    }

    fn abandon(&self, _: Ticket) {
        drop(self.take());
    }

    async fn release(&self, _: Ticket) -> Result<()> {
        let guard = self.take();
        on_thread(move || guard.map_or_else(|| Err(Error::lost()), Guard::release)).await
    }

    async fn detach(&self, _: Ticket, _: FencingToken, lease: Ttl) -> Result<Detached> {
        let guard = self.take();
        on_thread(move || guard.map_or_else(|| Err(Error::lost()), |guard| guard.detach(lease))).await
    }
}

impl<K: GuardKind> fmt::Debug for ThreadHold<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadHold").field("name", &self.name).finish_non_exhaustive()
    }
}
