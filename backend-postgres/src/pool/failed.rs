//! Failures of requests.

use stanchion_core::{Error, ErrorKind};

use crate::error;

/// The error of a request, and the state of its connection.
pub(super) struct Failed {
    pub(super) error: Error,
    /// Whether the connection can be used again.
    pub(super) intact: bool,
}

impl Failed {
    /// The failure of a statement that may have been executed.
    pub(super) fn sent(error: sqlx::Error) -> Self {
        let intact = error::leaves_connection(&error);
        Self { error: error::of_request(error), intact }
    }

    /// The failure of a transaction whose commit was not sent. Such a transaction has changed
    /// nothing, whatever became of the connection.
    pub(super) fn uncommitted(error: sqlx::Error) -> Self {
        Self { error: error::certain(error::of_request(error)), intact: false }
    }

    /// The failure of a request without a connection.
    pub(super) fn gone() -> Self {
        Self { error: Error::new(ErrorKind::Unavailable, "the connection is gone"), intact: false }
    }
}
