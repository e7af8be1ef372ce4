//! The resource's side of fencing, for resources in this process (M9).

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::{Error, FencingToken, Result, Ticket};

/// A value that only the newest holder of a mutex may write (M9).
///
/// It refuses a token smaller than the largest it has seen, and the same token from another ticket, atomically with the
/// write. This is what stops a holder that was paused past its lease; no lock can.
pub struct Fenced<T> {
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    seen: Option<(FencingToken, Ticket)>,
    value: T,
}

impl<T> Fenced<T> {
    /// A value that has seen no token yet.
    pub const fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { seen: None, value }) }
    }

    /// Writes, if the token is not an older holder's.
    ///
    /// If `write` panics, the token counts as seen and the value stays as the panic left it.
    ///
    /// # Errors
    /// `Lost` if a larger token was seen, or the same one from another ticket; then `write` does not run.
    pub fn write<R>(
        &self,
        token: FencingToken,
        ticket: Ticket,
        write: impl FnOnce(&mut T) -> R,
    ) -> Result<R> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.seen.is_some_and(|(largest, owner)| token < largest || (token == largest && ticket != owner))
        {
            return Err(Error::lost());
        }
        inner.seen = Some((token, ticket));
        Ok(write(&mut inner.value))
    }

    /// Lets the new ticket of an attached hold write with the token it kept, and no earlier ticket any more.
    ///
    /// A hold that changes hands by [`attach`](crate::Mutex::attach) keeps its token and gets another ticket, so the
    /// process that attached it says so before its first write.
    ///
    /// # Errors
    /// `Lost` if a larger token was seen.
    pub fn hand_over(&self, token: FencingToken, to: Ticket) -> Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.seen.is_some_and(|(largest, _)| token < largest) {
            return Err(Error::lost());
        }
        inner.seen = Some((token, to));
        Ok(())
    }

    /// Reads the value.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.inner.lock().unwrap_or_else(PoisonError::into_inner).value)
    }

    /// The largest token seen.
    pub fn largest(&self) -> Option<FencingToken> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).seen.map(|(token, _)| token)
    }
}

impl<T> fmt::Debug for Fenced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced").field("largest", &self.largest()).finish_non_exhaustive()
    }
}
