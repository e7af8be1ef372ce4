//! Attempts to connect that outlive their callers: an attempt is a task of its own. Where a login
//! takes longer than a request may, the next request finds the connection ([C28]).
//!
//! [C28]: crate::contract#c28

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::{Error, ErrorKind, Result};

/// For authors of stores: the attempts to connect that are under way, or ended while no caller
/// waited for them. An attempt runs on the runtime that will drive its connection. Dropping this
/// ends all.
pub struct Attempts<T>(Mutex<Vec<Attempt<T>>>);

/// An attempt. Dropping it ends it.
struct Attempt<T> {
    runtime: Id,
    outcome: Outcome<T>,
    task: AbortHandle,
}

/// What an attempt has made, once `ended` has no sender any more; nothing if it was aborted.
struct Outcome<T> {
    ended: watch::Receiver<()>,
    made: Arc<Mutex<Option<Result<T>>>>,
}

impl<T> Outcome<T> {
    /// Returns another handle of the same.
    fn handle(&self) -> Self {
        Self { ended: self.ended.clone(), made: Arc::clone(&self.made) }
    }

    fn is_pending(&self) -> bool {
        self.ended.has_changed().is_ok()
    }

    async fn wait(&mut self) {
        while self.ended.changed().await.is_ok() {}
    }

    fn made(&self) -> MutexGuard<'_, Option<Result<T>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Attempt<T> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection ends with the caller's runtime, and so may the attempt"
    )]
    fn begin(runtime: Id, connect: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        let (under_way, ended) = watch::channel(());
        let outcome = Outcome { ended, made: Arc::default() };
        let made = Arc::clone(&outcome.made);
        let task = tokio::spawn(async move {
            let _under_way = under_way;
            let result = connect.await;
            *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        Self { runtime, outcome, task: task.abort_handle() }
    }
}

impl<T> Drop for Attempt<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An attempt that one caller waits for. If it gives up, the attempt is left for the next one.
struct Awaited<'a, T> {
    attempt: Option<Attempt<T>>,
    attempts: &'a Attempts<T>,
}

impl<T> Drop for Awaited<'_, T> {
    fn drop(&mut self) {
        self.attempts.all().extend(self.attempt.take());
    }
}

/// Returns the runtime of the caller.
///
/// # Errors
/// `Unavailable` outside a runtime.
pub fn current_runtime() -> Result<Id> {
    let current = Handle::try_current().map(|runtime| runtime.id());
    current.map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))
}

fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the attempt to connect was ended")
}

