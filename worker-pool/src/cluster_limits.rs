//! Limits shared across processes: a permit of the cluster's cap and a token of the rate, which a job needs to begin.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Error, Limiter, Permit, Result, Semaphore, clock};

/// Minimum pause after an error of the store; each further error doubles it.
const MINIMUM_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause between attempts.
const MAXIMUM_RETRY_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct ClusterLimits {
    cap: Option<Arc<dyn Semaphore>>,
    rate: Option<Arc<dyn Limiter>>,
}

impl ClusterLimits {
    pub(crate) fn new(cap: Option<Arc<dyn Semaphore>>, rate: Option<Arc<dyn Limiter>>) -> Option<Self> {
        (cap.is_some() || rate.is_some()).then_some(Self { cap, rate })
    }

    /// Waits until one job may begin; retries after every error of the store, and calls `count_error` for it. `pool` is
    /// the name of the pool.
    pub(crate) async fn acquire(&self, pool: &str, count_error: impl Fn() + Send) -> Option<Permit> {
        let mut pause = MINIMUM_RETRY_PAUSE;
        loop {
            match self.acquire_once().await {
                Ok(permit) => return permit,
                Err(error) => {
                    count_error();
                    tracing::warn!(
                        %pool, %error, pause_ms = pause.as_millis(),
                        "the store failed to grant a permit or a rate token; jobs wait"
                    );
                    clock::sleep(pause).await;
                    pause = (pause * 2).min(MAXIMUM_RETRY_PAUSE);
                }
            }
        }
    }

    /// Acquires the permit before the rate token. In the other order, jobs with old tokens could begin together once
    /// permits come free, and exceed the rate.
    async fn acquire_once(&self) -> Result<Option<Permit>> {
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
