//! The handle of a candidate.

use std::sync::Arc;

use super::ElectionObserver;
use super::candidate::Shared;
use crate::Mutex;

/// A handle of a candidate. Clones are handles of the same candidate.
#[derive(Clone, Debug)]
pub struct ElectionHandle {
    shared: Arc<Shared>,
    observer: ElectionObserver,
}

impl ElectionHandle {
    pub(super) fn new(shared: &Arc<Shared>, mutex: &Arc<dyn Mutex>) -> Self {
        Self { shared: Arc::clone(shared), observer: ElectionObserver::new(Arc::clone(mutex)) }
    }

    /// Returns whether this candidate leads, without I/O; `false` from the end of its lease on, as
    /// [`Guard::is_held`](crate::Guard::is_held).
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.shared.is_leading()
    }

    /// Ends this candidate's term, if it leads: the future of the term is dropped, another
    /// candidate leads, and this one stands again after its pause.
    pub fn step_down(&self) {
        self.shared.step_down();
    }

    /// Ends this candidate's term, if it leads, and its candidacy:
    /// [`Election::run`](super::Election::run) returns.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{ElectionOptions, StoreExt};
    ///
    /// let election = store.elect("jobs/leader", ElectionOptions::new(), |_| std::future::pending())?;
    /// election.handle().withdraw();
    /// election.run().await
    /// # }
    /// ```
    pub fn withdraw(&self) {
        self.shared.withdraw();
    }

    /// Returns an observer of this election.
    #[must_use]
    pub fn observe(&self) -> ElectionObserver {
        self.observer.clone()
    }
}
