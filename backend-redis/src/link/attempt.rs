//! Attempts to connect. An attempt is a task of its own: it goes on when the request that began it gives up. Where a login
//! takes longer than a request may, the next request finds its connection.

use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::Id;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{Connections, Driver, Endpoint, Open};

type Made = Result<(MultiplexedConnection, Driver)>;

/// The attempts under way, one for each runtime. Dropping this ends them.
#[derive(Default)]
pub(super) struct Attempts(Mutex<Vec<Attempt>>);

/// An attempt of the runtime that will drive its connection. The connection is kept also if no caller waits for it.
struct Attempt {
    runtime: Id,
    made: watch::Receiver<Option<Made>>,
    task: AbortHandle,
}

/// Waits for an attempt.
pub(super) struct Awaited {
    made: watch::Receiver<Option<Made>>,
    /// Another caller began the attempt, maybe long ago.
    pub(super) is_shared: bool,
}

impl Attempts {
    /// Returns the attempt of a runtime: the one that is under way, or else a new one.
    pub(super) fn of(&self, runtime: Id, endpoint: &Endpoint, connections: &Arc<Connections>) -> Awaited {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The result of an earlier attempt says nothing about now.
        all.retain(Attempt::is_under_way);
        if let Some(attempt) = all.iter().find(|attempt| attempt.runtime == runtime) {
            return Awaited { made: attempt.made.clone(), is_shared: true };
        }
        let attempt = Attempt::begin(runtime, endpoint, connections);
        let made = attempt.made.clone();
        all.push(attempt);
        Awaited { made, is_shared: false }
    }
}

impl Attempts {
    /// Ends them all: they may lead to a server that is to be left.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Attempt {
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection ends with the caller's runtime, and so may the attempt"
    )]
    fn begin(runtime: Id, endpoint: &Endpoint, connections: &Arc<Connections>) -> Self {
        let (endpoint, connections) = (endpoint.clone(), Arc::clone(connections));
        let (sender, made) = watch::channel(None);
        let task = tokio::spawn(async move {
            let made = endpoint.connect().await;
            if let Ok((connection, driver)) = &made {
                connections.keep(Open { runtime, connection: connection.clone(), driver: driver.clone() });
            }
            drop(sender.send(Some(made)));
        });
        Self { runtime, made, task: task.abort_handle() }
    }

    fn is_under_way(&self) -> bool {
        self.made.borrow().is_none() && !self.task.is_finished()
    }
}

impl Awaited {
    /// Waits for the end of the attempt.
    ///
    /// # Errors
    /// If no connection was made. Nothing was sent.
    pub(super) async fn end(mut self) -> Made {
        let gone = || Error::new(ErrorKind::Unavailable, "the attempt to connect was ended");
        let made = self.made.wait_for(Option::is_some).await.map_err(|_| gone())?;
        match &*made {
            Some(Ok((connection, driver))) => Ok((connection.clone(), driver.clone())),
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
