//! The figures of a store object.

/// The present figures of a store object of this process, returned by
/// [`Store::stats`](crate::Store::stats).
///
/// The numbers are read one after the other while the store works: they need not fit together
/// exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Connections that are open, of all namespaces together. On the memory store 0; `None` where
    /// the store does not know. Not counted: a pool or connection of the user's, and the
    /// connections by which a cluster's nodes are read or send wake-ups.
    pub connections: Option<usize>,
    /// Requests that were sent to the store since it was connected, renewals and polls of the
    /// engine included. On the memory store 0.
    pub requests: u64,
    /// Holds of guards of this process, also holds that have ended without this process knowing it
    /// yet.
    pub holds: usize,
    /// Calls of this process that have a place in a queue.
    pub waiters: usize,
}
