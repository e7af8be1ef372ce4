//! What the events of all stores have in common, for `tracing`. The guide's page about logs and
//! traces lists events and fields.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::now;
pub use crate::observe::loss_cause::LossCause;
use crate::observe::metering::Meter;
use crate::{ErrorKind, Kind, Name, Ticket};

/// The default of the stores' `slow_wait`: 1 s.
pub const SLOW_WAIT: Duration = Duration::from_secs(1);

/// For authors: an event that is logged once in an interval, at most.
#[derive(Debug)]
pub struct Seldom {
    interval: Duration,
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    /// Makes an event that was not logged yet.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self { interval, last: Mutex::new(None) }
    }

    /// Returns whether to log it now. Then it counts as logged.
    pub fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        let is_due = last.is_none_or(|last| now - last >= self.interval);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitOutcome {
    /// The call got what it asked for.
    Granted,
    /// It was a single attempt, and got nothing.
    Refused,
    /// Its time limit passed.
    TimedOut,
    /// Its future was dropped.
    Cancelled,
    /// It ended with an error.
    Failed(ErrorKind),
}

impl WaitOutcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }

    pub(crate) fn error_type(self) -> Option<&'static str> {
        if let Self::Failed(kind) = self { Some(kind.as_str()) } else { None }
    }
}

/// An acquisition that had to wait, and has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedWait<'a> {
    /// The store, as in [`Capabilities::store`](crate::Capabilities::store).
    pub store: &'static str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The kind of the object.
    pub kind: Kind,
    /// The name.
    pub name: &'a Name,
    /// The method that was called, such as `lock_for`.
    pub operation: &'static str,
    /// The time from the call to its end.
    pub waited: Duration,
    /// How it ended.
    pub outcome: WaitOutcome,
}

impl EndedWait<'_> {
    /// Records the wait: at `info` if it took `slow_wait` or longer, at `debug` otherwise. Not to
    /// be called under a lock: a subscriber may do anything.
    pub fn record(&self, slow_wait: Duration) {
        let Self { store, namespace, kind, name, operation, waited, outcome } = *self;
        let (kind, waited) = (kind.as_str(), waited.as_secs_f64());
        let (outcome, error) = (outcome.as_str(), outcome.error_type());
        if self.waited >= slow_wait {
            tracing::info!(
                name: "stanchion.wait.slow",
                {
                    stanchion.store = store,
                    stanchion.namespace = namespace,
                    stanchion.kind = kind,
                    stanchion.name = name.as_str(),
                    stanchion.operation = operation,
                    stanchion.outcome = outcome,
                    stanchion.wait.duration = waited,
                    error.type = error,
                },
                "a call waited long"
            );
        } else {
            tracing::debug!(
                name: "stanchion.wait.ended",
                {
                    stanchion.store = store,
                    stanchion.namespace = namespace,
                    stanchion.kind = kind,
                    stanchion.name = name.as_str(),
                    stanchion.operation = operation,
                    stanchion.outcome = outcome,
                    stanchion.wait.duration = waited,
                    error.type = error,
                },
                "a call has waited"
            );
        }
    }
}

/// A hold that was lost.
#[derive(Clone, Copy, Debug)]
pub struct LostHold<'a> {
    /// The store, as in [`Capabilities::store`](crate::Capabilities::store).
    pub store: &'static str,
    /// Its namespace.
    pub namespace: Option<&'a str>,
    /// The kind of the object.
    pub kind: Kind,
    /// The name.
    pub name: &'a Name,
    /// The hold, as `inspect` shows it.
    pub ticket: Ticket,
    /// Its label.
    pub label: Option<&'a str>,
    /// The time from the grant to the loss.
    pub held: Duration,
    /// Why.
    pub cause: LossCause,
}

impl LostHold<'_> {
    /// Records the loss, and counts it: at `warn`, or at `debug` where the program closed the
    /// store. Not to be called under a lock.
    pub fn record(&self) {
        let Self { store, namespace, kind, name, ticket, label, held, cause } = *self;
        let held = held.as_secs_f64();
        if cause == LossCause::Closed {
            tracing::debug!(
                stanchion.store = store,
                stanchion.namespace = namespace,
                stanchion.kind = kind.as_str(),
                stanchion.name = name.as_str(),
                stanchion.ticket = %ticket,
                stanchion.label = label,
                stanchion.hold.duration = held,
                "a hold was given up, because its store was closed"
            );
        } else {
            tracing::warn!(
                name: "stanchion.hold.lost",
                {
                    stanchion.store = store,
                    stanchion.namespace = namespace,
                    stanchion.kind = kind.as_str(),
                    stanchion.name = name.as_str(),
                    stanchion.ticket = %ticket,
                    stanchion.label = label,
                    stanchion.hold.duration = held,
                    stanchion.loss.cause = cause.as_str(),
                },
                "a hold was lost"
            );
        }
        Meter::new(store, kind, name).lost(cause);
    }
}

/// Splits the address of a server, `HOST:PORT`, into the fields `server.address` and `server.port`.
/// The path of a socket has no port, and several hosts with commas between them stay together.
#[must_use]
pub fn server_fields(address: &str) -> (&str, Option<u16>) {
    let port = |(host, port): (&'_ str, &str)| Some((host.len(), port.parse().ok()?));
    match address.rsplit_once(':').and_then(port) {
        Some((host, port)) if !address.starts_with('/') && !address.contains(',') => {
            (address[..host].trim_start_matches('[').trim_end_matches(']'), Some(port))
        }
        _ => (address, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_into_host_and_port() {
        for (address, expected) in [
            ("h:6379", ("h", Some(6379))),
            ("[::1]:6379", ("::1", Some(6379))),
            ("/run/a:1", ("/run/a:1", None)),
            ("h1:1,h2:2", ("h1:1,h2:2", None)),
            ("h", ("h", None)),
        ] {
            assert_eq!(server_fields(address), expected, "{address}");
        }
    }
}
