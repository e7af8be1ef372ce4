//! What a store brings along to be tested.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Store;

use crate::faulty::Faults;

/// A store under test, with a state that no other harness sees.
///
/// Each case makes a harness of its own, so a case may use any name and may lose data without harm to the others.
/// Harnesses may share a server as long as each has a namespace to itself.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// A fresh client of this harness's state, as another process would have it.
    ///
    /// # Panics
    /// If the store cannot be reached: a suite without a store must not be green.
    async fn store(&self) -> Arc<dyn Store>;

    /// A client as [`store`](Self::store) gives, for which idle state disappears after `retention` (C25); `None` if the
    /// store has no such option.
    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>>;

    /// A client as [`store`](Self::store) gives, with these faults between its engine and its steps, for the group
    /// `under_faults`: see [`faulty`](crate::faulty). `None` if no engine drives the store, or if the store cannot be asked
    /// to put them there; then that group is a known gap.
    async fn faulty_store(&self, faults: &Arc<Faults>) -> Option<Arc<dyn Store>> {
        let _ = faults;
        None
    }

    /// How many keys, rows or map entries of objects the store keeps for this harness (C25); `None` if it cannot be
    /// counted.
    async fn leftover(&self) -> Option<usize>;

    /// A lease short enough to wait for it to end, and long enough to be renewed in time on a busy machine: some
    /// hundred milliseconds. Where sessions keep mutexes, it is the lease of all mutexes of its clients.
    fn ttl(&self) -> Duration;

    /// Makes the store forget everything it keeps for this harness, as after a crash without persistence; `false` if
    /// that is beyond this harness.
    async fn lose_data(&self) -> bool;
}
