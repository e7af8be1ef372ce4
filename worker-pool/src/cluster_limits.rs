//! Limits shared across processes: a token of the rate and a permit of the cluster's cap, which a
//! job needs to begin.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{ErrorKind, Limiter, Permit, Result, Semaphore, clock};

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

    /// Waits until one job may begin; retries after an error of the store that may pass. Calls
    /// `count_error` for each error. `pool` is the name of the pool.
    ///
    /// The rate token comes before the permit, so that no permit is held while other processes
    /// could use it. A token is taken once, whatever the permit costs; a call that is dropped while
    /// it waits for the permit loses the token.
    ///
    /// # Errors
    /// Those that waiting cannot mend.
    pub(crate) async fn acquire(
        &self,
        pool: &str,
        count_error: impl Fn() + Send + Sync,
    ) -> Result<Option<Permit>> {
        if let Some(rate) = &self.rate {
            until_granted(pool, &count_error, || rate.wait()).await?;
        }
        match &self.cap {
            Some(cap) => until_granted(pool, &count_error, || cap.acquire()).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Asks the store until it answers without an error that may pass.
async fn until_granted<T, F>(
    pool: &str,
    count_error: &(impl Fn() + Sync),
    ask: impl Fn() -> F + Send + Sync,
) -> Result<T>
where
    T: Send,
    F: Future<Output = Result<T>> + Send,
{
    let mut pause = MINIMUM_RETRY_PAUSE;
    loop {
        match ask().await {
            Ok(granted) => return Ok(granted),
            Err(error) if !error.kind().is_retryable() && error.kind() != ErrorKind::Lost => {
                count_error();
                return Err(error);
            }
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
