//! Requests under way.

use super::Pool;
use super::runtime_connections::{Idle, OpenConnection, RuntimeConnections};

/// A connection with a request under way. If the caller's future is dropped, a connection of the
/// pool's own is kept. The rest of the answer is read before its next use: the server ends the
/// statement within its own timeout.
pub(super) struct UnderWay<'a> {
    pub(super) open: Option<OpenConnection>,
    pub(super) pool: &'a Pool,
    pub(super) local: &'a RuntimeConnections,
}

impl UnderWay<'_> {
    /// Returns the connection, whose request has ended.
    pub(super) fn end(mut self) -> Option<OpenConnection> {
        self.open.take()
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        // A transaction that was begun and not ended is closed with its connection: the server
        // rolls it back.
        if let (Some(OpenConnection::Own(connection)), None) = (self.open.take(), &self.pool.begin) {
            self.local.keep(Idle::in_doubt(connection));
        }
    }
}
