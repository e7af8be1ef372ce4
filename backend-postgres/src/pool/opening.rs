//! How a request gets its connection.

use stanchion_core::clock::{Instant, now, sleep, timeout};
use stanchion_core::{Error, ErrorKind, Result};

use super::Pool;
use super::registry::CountedConnection;
use super::runtime_connections::{Idle, OpenConnection, RuntimeConnections};
use super::under_way::UnderWay;
use crate::error;
use crate::session_settings::{LOCK_WAIT, RETRY_PAUSE};
use crate::user_connection::UserConnection;

impl Pool {
    /// Returns the error of a request for which no connection was made in time.
    pub(super) fn unconnected(&self) -> Error {
        match self.user_pool() {
            None => self.connector.unconnected(),
            Some(_) => Error::new(ErrorKind::Unavailable, "the pool had no connection in time"),
        }
    }

    pub(super) async fn open(&self, local: &RuntimeConnections) -> Result<OpenConnection> {
        if let Some(pool) = self.user_pool() {
            match UserConnection::acquire(pool).await {
                // The program ends, and has closed its pool before it gave back what it holds.
                Err(error) if error.kind() == ErrorKind::Closed => {}
                acquired => return acquired.map(OpenConnection::User),
            }
        }
        local.take_made();
        let idle = local.idle().pop();
        if let Some(idle) = idle
            && let Some(open) = self.checked(idle, local).await
        {
            return Ok(open);
        }
        loop {
            match self.attempt(local).await {
                (Ok(Some((connection, _))), _) => return Ok(OpenConnection::Own(connection)),
                // A server that is slow to let somebody in may be quick to answer who is in.
                (Ok(None), _) => {
                    if let Some(idle) = self.registry.take_idle()
                        && let Some(open) = self.checked(idle, local).await
                    {
                        return Ok(open);
                    }
                }
                // The attempt began earlier: its error may not apply any more.
                (Err(_), true) => self.connector.due().await,
                (Err(error), false) if error::is_full(&error) => {
                    return self.borrow(local).await.ok_or(error);
                }
                (Err(error), false) => return Err(error),
            }
        }
    }

    /// Waits for an attempt to connect. Returns the connection, and when it was made; `None` if the
    /// server did not answer. Returns also whether an earlier caller had left the attempt.
    pub(super) async fn attempt(
        &self,
        local: &RuntimeConnections,
    ) -> (Result<Option<(CountedConnection, Instant)>>, bool) {
        let connect = || {
            let (connector, alive) = (self.connector.clone(), self.registry.counter());
            let is_direct = self.begin.is_none();
            // Boxed: the future of a login is large.
            Box::pin(async move {
                let made = connector.attempt().await?;
                Ok(made.map(|made| (CountedConnection::new(made, is_direct, &alive), now())))
            })
        };
        local.attempts.own(connect).await
    }

    /// Returns an idle connection if it can be used: it is asked first if it was idle for long, or
    /// if an answer is still to be read.
    async fn checked(&self, idle: Idle, local: &RuntimeConnections) -> Option<OpenConnection> {
        let is_fresh = idle.is_fresh();
        let Idle { connection, is_in_doubt, .. } = idle;
        if is_fresh {
            return Some(OpenConnection::Own(connection));
        }
        // The server ends what waits for a lock by then; what takes longer is not worth the wait.
        let limit = self.request_timeout / 4;
        let limit = if is_in_doubt { limit.min(LOCK_WAIT * 2) } else { limit };
        // Kept if the caller goes away during the ping.
        let mut asked = UnderWay { open: Some(OpenConnection::Own(connection)), pool: self, local };
        let pinged = match &mut asked.open {
            Some(OpenConnection::Own(connection)) => {
                timeout(limit, self.connector.ask(&mut **connection)).await
            }
            _ => Ok(Ok(None)),
        };
        if let (Ok(Ok(None)), Some(open)) = (pinged, asked.end()) {
            return Some(open);
        }
        // A broken connection: the others are likely broken, too. After a caller went away it may
        // only be a slow statement.
        if !is_in_doubt {
            local.idle().clear();
        }
        None
    }

    /// Waits for a connection of other requests, or of another runtime; `None` if there is none.
    async fn borrow(&self, local: &RuntimeConnections) -> Option<OpenConnection> {
        while self.registry.has_any() {
            let freed = self.registry.freed();
            if let Some(idle) = self.registry.take_idle() {
                if let Some(open) = self.checked(idle, local).await {
                    return Some(open);
                }
                continue;
            }
            tokio::select! {
                () = freed => {}
                () = sleep(RETRY_PAUSE) => {}
            }
        }
        None
    }
}
