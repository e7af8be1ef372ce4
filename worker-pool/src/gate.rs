//! What a job needs before it begins: a permit of the cluster's cap, and its turn at the rate.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Error, Limiter, Permit, Result, Semaphore, clock};

use crate::shared::Shared;

/// The pause after a store's first error; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Gate {
    cap: Option<Arc<dyn Semaphore>>,
    rate: Option<Arc<dyn Limiter>>,
}

impl Gate {
    pub(crate) fn new(cap: Option<Arc<dyn Semaphore>>, rate: Option<Arc<dyn Limiter>>) -> Option<Self> {
        (cap.is_some() || rate.is_some()).then_some(Self { cap, rate })
    }

    /// Waits until one job may begin, through every error of the store.
    pub(crate) async fn pass(&self, shared: &Shared) -> Option<Permit> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.ask().await {
                Ok(permit) => return permit,
                Err(error) => {
                    shared.with(|kernel, _| kernel.counts.store_errors += 1);
                    tracing::warn!(
                        pool = %shared.name, %error, pause_ms = pause.as_millis(),
                        "the store refuses permits or turns; jobs wait"
                    );
                    clock::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// The permit comes first: whoever waited for one after its turn would begin together with later turns, and the
    /// rate would be exceeded.
    async fn ask(&self) -> Result<Option<Permit>> {
        let permit = match &self.cap {
            Some(cap) => Some(cap.acquire().await?),
            None => None,
        };
        if let Some(rate) = &self.rate {
            match &permit {
                Some(permit) => permit.run(rate.wait()).await??,
                None => rate.wait().await?,
            }
        }
        if permit.as_ref().is_some_and(|permit| !permit.is_held()) {
            return Err(Error::lost());
        }
        Ok(permit)
    }
}
