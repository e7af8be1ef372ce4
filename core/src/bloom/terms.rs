//! The parameters that the makers of a filter have to agree on.

use std::fmt;
use std::time::Duration;

use super::Shape;

/// The parameters of a filter ([B5]). The first insert sets them, until the filter ends.
///
/// [B5]: crate::contract#b5
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterTerms {
    /// Its shape.
    pub shape: Shape,
    /// How long it lives, counted from its first insert, in whole milliseconds; `None` until it is
    /// cleared.
    pub ttl: Option<Duration>,
}

impl FilterTerms {
    /// The time to live in milliseconds.
    #[must_use]
    pub fn ttl_millis(&self) -> Option<u64> {
        self.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for FilterTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ttl {
            Some(ttl) => write!(f, "{} for {ttl:?}", self.shape),
            None => self.shape.fmt(f),
        }
    }
}
