//! A submission on its way into the queue.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::group_state::GroupState;
use crate::job_slot::{JobSlot, Queued};
use crate::kernel::{Mode, NoRoom, SubmitterState};
use crate::shared::Shared;
use crate::{Job, Refusal, SubmitError};

/// Queues a job if there is room and no submitter waits; never waits itself.
pub(crate) fn try_queue_job(shared: &Shared, job: &Queued) -> Result<u64, Refusal> {
    shared.with(|kernel, wakes| match kernel.admit() {
        Ok(()) => Ok(kernel.push(Arc::clone(job), wakes)),
        Err(NoRoom::Full) => {
            kernel.counts.refused += 1;
            Err(Refusal::Full)
        }
        Err(NoRoom::Closed) => Err(Refusal::Closed),
    })
}

/// Queues a job as soon as there is room for it, in the order of arrival. If the future is dropped before it is ready,
/// the job is not queued.
pub(crate) async fn queue_job(
    shared: &Shared,
    job: &Queued,
    group: Option<&GroupState>,
) -> Result<u64, Refusal> {
    let mut submission = Submission { shared, job, group, waiting: None };
    poll_fn(|cx| submission.poll(cx)).await
}

/// Returns a job that was not queued to its caller.
pub(crate) fn refused<J: Job>(refusal: Refusal, slot: &JobSlot<J>) -> SubmitError<J> {
    SubmitError::new(refusal, slot.take().expect("only a worker takes a job, and none has seen this one"))
}

struct Submission<'a> {
    shared: &'a Shared,
    job: &'a Queued,
    group: Option<&'a GroupState>,
    waiting: Option<u64>,
}

impl Submission<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Refusal>> {
        if self.group.is_some_and(|group| group.has_failed(cx.waker())) {
            return Poll::Ready(Err(Refusal::GroupFailed));
        }
        let waiting = &mut self.waiting;
        self.shared.with(|kernel, wakes| {
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
                SubmitterState::Waiting => Poll::Pending,
                SubmitterState::Refused => Poll::Ready(Err(Refusal::Closed)),
                SubmitterState::Admitted => {
                    debug_assert_eq!(kernel.mode(), Mode::Open);
                    *waiting = None;
                    Poll::Ready(Ok(kernel.push(Arc::clone(self.job), wakes)))
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
