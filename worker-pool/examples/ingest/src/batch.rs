//! Payloads that become one object.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::collection::Collection;

/// Payloads that are stored as one object.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) lines: Vec<u8>,
    pub(crate) payloads: u64,
    /// Keeps the room of the requests until the batch is stored.
    room: Option<OwnedSemaphorePermit>,
    opened: Option<Instant>,
}

impl Batch {
    pub(crate) fn push(&mut self, collection: &Collection, room: OwnedSemaphorePermit) {
        self.lines.extend_from_slice(collection.lines());
        self.payloads += collection.payloads();
        self.opened.get_or_insert_with(Instant::now);
        match &mut self.room {
            Some(held) => held.merge(room),
            None => self.room = Some(room),
        }
    }

    pub(crate) fn is_older_than(&self, age: Duration) -> bool {
        self.opened.is_some_and(|opened| opened.elapsed() >= age)
    }
}
