//! Where requests leave together.

use super::Request;

/// Where a request leaves. Requests of one lane can leave in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The server that it leads to, by a number of the store's own: lanes of one server are away
    /// together.
    pub server: usize,
    /// One of several lanes to that server. Two of them let it work on one request while the
    /// answers to the other are on their way, and keep a request that can be held up from holding
    /// up the others.
    pub queue: usize,
}

impl Lane {
    /// Returns the lane to a server that only requests of the same kind share.
    #[must_use]
    pub fn of_kind(server: usize, request: &Request) -> Self {
        Self { server, queue: request.kind() as usize }
    }
}