impl<T: Send + 'static> Attempts<T> {
    /// Returns the connection that `find` finds, or else waits for the one attempt of the runtime,
    /// which all of its callers share; `connect` begins it if none is under way, and puts its
    /// connection where `find` finds it. If an attempt of another caller fails, one more is made:
    /// it may have begun long ago, under other conditions.
    ///
    /// # Errors
    /// That of the attempt; `Unavailable` outside a runtime, or if [`end`](Self::end) ended it.
    pub async fn shared<F>(&self, find: impl Fn(Id) -> Option<T>, connect: impl Fn(Id) -> F) -> Result<T>
    where
        T: Clone,
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
        let made = match copy(attempt).await {
            // Asked anew: the call may go on in another runtime.
            Err(_) if is_shared => copy(self.join(current_runtime()?, &connect).0).await,
            made => made,
        };
        // What it made is kept by whoever uses it, and by nobody else.
        self.all().retain(|attempt| attempt.outcome.is_pending());
        made
    }

    /// As [`shared`](Self::shared), and does not wait for the attempt: `None` if there is no
    /// connection yet.
    ///
    /// # Errors
    /// `Unavailable` outside a runtime.
    pub fn begun<F>(&self, find: impl Fn(Id) -> Option<T>, connect: impl Fn(Id) -> F) -> Result<Option<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let runtime = current_runtime()?;
        self.all().retain(|attempt| attempt.outcome.is_pending());
        let open = find(runtime);
        if open.is_none() {
            self.join(runtime, connect);
        }
        Ok(open)
    }

    /// Returns what the attempt of a runtime will make, and whether another caller has begun it.
    fn join<F>(&self, runtime: Id, connect: impl Fn(Id) -> F) -> (Outcome<T>, bool)
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut all = self.all();
        // The result of an earlier attempt says nothing about now.
        all.retain(|attempt| attempt.outcome.is_pending());
        if let Some(attempt) = all.iter().find(|attempt| attempt.runtime == runtime) {
            return (attempt.outcome.handle(), true);
        }
        let attempt = Attempt::begin(runtime, connect(runtime));
        let outcome = attempt.outcome.handle();
        all.push(attempt);
        (outcome, false)
    }

    /// Waits for an attempt whose connection is for this caller alone: one that an earlier caller
    /// left, or else a new one. Returns also whether it was left: then its error may not apply any
    /// more. As each caller makes one at a time, and none while one is left, there are never more
    /// attempts than callers.
    ///
    /// # Errors
    /// As [`shared`](Self::shared).
    pub async fn own<F>(&self, connect: impl FnOnce() -> F) -> (Result<T>, bool)
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let left = self.all().pop();
        let was_left = left.is_some();
        let begin = || Ok(Attempt::begin(current_runtime()?, connect()));
        let attempt = match left.map_or_else(begin, Ok) {
            Ok(attempt) => Some(attempt),
            Err(error) => return (Err(error), false),
        };
        let mut awaited = Awaited { attempt, attempts: self };
        if let Some(attempt) = &mut awaited.attempt {
            attempt.outcome.wait().await;
        }
        let made = awaited.attempt.take().and_then(|attempt| attempt.outcome.made().take());
        (made.unwrap_or_else(|| Err(ended())), was_left)
    }

    /// Takes what was made while no caller waited. Errors are left out: they may not apply any
    /// more.
    pub fn take_made(&self) -> Vec<T> {
        let mut made = Vec::new();
        self.all().retain(|Attempt { outcome, .. }| {
            let is_pending = outcome.is_pending();
            if !is_pending {
                made.extend(outcome.made().take().and_then(Result::ok));
            }
            is_pending
        });
        made
    }

    /// Ends all attempts: they may lead to a server that is to be left.
    pub fn end(&self) {
        self.all().clear();
    }
}

/// Waits for the end of a shared attempt.
async fn copy<T: Clone + Send>(mut attempt: Outcome<T>) -> Result<T> {
    attempt.wait().await;
    match &*attempt.made() {
        Some(Ok(connection)) => Ok(connection.clone()),
        Some(Err(error)) => Err(error.replicate()),
        None => Err(ended()),
    }
}

impl<T> Attempts<T> {
    fn all(&self) -> MutexGuard<'_, Vec<Attempt<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Attempts<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for Attempts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
mod tests {
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

        async fn shared(&self, attempts: &Attempts<u32>) -> Result<u32> {
            attempts.shared(|_| self.find(), |_| self.connect()).await
        }
    }

    /// Lets a caller go as far as it comes, and drops it.
    async fn give_up<T>(call: impl Future<Output = T>) {
        assert!(tokio::time::timeout(Duration::from_millis(5), call).await.is_err());
    }

    #[tokio::test]
    async fn c28_callers_of_one_runtime_share_an_attempt_that_outlives_them() {
        let (server, attempts) = (Server::new(true), Attempts::default());
        give_up(server.shared(&attempts)).await;
        give_up(server.shared(&attempts)).await;
        server.answers.add_permits(1);
        let calls = (0..3).map(|_| server.shared(&attempts));
        assert!(join_all(calls).await.into_iter().all(|made| made.unwrap() == 1));
        assert_eq!((server.begun(), server.find()), (1, Some(1)));
    }

    #[tokio::test]
    async fn c28_a_shared_attempt_that_failed_is_made_once_more() {
        let (server, attempts) = (Server::new(false), Attempts::default());
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
        let (server, attempts) = (Server::new(true), Attempts::default());
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
        let (server, attempts) = (Server::new(true), Attempts::default());
        give_up(attempts.own(|| server.connect())).await;
        server.answers.add_permits(1);
        let (made, was_left) = attempts.own(|| server.connect()).await;
        assert_eq!((made.unwrap(), was_left, server.begun()), (1, true, 1));
        give_up(attempts.own(|| server.connect())).await;
        assert!(attempts.take_made().is_empty());
        server.answers.add_permits(1);
        while server.made.lock().unwrap().len() < 2 {
            yield_now().await;
        }
        yield_now().await;
        assert_eq!(attempts.take_made(), [2]);
        server.answers.add_permits(1);
        let (made, was_left) = attempts.own(|| server.connect()).await;
        assert_eq!((made.unwrap(), was_left), (3, false));
    }
}
