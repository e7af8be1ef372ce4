//! A job from its submission to its end, and the slot for its result.

use std::any::{Any, TypeId, type_name};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tracing::Span;

use crate::membership::Membership;
use crate::{Job, JobError};

/// A running job; its output goes into its slot.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

type Ended<T> = Result<T, JobError>;

/// The view of a job that the queue and the workers have.
pub(crate) trait Run: Send + Sync {
    /// Gives the job its number. Called once, under the lock of the pool's state, before a worker
    /// can take the job.
    fn queued(&self, id: u64);

    /// Begins the job. Returns `None` if it has begun or was taken out before.
    fn start(self: Arc<Self>) -> Option<Running>;

    /// Stores an error as the result.
    fn fail(&self, error: JobError);

    /// Makes the result visible to the job's handle, or gives it to the job's group. Called once,
    /// as the last step.
    fn announce(&self);

    /// Returns whether the job ends when its future is dropped.
    fn is_stoppable(&self) -> bool;

    /// Returns the name of the job's type.
    fn kind(&self) -> &'static str;

    /// Returns the span in which the job was submitted.
    fn origin(&self) -> &Span;

    fn job_type(&self) -> TypeId;

    /// Takes the job itself, if it has not begun.
    fn take_any(&self) -> Option<Box<dyn Any + Send>>;
}

/// A job in the queue or at a worker.
pub(crate) type Queued = Arc<dyn Run>;

/// The view of a job that its handle has.
pub(crate) trait Outcome<T>: Send + Sync {
    fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<Ended<T>>;

    fn is_ended(&self) -> bool;
}

pub(crate) struct JobSlot<J: Job> {
    stoppable: bool,
    origin: Span,
    group: Option<Membership<J::Output>>,
    state: Mutex<State<J>>,
}

struct State<J: Job> {
    job: Option<J>,
    result: Option<Ended<J::Output>>,
    announced: bool,
    waker: Option<Waker>,
}

impl<J: Job> JobSlot<J> {
    pub(crate) fn new(job: J, stoppable: bool, group: Option<Membership<J::Output>>) -> Arc<Self> {
        let state = State { job: Some(job), result: None, announced: false, waker: None };
        Arc::new(Self { stoppable, origin: Span::current(), group, state: Mutex::new(state) })
    }

    /// Takes the job, if it has not begun.
    pub(crate) fn take(&self) -> Option<J> {
        self.state().job.take()
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the result, and drops the previous one once the lock is free.
    fn put(&self, result: Ended<J::Output>) {
        let before = self.state().result.replace(result);
        drop(before);
    }
}

impl<J: Job> Run for JobSlot<J> {
    fn queued(&self, id: u64) {
        if let Some(group) = &self.group {
            group.queued(id);
        }
    }

    fn start(self: Arc<Self>) -> Option<Running> {
        let job = self.take()?;
        Some(Box::pin(async move {
            let output = job.run().await;
            self.put(Ok(output));
        }))
    }

    fn fail(&self, error: JobError) {
        self.put(Err(error));
    }

    fn announce(&self) {
        let (result, waker, unbegun) = {
            let mut state = self.state();
            state.announced = true;
            let result = if self.group.is_some() { state.result.take() } else { None };
            (result, state.waker.take(), state.job.take())
        };
        if let (Some(group), Some(result)) = (&self.group, result) {
            group.end(result);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        drop(unbegun);
    }

    fn is_stoppable(&self) -> bool {
        self.stoppable
    }

    fn kind(&self) -> &'static str {
        type_name::<J>()
    }

    fn origin(&self) -> &Span {
        &self.origin
    }

    fn job_type(&self) -> TypeId {
        TypeId::of::<J>()
    }

    fn take_any(&self) -> Option<Box<dyn Any + Send>> {
        self.take().map(|job| Box::new(job) as Box<dyn Any + Send>)
    }
}

impl<J: Job> Outcome<J::Output> for JobSlot<J> {
    fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<Ended<J::Output>> {
        let mut state = self.state();
        if !state.announced {
            if state.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                drop(state);
                panic!("a job's handle was polled after it had returned its result")
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.state().announced
    }
}
