//! The interface between a store and its tests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Store;

use crate::faulty::Faults;

/// A store under test, with a state that no other harness sees.
///
/// Each case makes its own harness, so a case may use any name and may lose data without harm to
/// other cases. Harnesses may share a server if each has its own namespace.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// Connects a new client to this harness's state, like another process.
    ///
    /// # Panics
    /// If the store cannot be reached: a suite without a store must not be green.
    async fn store(&self) -> Arc<dyn Store>;

    /// Connects a client like [`store`](Self::store) whose idle state disappears after `retention`
    /// ([C25]); `None` if the store has no such option.
    ///
    /// [C25]: stanchion_core::contract#c25
    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>>;

    /// Moves the clock of the store that [`forgetful_store`](Self::forgetful_store) connects to, so
    /// that a case does not wait for it; `false` if the harness cannot, and time passes by itself.
    async fn pass(&self, time: Duration) -> bool {
        let _ = time;
        false
    }

    /// Connects a client like [`store`](Self::store), with `faults` between its engine and its
    /// steps, for the group `under_faults`: see [`faulty`](crate::faulty). `None` if no engine
    /// drives the store, or if the store has no option to wrap its steps; then that group is a
    /// known gap.
    async fn faulty_store(&self, faults: &Arc<Faults>) -> Option<Arc<dyn Store>> {
        let _ = faults;
        None
    }

    /// Returns how many keys, rows or map entries of objects the store keeps for this harness
    /// ([C25]); `None` if they cannot be counted.
    ///
    /// [C25]: stanchion_core::contract#c25
    async fn leftover(&self) -> Option<usize>;

    /// Returns a lease that is short enough to wait for its end, and long enough to be renewed in
    /// time on a busy machine: some hundred milliseconds. If sessions keep mutexes, it is the lease
    /// of all mutexes of the harness's clients.
    fn ttl(&self) -> Duration;

    /// Makes the store forget everything it keeps for this harness, as after a crash without
    /// persistence; `false` if the harness cannot do that.
    async fn lose_data(&self) -> bool;
}
