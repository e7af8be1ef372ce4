//! Attempts to connect that outlive their callers: an attempt is a task of its own. Where a login
//! takes longer than a request may, the next request finds the connection ([C28]).
//!
//! [C28]: crate::contract#c28

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::{JoinHandle, unconstrained};

use crate::{Error, ErrorKind, Result};

/// An attempt under way, on the runtime that will drive its connection. Dropping it ends it.
struct Attempt<T>(JoinHandle<Result<T>>);

impl<T: Send + 'static> Attempt<T> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection ends with the caller's runtime, and so may the attempt"
    )]
    fn begin(connect: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(tokio::spawn(connect))
    }

    fn is_under_way(&self) -> bool {
        !self.0.is_finished()
    }

    /// Waits for the end. After a wait that was dropped, another may follow.
    async fn end(&mut self) -> Result<T> {
        (&mut self.0).await.map_err(|error| ended().with_source(error))?
    }
}

impl<T> Drop for Attempt<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the attempt to connect was ended")
}

/// Returns the runtime of the caller.
///
/// # Errors
/// `Unavailable` outside a runtime.
pub fn current_runtime() -> Result<Id> {
    let current = Handle::try_current().map(|runtime| runtime.id());
    current.map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))
}

/// Attempts to make a connection that many callers share: one at a time for each runtime. Dropping
/// this ends them.
pub struct SharedAttempts<T>(Mutex<Vec<SharedAttempt<T>>>);

struct SharedAttempt<T> {
    runtime: Id,
    made: watch::Receiver<Option<Result<T>>>,
    task: Attempt<()>,
}

impl<T: Clone + Send + Sync + 'static> SharedAttempts<T> {
    /// Returns the connection that `find` finds or else that of the runtime's attempt, which
    /// `connect` begins if none is under way. The attempt goes on if the caller gives up; `connect`
    /// puts its connection where `find` finds it. An attempt of another caller may have begun long
    /// ago, under other conditions: if it fails, one more is made.
    ///
    /// # Errors
    /// That of the attempt; `Unavailable` outside a runtime, or if [`end`](Self::end) ended the
    /// attempt.
    pub async fn connection<F>(&self, find: impl Fn(Id) -> Option<T>, connect: impl Fn(Id) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let runtime = current_runtime()?;
        if let Some(open) = find(runtime) {
            return Ok(open);
        }
        let (attempt, is_shared) = self.join(runtime, &connect);
        // The attempt of another caller may have ended meanwhile.
        if let Some(open) = find(runtime) {
            return Ok(open);
        }
        match end(attempt).await {
            // Asked anew: the call may go on in another runtime.
            Err(_) if is_shared => end(self.join(current_runtime()?, &connect).0).await,
            made => made,
        }
    }

    /// Ends all attempts: they may lead to a server that is to be left.
    pub fn end(&self) {
        self.all().clear();
    }

    /// Returns the attempt of a runtime, and whether another caller has begun it.
    fn join<F>(&self, runtime: Id, connect: impl Fn(Id) -> F) -> (watch::Receiver<Option<Result<T>>>, bool)
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut all = self.all();
        // The result of an earlier attempt says nothing about now.
        all.retain(|attempt| attempt.made.borrow().is_none() && attempt.task.is_under_way());
        if let Some(attempt) = all.iter().find(|attempt| attempt.runtime == runtime) {
            return (attempt.made.clone(), true);
        }
        let (sender, made) = watch::channel(None);
        let connecting = connect(runtime);
        let task = Attempt::begin(async move {
            drop(sender.send(Some(connecting.await)));
            Ok(())
        });
        all.push(SharedAttempt { runtime, made: made.clone(), task });
        (made, false)
    }

    fn all(&self) -> MutexGuard<'_, Vec<SharedAttempt<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the end of a shared attempt.
async fn end<T: Clone + Send + Sync>(mut attempt: watch::Receiver<Option<Result<T>>>) -> Result<T> {
    let made = attempt.wait_for(Option::is_some).await.map_err(|_| ended())?;
    match &*made {
        Some(Ok(connection)) => Ok(connection.clone()),
        Some(Err(error)) => Err(error.replicate()),
        None => Err(ended()),
    }
}

impl<T> Default for SharedAttempts<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for SharedAttempts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedAttempts").finish_non_exhaustive()
    }
}

/// Attempts of one runtime that make a connection for one caller each. That of a caller that gave
/// up is left for the next one. Dropping this ends those that are left.
pub struct OwnAttempts<T>(Mutex<Vec<Attempt<T>>>);

/// An attempt that a caller waits for.
struct Awaited<'a, T> {
    attempt: Option<Attempt<T>>,
    left: &'a OwnAttempts<T>,
}

impl<T> Drop for Awaited<'_, T> {
    fn drop(&mut self) {
        self.left.all().extend(self.attempt.take());
    }
}

