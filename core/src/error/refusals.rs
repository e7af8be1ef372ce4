//! The errors of refused calls that every store returns in the same words.

use std::fmt;
use std::time::Duration;

use crate::{Error, ErrorKind, Kind, Ttl};

impl Error {
    /// Returns the error of a request for more than the limit in force.
    #[must_use]
    pub fn over_limit(weight: u32, limit: u32) -> Self {
        Self::invalid_argument(format!("{weight} at once is over the limit of {limit}"))
    }

    /// Returns the error of a call whose parameter is not the one in force at the store ([C20]).
    ///
    /// `what` names the parameter, for instance "quota".
    ///
    /// [C20]: crate::contract#c20
    #[must_use]
    pub fn mismatch(what: &str, given: impl fmt::Display, stored: impl fmt::Display) -> Self {
        let way_out = match what {
            "quota" => "; `on_mismatch` says which one is used, `set_quota` changes it for everybody",
            "limit of permits" => "; `on_mismatch` says which one is used, `resize` changes it for everybody",
            "limit of members" => {
                "; `on_mismatch` says which one is used: `Adopt` the store's, `Replace` this one for everybody"
            }
            _ => "",
        };
        let detail = format!("the {what} given is {given}, the store's is {stored}{way_out}");
        Self::new(ErrorKind::ConfigMismatch, detail)
    }

    /// As [`mismatch`](Self::mismatch), of the limits of a semaphore or a wait group; `None` is no
    /// limit.
    #[must_use]
    pub fn limit_mismatch(kind: Kind, given: Option<u32>, stored: Option<u32>) -> Self {
        let what = if kind == Kind::WaitGroup { "limit of members" } else { "limit of permits" };
        let [given, stored] =
            [given, stored].map(|limit| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string()));
        Self::mismatch(what, given, stored)
    }

    /// Returns the error of a call that would wait in a queue with `max_waiters` waiters ([C26]).
    ///
    /// [C26]: crate::contract#c26
    #[must_use]
    pub fn queue_full() -> Self {
        Self::new(ErrorKind::Overloaded, "the queue has `max_waiters` waiters")
    }

    /// Returns the error of a forced release of which a part was executed before it failed with
    /// `error`: `Unknown` ([C3]).
    ///
    /// [C3]: crate::contract#c3
    #[must_use]
    pub fn partly_forced(error: Self) -> Self {
        Self::new(ErrorKind::Unknown, "a part of the holds was freed").with_source(error)
    }

    /// Returns the error of a call whose grants came so late that half of their lease was over
    /// ([C6]).
    ///
    /// [C6]: crate::contract#c6
    pub(crate) fn too_slow(lease: Ttl, took: Duration) -> Self {
        let ttl = lease.get();
        let detail = format!(
            "the store took {took:.0?} to answer, more than half of the TTL of {ttl:?}: use a longer TTL"
        );
        Self::new(ErrorKind::Unavailable, detail)
    }

    /// Returns the error of a call of one attempt that nobody polled while others waited for it
    /// ([C6]): it holds nothing.
    ///
    /// [C6]: crate::contract#c6
    pub(crate) fn passed_over() -> Self {
        let detail = "nobody polled the call while others waited for it, and so it was withdrawn";
        Self::new(ErrorKind::Unavailable, detail)
    }

    /// Returns the error of a call of a process that has too many calls in doubt ([C28]).
    ///
    /// [C28]: crate::contract#c28
    pub(crate) fn too_many_in_doubt() -> Self {
        let detail = "the store has not answered 10,000 calls of this process yet that it may have executed";
        Self::new(ErrorKind::Overloaded, detail)
    }

    /// Returns the error of a reservation beyond the largest number of tokens that can be reserved.
    #[must_use]
    pub fn too_many_reserved() -> Self {
        Self::new(ErrorKind::Overloaded, "2^53 tokens are reserved already")
    }
}
