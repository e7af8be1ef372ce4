//! The work that a pool runs.

use std::future::Future;

use tokio::task::spawn_blocking;

use crate::job_context::JobContext;

/// A piece of work. Every future that is `Send` and `'static` is a job. A dedicated type has the
/// advantage that a job which never ran [comes back as that type](crate::ReturnedJob::downcast), so
/// that it can be stored for later.
///
/// # Examples
/// ```
/// use stanchion_pool::{Job, WorkerPool};
///
/// struct Invoice(u32);
///
/// impl Job for Invoice {
///     type Output = String;
///
///     async fn run(self) -> String {
///         format!("invoice {} sent", self.0)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let pool = WorkerPool::builder().workers(2).queue(10).build()?;
/// assert_eq!(pool.submit(Invoice(7)).await?.await?, "invoice 7 sent");
/// # Ok(())
/// # }
/// ```
pub trait Job: Send + 'static {
    /// The output that the job's handle returns.
    type Output: Send + 'static;

    /// Does the work. Called once, by the worker that begins the job. A job must not wait for its
    /// own pool: see [`WorkerPool`](crate::WorkerPool#inside-a-job).
    ///
    /// # Cancel safety
    /// The future is dropped at an await point when the job is cancelled, loses its permit or is
    /// aborted at the deadline of a shutdown. Put work that must not be left half-done behind a
    /// resource that checks the fencing token.
    ///
    /// # Panics
    /// A panic becomes this job's error, [`JobError::Panicked`](crate::JobError::Panicked), and
    /// costs no worker.
    fn run(self) -> impl Future<Output = Self::Output> + Send;
}

impl<F> Job for F
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;

    fn run(self) -> impl Future<Output = F::Output> + Send {
        self
    }
}

/// A closure that runs on a thread of its own. It cannot be stopped once it has begun.
pub(crate) struct Blocking<F>(pub(crate) F);

impl<F, T> Job for Blocking<F>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = T;

    async fn run(self) -> T {
        let context = JobContext::current();
        let run = move || match context {
            Some(context) => context.enter(self.0),
            None => (self.0)(),
        };
        match spawn_blocking(run).await {
            Ok(output) => output,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => std::panic::resume_unwind(payload),
                // The runtime ended before a thread was free; the worker ends with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}
