//! A client of the server, with its settings.

use std::time::Duration;

use stanchion_core::clock::micros;
use stanchion_core::spi::ProcessId;

use crate::mistake::Mistake;

/// One process as the server knows it, with its settings for each request.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The process: its polls keep its waiters live, and its mailbox gets their wake-ups.
    pub process: ProcessId,
    /// How long idle names are kept.
    pub retention: Retention,
    /// Time limit of one request (C17).
    pub request_timeout: Duration,
    pub(crate) mistake: Option<Mistake>,
}

impl Default for Client {
    /// Creates a client with a new process id.
    fn default() -> Self {
        let request_timeout = Duration::from_secs(2);
        Self { process: ProcessId::random(), retention: Retention::default(), request_timeout, mistake: None }
    }
}

#[cfg(feature = "mutants")]
impl Client {
    /// Sets a mistake.
    #[must_use]
    pub fn with_mistake(mut self, mistake: Mistake) -> Self {
        self.mistake = Some(mistake);
        self
    }
}

/// How long idle names are kept (C25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// For the whole record, with its fencing token.
    pub tokens: Duration,
    /// For the limit.
    pub limits: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { tokens: Duration::from_secs(24 * 60 * 60), limits: Duration::from_secs(60 * 60) }
    }
}

impl Retention {
    pub(crate) fn tokens_micros(self) -> u64 {
        micros(self.tokens)
    }

    pub(crate) fn limits_micros(self) -> u64 {
        micros(self.limits)
    }
}
