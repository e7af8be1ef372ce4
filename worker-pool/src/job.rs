//! What the pool runs.

use std::future::Future;

use tokio::task::spawn_blocking;

use crate::token::{fencing_token, with_token};

/// A piece of work. Every future that is `Send` and `'static` is one; a type of one's own has the advantage that a job
/// which never ran [comes back as that type](crate::ReturnedJob::downcast), and can be written down for later.
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
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = WorkerPool::builder().workers(2).queue(10).build()?;
/// assert_eq!(pool.submit(Invoice(7)).await?.await?, "invoice 7 sent");
/// # Ok(())
/// # }
/// ```
pub trait Job: Send + 'static {
    /// What the job's handle gives.
    type Output: Send + 'static;

    /// Does the work. It is called once, by the worker that begins the job.
    ///
    /// # Cancel safety
    /// The future is dropped at an await point when the job is cancelled, loses its permit or is aborted at the
    /// deadline of a shutdown. What must not be left half-done belongs behind a resource that checks the fencing token.
    ///
    /// # Panics
    /// A panic is this job's error, [`JobError::Panicked`](crate::JobError::Panicked), and costs no worker.
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

/// A closure for a thread of its own. Once begun it cannot be stopped.
pub(crate) struct Blocking<F>(pub(crate) F);

impl<F, T> Job for Blocking<F>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = T;

    async fn run(self) -> T {
        let token = fencing_token();
        match spawn_blocking(move || with_token(token, self.0)).await {
            Ok(output) => output,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => std::panic::resume_unwind(payload),
                // The runtime ends before a thread was free; the worker goes with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}
