//! An attempt to connect. It outlives who began it: where a login takes longer than a request may, the next request
//! finds its connection.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::Id;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{Connections, Endpoint, Open};

/// An attempt of the runtime that will drive its connection, which is kept there also when nobody waits for it. The
/// attempt ends by itself; dropped, at once.
pub(super) struct Attempt {
    runtime: Id,
    made: oneshot::Receiver<Result<(MultiplexedConnection, Weak<()>)>>,
    task: AbortHandle,
}

impl Attempt {
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection goes with the caller's runtime, and so may this"
    )]
    pub(super) fn begin(
        runtime: Id,
        endpoint: &Endpoint,
        connections: &Arc<Connections>,
        limit: Duration,
    ) -> Self {
        let (endpoint, connections) = (endpoint.clone(), Arc::clone(connections));
        let (tell, made) = oneshot::channel();
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
            drop(tell.send(made));
        });
        Self { runtime, made, task: task.abort_handle() }
    }

    /// Whether a caller of that runtime can wait for it.
    pub(super) fn is_under_way(&self, runtime: Id) -> bool {
        self.runtime == runtime && !self.task.is_finished()
    }

    /// Waits for its end. A wait that is dropped can be taken up again.
    ///
    /// # Errors
    /// Why there is no connection. Nothing was sent.
    pub(super) async fn end(&mut self) -> Result<(MultiplexedConnection, Weak<()>)> {
        let ended = |error| Error::new(ErrorKind::Unavailable, "its runtime has ended").with_source(error);
        (&mut self.made).await.map_err(ended)?
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.task.abort();
    }
}
