//! A submission on its way into the queue.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::coop;

use crate::job_slot::{JobSlot, Queued};
use crate::kernel::{Mode, NoRoom, SubmitterState, Wakes};
use crate::shared::{PoolKernel, Shared};
use crate::{Job, Refusal, SubmitError};

/// How long a submission waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitForRoom {
    /// As long as it takes. A caller that is a job of the same pool is refused, because it could
    /// take for ever.
    WithoutLimit,
    /// Until the caller drops the submission, at its timeout.
    WithTimeout,
}

/// Queues a job if there is room and no submitter waits; never waits itself.
pub(crate) fn try_queue_job(shared: &Shared, job: &Queued) -> Result<u64, Refusal> {
    shared.with(|kernel, wakes| match kernel.admit() {
        Ok(()) => Ok(push(kernel, job, wakes)),
        Err(NoRoom::Full) => {
            kernel.counts.refused += 1;
            Err(Refusal::Full)
        }
        Err(NoRoom::Closed) => Err(Refusal::Closed),
    })
}

/// Queues a job as soon as there is room for it, in the order of arrival. If the future is dropped
/// before it is ready, the job is not queued.
pub(crate) async fn queue_job(shared: &Shared, job: &Queued, wait: WaitForRoom) -> Result<u64, Refusal> {
    // A caller that submits in a loop lets other tasks of its thread run.
    coop::consume_budget().await;
    let mut submission = Submission { shared, job, wait, waiting: None };
    poll_fn(|cx| submission.poll(cx)).await
}

/// Returns a job that was not queued to its caller.
pub(crate) fn refused<J: Job>(refusal: Refusal, slot: &JobSlot<J>) -> SubmitError<J> {
    SubmitError::new(refusal, slot.take().expect("only a worker takes a job, and none has seen this one"))
}

/// Queues a job that was admitted, and gives it its number before a worker can take it.
fn push(kernel: &mut PoolKernel, job: &Queued, wakes: &mut Wakes<Waker>) -> u64 {
    let id = kernel.push(Arc::clone(job), wakes);
    job.queued(id);
    id
}

struct Submission<'a> {
    shared: &'a Shared,
    job: &'a Queued,
    wait: WaitForRoom,
    waiting: Option<u64>,
}

impl Submission<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Refusal>> {
        let (shared, wait) = (self.shared, self.wait);
        let waiting = &mut self.waiting;
        shared.with(|kernel, wakes| {
            let admitted = match *waiting {
                None => match kernel.admit() {
                    Ok(()) => SubmitterState::Admitted,
                    Err(NoRoom::Closed) => SubmitterState::Refused,
                    Err(NoRoom::Full) => {
                        *waiting = Some(kernel.add_submitter(cx.waker().clone()));
                        SubmitterState::Waiting
                    }
                },
                Some(submitter) => kernel.poll_submitter(submitter, cx.waker().clone()),
            };
            match admitted {
                SubmitterState::Waiting if wait == WaitForRoom::WithoutLimit && shared.runs_caller() => {
                    Poll::Ready(Err(Refusal::InsideJob))
                }
                SubmitterState::Waiting => Poll::Pending,
                SubmitterState::Refused => Poll::Ready(Err(Refusal::Closed)),
                SubmitterState::Admitted => {
                    debug_assert_eq!(kernel.mode(), Mode::Open);
                    *waiting = None;
                    Poll::Ready(Ok(push(kernel, self.job, wakes)))
                }
            }
        })
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        if let Some(submitter) = self.waiting {
            self.shared.with(|kernel, wakes| kernel.remove_submitter(submitter, wakes));
        }
    }
}
