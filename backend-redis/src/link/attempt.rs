//! Attempts to connect. They outlive who began them, and depend on nobody who waits for them: where a login takes longer
//! than a request may, the next request finds its connection.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::Id;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{Connections, Endpoint, Open};

type Made = Result<(MultiplexedConnection, Weak<()>)>;

/// The attempts under way, one for each runtime. Dropped, they end.
#[derive(Default)]
pub(super) struct Attempts(Mutex<Vec<Attempt>>);

/// An attempt of the runtime that will drive its connection, which is kept there also when nobody waits for it.
struct Attempt {
    runtime: Id,
    made: watch::Receiver<Option<Made>>,
    task: AbortHandle,
}

/// Where an attempt is waited for.
pub(super) struct Awaited {
    made: watch::Receiver<Option<Made>>,
    /// Somebody else began it, maybe long ago.
    pub(super) is_anothers: bool,
}

impl Attempts {
    /// The attempt of a runtime: the one that is under way, or else a new one.
    pub(super) fn of(
        &self,
        runtime: Id,
        endpoint: &Endpoint,
        connections: &Arc<Connections>,
        limit: Duration,
    ) -> Awaited {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has ended tells those who come later nothing.
        all.retain(Attempt::is_under_way);
        if let Some(attempt) = all.iter().find(|attempt| attempt.runtime == runtime) {
            return Awaited { made: attempt.made.clone(), is_anothers: true };
        }
        let attempt = Attempt::begin(runtime, endpoint, connections, limit);
        let made = attempt.made.clone();
        all.push(attempt);
        Awaited { made, is_anothers: false }
    }
}

impl Attempt {
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection goes with the caller's runtime, and so may this"
    )]
    fn begin(runtime: Id, endpoint: &Endpoint, connections: &Arc<Connections>, limit: Duration) -> Self {
        let (endpoint, connections) = (endpoint.clone(), Arc::clone(connections));
        let (tell, made) = watch::channel(None);
        let task = tokio::spawn(async move {
            let silent = |_| Error::new(ErrorKind::Unavailable, "the server does not answer");
            let made = timeout(limit, endpoint.connect()).await.map_err(silent).and_then(|made| made);
            if let Ok((connection, driver)) = &made {
                connections.keep(Open {
                    runtime,
                    connection: connection.clone(),
                    driver: Weak::clone(driver),
                });
            }
            drop(tell.send(Some(made)));
        });
        Self { runtime, made, task: task.abort_handle() }
    }

    fn is_under_way(&self) -> bool {
        self.made.borrow().is_none() && !self.task.is_finished()
    }
}

impl Awaited {
    /// Waits for its end.
    ///
    /// # Errors
    /// Why there is no connection. Nothing was sent.
    pub(super) async fn end(mut self) -> Made {
        let gone = || Error::new(ErrorKind::Unavailable, "the runtime that connected has ended");
        let made = self.made.wait_for(Option::is_some).await.map_err(|_| gone())?;
        match &*made {
            Some(Ok((connection, driver))) => Ok((connection.clone(), Weak::clone(driver))),
            Some(Err(error)) => Err(error.replicate()),
            None => Err(gone()),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.task.abort();
    }
}