impl<T: Send + 'static> OwnAttempts<T> {
    /// Waits for an attempt: one that is left, or else a new one. Returns also whether it was left:
    /// then it may have begun long ago, and its error may not apply any more. Each caller makes one
    /// at a time, and none while one is left, so that there are never more of them than callers.
    pub async fn connection<F>(&self, connect: impl FnOnce() -> F) -> (Result<T>, bool)
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let left = self.all().pop();
        let was_left = left.is_some();
        let attempt = left.unwrap_or_else(|| Attempt::begin(connect()));
        let mut awaited = Awaited { attempt: Some(attempt), left: self };
        let made = match &mut awaited.attempt {
            Some(attempt) => attempt.end().await,
            None => Err(ended()),
        };
        awaited.attempt = None;
        (made, was_left)
    }

    /// Takes what was made while no caller waited. An error is left out: it may not apply any more.
    pub fn take_made(&self) -> Vec<T> {
        let mut all = self.all();
        let (under_way, ended) = std::mem::take(&mut *all).into_iter().partition(Attempt::is_under_way);
        *all = under_way;
        drop(all);
        // The runtime may let a task that has done much wait, though the attempt has ended.
        let made = |mut attempt: Attempt<T>| unconstrained(attempt.end()).now_or_never()?.ok();
        ended.into_iter().filter_map(made).collect()
    }
}

impl<T> OwnAttempts<T> {
    fn all(&self) -> MutexGuard<'_, Vec<Attempt<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for OwnAttempts<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for OwnAttempts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnAttempts").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::sync::Semaphore;
    use tokio::task::yield_now;

    use super::*;

    /// A server that answers one attempt for each permit, with the number of the attempt.
    struct Server {
        begun: Arc<AtomicU32>,
        answers: Arc<Semaphore>,
        made: Arc<Mutex<Vec<u32>>>,
        works: bool,
    }

    impl Server {
        fn new(works: bool) -> Self {
            let (begun, answers) = (Arc::default(), Arc::new(Semaphore::new(0)));
            Self { begun, answers, made: Arc::default(), works }
        }

        fn begun(&self) -> u32 {
            self.begun.load(Ordering::Relaxed)
        }

        fn find(&self) -> Option<u32> {
            self.made.lock().unwrap().first().copied()
        }

        fn connect(&self) -> impl Future<Output = Result<u32>> + Send + use<> {
            let (answers, made, works) = (Arc::clone(&self.answers), Arc::clone(&self.made), self.works);
            let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
            async move {
                answers.acquire().await.unwrap().forget();
                if !works {
                    return Err(Error::new(ErrorKind::Unavailable, format!("refused {number}")));
                }
                made.lock().unwrap().push(number);
                Ok(number)
            }
        }

        async fn shared(&self, attempts: &SharedAttempts<u32>) -> Result<u32> {
            attempts.connection(|_| self.find(), |_| self.connect()).await
        }
    }

    /// Lets a caller go as far as it comes, and drops it.
    async fn give_up<T>(call: impl Future<Output = T>) {
        assert!(tokio::time::timeout(Duration::from_millis(5), call).await.is_err());
    }

    #[tokio::test]
    async fn c28_callers_of_one_runtime_share_an_attempt_that_outlives_them() {
        let (server, attempts) = (Server::new(true), SharedAttempts::default());
        give_up(server.shared(&attempts)).await;
        give_up(server.shared(&attempts)).await;
        server.answers.add_permits(1);
        let calls = (0..3).map(|_| server.shared(&attempts));
        assert!(join_all(calls).await.into_iter().all(|made| made.unwrap() == 1));
        assert_eq!((server.begun(), server.find()), (1, Some(1)));
    }

    #[tokio::test]
    async fn c28_a_shared_attempt_that_failed_is_made_once_more() {
        let (server, attempts) = (Server::new(false), SharedAttempts::default());
        give_up(server.shared(&attempts)).await;
        server.answers.add_permits(2);
        let error = server.shared(&attempts).await.unwrap_err();
        assert!(error.to_string().contains("refused 2"), "{error}");
        // Whoever began an attempt has its error at once.
        server.answers.add_permits(1);
        assert!(server.shared(&attempts).await.unwrap_err().to_string().contains("refused 3"));
    }

    #[tokio::test]
    async fn attempts_to_a_server_that_is_left_are_ended() {
        let (server, attempts) = (Server::new(true), SharedAttempts::default());
        let call = server.shared(&attempts);
        let (error, ()) = tokio::join!(call, async {
            yield_now().await;
            attempts.end();
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
        server.answers.add_permits(1);
        yield_now().await;
        assert_eq!(server.find(), None);
    }

    #[tokio::test]
    async fn c28_the_attempt_of_a_caller_that_gave_up_is_left_for_the_next_one() {
        let (server, attempts) = (Server::new(true), OwnAttempts::default());
        give_up(attempts.connection(|| server.connect())).await;
        server.answers.add_permits(1);
        let (made, was_left) = attempts.connection(|| server.connect()).await;
        assert_eq!((made.unwrap(), was_left, server.begun()), (1, true, 1));
        give_up(attempts.connection(|| server.connect())).await;
        assert!(attempts.take_made().is_empty());
        server.answers.add_permits(1);
        while server.made.lock().unwrap().len() < 2 {
            yield_now().await;
        }
        yield_now().await;
        assert_eq!(attempts.take_made(), [2]);
        server.answers.add_permits(1);
        let (made, was_left) = attempts.connection(|| server.connect()).await;
        assert_eq!((made.unwrap(), was_left), (3, false));
    }
}
