//! The errors of refused calls that every store returns in the same words.

use std::fmt;

use crate::{Error, ErrorKind};

impl Error {
    /// Returns the error of a request for more than the limit in force.
    #[must_use]
    pub fn over_limit(weight: u32, limit: u32) -> Self {
        Self::invalid_argument(format!("{weight} at once is over the limit of {limit}"))
    }

    /// Returns the error of a call whose parameter is not the one in force at the store ([C20]).
    ///
    /// `what` names the parameter: "limit", "quota".
    ///
    /// [C20]: crate::contract#c20
    #[must_use]
    pub fn mismatch(what: &str, given: impl fmt::Display, stored: impl fmt::Display) -> Self {
        Self::new(ErrorKind::ConfigMismatch, format!("the {what} given is {given}, the store's is {stored}"))
    }

    /// As [`mismatch`](Self::mismatch), of limits; `None` is no limit.
    #[must_use]
    pub fn limit_mismatch(given: Option<u32>, stored: Option<u32>) -> Self {
        let [given, stored] =
            [given, stored].map(|limit| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string()));
        Self::mismatch("limit", given, stored)
    }

    /// Returns the error of a call that would wait in a queue with `max_waiters` waiters ([C26]).
    ///
    /// [C26]: crate::contract#c26
    #[must_use]
    pub fn queue_full() -> Self {
        Self::new(ErrorKind::Overloaded, "the queue has `max_waiters` waiters")
    }

    /// Returns the error of a reservation beyond the largest number of tokens that can be reserved.
    #[must_use]
    pub fn too_many_reserved() -> Self {
        Self::new(ErrorKind::Overloaded, "2^53 tokens are reserved already")
    }
}
