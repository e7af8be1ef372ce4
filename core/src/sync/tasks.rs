//! Tasks of the engine, as tasks of the model checker.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use shuttle::future::JoinHandle;

/// Runs a task beside the one that calls.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(task));
}

/// Some work. The checker unwinds what does not end, so that nothing is caught here.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
    Some(work.await)
}

/// Tasks that end with their owner, as tokio's.
#[derive(Debug)]
pub(crate) struct JoinSet<T> {
    tasks: Vec<JoinHandle<T>>,
}

/// A panic of a task, which ends the model's run before anybody is told.
#[derive(Debug)]
pub(crate) enum Never {}

impl Never {
    pub(crate) fn into_panic(self) -> Box<dyn Any + Send> {
        match self {}
    }
}

impl<T: Send + 'static> JoinSet<T> {
    pub(crate) fn new() -> Self {
        Self { tasks: Vec::new() }
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) {
        self.tasks.push(shuttle::future::spawn(task));
    }

    /// What the next task that ends returns; `None` if there is none. Dropped, it loses nothing.
    pub(crate) async fn join_next(&mut self) -> Option<Result<T, Never>> {
        poll_fn(|cx| {
            let polled =
                self.tasks.iter_mut().enumerate().find_map(|(index, task)| match Pin::new(task).poll(cx) {
                    Poll::Ready(done) => Some((index, done)),
                    Poll::Pending => None,
                });
            match polled {
                Some((index, done)) => {
                    drop(self.tasks.swap_remove(index));
                    Poll::Ready(Some(Ok(done.expect("nobody aborts a task but its set"))))
                }
                None if self.tasks.is_empty() => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
