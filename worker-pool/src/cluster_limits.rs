//! Limits shared across processes: a token of the rate and a permit of the cluster's cap, which a
//! job needs to begin.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::observe::events::Seldom;
use stanchion_core::{Error, ErrorKind, Limiter, Permit, Result, Semaphore, clock};

/// Minimum pause after an error of the store; each further error doubles it.
const MINIMUM_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause between attempts.
const MAXIMUM_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Minimum time between two warnings of errors that waiting cannot mend: there is one for each job.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct ClusterLimits {
    cap: Option<Arc<dyn Semaphore>>,
    rate: Option<Arc<dyn Limiter>>,
    /// The warning of an error that waiting cannot mend.
    warning: Seldom,
}

impl ClusterLimits {
    pub(crate) fn new(cap: Option<Arc<dyn Semaphore>>, rate: Option<Arc<dyn Limiter>>) -> Option<Self> {
        (cap.is_some() || rate.is_some()).then(|| Self { cap, rate, warning: Seldom::new(BETWEEN_WARNINGS) })
    }

    /// Waits until one job may begin; retries after an error of the store that may pass. Calls
    /// `count_error` for each error. `pool` is the name of the pool. `is_paid`: a rate token is
    /// there already; it stays where the cap has an error.
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
        is_paid: &mut bool,
        count_error: impl Fn() + Send + Sync,
    ) -> Result<Option<Permit>> {
        let granted = self.granted(pool, is_paid, count_error).await;
        match &granted {
            Ok(_) => *is_paid = false,
            Err(error) => self.warn(pool, error),
        }
        granted
    }

    async fn granted(
        &self,
        pool: &str,
        is_paid: &mut bool,
        count_error: impl Fn() + Send + Sync,
    ) -> Result<Option<Permit>> {
        if let (Some(rate), false) = (&self.rate, *is_paid) {
            until_granted(pool, &count_error, || rate.wait()).await?;
            *is_paid = true;
        }
        match &self.cap {
            Some(cap) => until_granted(pool, &count_error, || cap.acquire()).await.map(Some),
            None => Ok(None),
        }
    }

    fn warn(&self, pool: &str, error: &Error) {
        if self.warning.is_due() {
            tracing::warn!(%pool, %error, "the store refuses a permit or a rate token for good; jobs end with it");
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
