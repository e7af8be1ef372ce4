//! A submission on its way into the queue.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::Refusal;
use crate::group::GroupState;
use crate::kernel::{Mode, NoPlace, TurnState};
use crate::shared::{Queued, Shared};

/// Queues a job if there is room and nobody waits; never waits itself.
pub(crate) fn enter_now(shared: &Shared, job: &Queued) -> Result<u64, Refusal> {
    shared.with(|kernel, wakes| match kernel.admit() {
        Ok(()) => Ok(kernel.push(Arc::clone(job), wakes)),
        Err(NoPlace::Full) => {
            kernel.counts.refused += 1;
            Err(Refusal::Full)
        }
        Err(NoPlace::Closed) => Err(Refusal::Closed),
    })
}

/// Queues a job as soon as its turn comes. Dropped before it is ready, it has not queued it.
pub(crate) async fn enter(shared: &Shared, job: &Queued, group: Option<&GroupState>) -> Result<u64, Refusal> {
    let mut turn = Turn { shared, job, group, waiting: None };
    poll_fn(|cx| turn.poll(cx)).await
}

struct Turn<'a> {
    shared: &'a Shared,
    job: &'a Queued,
    group: Option<&'a GroupState>,
    waiting: Option<u64>,
}

impl Turn<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Refusal>> {
        if self.group.is_some_and(|group| group.has_failed(cx.waker())) {
            return Poll::Ready(Err(Refusal::GroupFailed));
        }
        let waiting = &mut self.waiting;
        self.shared.with(|kernel, wakes| {
            let admitted = match *waiting {
                None => match kernel.admit() {
                    Ok(()) => TurnState::Admitted,
                    Err(NoPlace::Closed) => TurnState::Refused,
                    Err(NoPlace::Full) => {
                        *waiting = Some(kernel.line_up(cx.waker().clone()));
                        TurnState::Waiting
                    }
                },
                Some(turn) => kernel.look(turn, cx.waker().clone()),
            };
            match admitted {
                TurnState::Waiting => Poll::Pending,
                TurnState::Refused => Poll::Ready(Err(Refusal::Closed)),
                TurnState::Admitted => {
                    debug_assert_eq!(kernel.mode(), Mode::Open);
                    *waiting = None;
                    Poll::Ready(Ok(kernel.push(Arc::clone(self.job), wakes)))
                }
            }
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.waiting {
            self.shared.with(|kernel, wakes| kernel.forget(turn, wakes));
        }
    }
}
