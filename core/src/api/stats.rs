//! What a store object does at the moment.

/// What a store object of this process does at the moment, as [`Store::stats`](crate::Store::stats)
/// returns.
///
/// The numbers are read one after the other while the store works: they need not fit together exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Connections that are open, of all namespaces together. On the memory store 0; `None` where the store does not know. A pool or a
    /// connection of the user's is not counted, and neither are those by which a cluster's nodes are read or send wake-ups.
    pub connections: Option<usize>,
    /// Requests that were sent to the store since it was connected, also those of the engine's renewals and polls. On the memory store 0.
    pub requests: u64,
    /// Holds of guards of this process, also those whose end is not noticed yet.
    pub holds: usize,
    /// Calls of this process that have a place in a queue.
    pub waiters: usize,
}
