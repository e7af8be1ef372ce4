//! The resource's side of fencing, for resources in this process ([M9]).
//!
//! [M9]: crate::contract#m9

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::{Error, FencingToken, GrantId, Result, Ticket};

/// A value that only the newest holder of a mutex may write ([M9]).
///
/// It refuses a token smaller than the largest it has seen, and the same token from another ticket,
/// atomically with the write. This stops a holder that was paused past its lease; no lock can.
///
/// [M9]: crate::contract#m9
pub struct Fenced<T> {
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    seen: Option<(FencingToken, Ticket)>,
    value: T,
}

impl<T> Fenced<T> {
    /// Makes a value that has seen no token yet.
    pub const fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { seen: None, value }) }
    }

    /// Calls `write`, unless the guard is that of an earlier holder. Where the write arrives from
    /// another process, pass the [`GrantId`] that came with it.
    ///
    /// If `write` panics, the token counts as seen and the value stays as the panic left it.
    ///
    /// # Errors
    /// `Lost` if a larger token was seen, or the same one from another ticket; then `write` does
    /// not run.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{Fenced, GrantId};
    ///
    /// let ledger = Fenced::new(Vec::new());
    /// let mutex = store.mutex("ledger", Default::default())?;
    /// let first = mutex.lock().await?;
    /// let earlier = GrantId::from(&first);
    /// first.release().await?;
    /// let second = mutex.lock().await?;
    /// ledger.write(&second, |rows| rows.push("second"))?;
    /// assert!(ledger.write(earlier, |rows| rows.push("too late")).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn write<R>(&self, by: impl Into<GrantId>, write: impl FnOnce(&mut T) -> R) -> Result<R> {
        let GrantId { token, ticket } = by.into();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((largest, owner)) = inner.seen
            && (token < largest || (token == largest && ticket != owner))
        {
            return Err(Error::fenced_off(token, Some(largest)));
        }
        inner.seen = Some((token, ticket));
        Ok(write(&mut inner.value))
    }

    /// Lets the new ticket of an attached hold write with the token that the hold kept, in place of
    /// the earlier ticket.
    ///
    /// A hold that is taken over by [`attach`](crate::Mutex::attach) keeps its token and gets
    /// another ticket, so the process that attached it calls this before its first write.
    ///
    /// # Errors
    /// `Lost` if a larger token was seen.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let ledger = stanchion::Fenced::new(Vec::new());
    /// let mutex = store.mutex("ledger", Default::default())?;
    /// let guard = mutex.lock().await?;
    /// ledger.write(&guard, |rows| rows.push("here"))?;
    /// let lease = stanchion::Ttl::new(std::time::Duration::from_secs(10))?;
    /// let detached = guard.detach(lease).await?;
    /// let guard = mutex.attach(&detached).await?; // in any process
    /// ledger.hand_over(&guard)?;
    /// ledger.write(&guard, |rows| rows.push("there"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hand_over(&self, to: impl Into<GrantId>) -> Result<()> {
        let GrantId { token, ticket } = to.into();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((largest, _)) = inner.seen
            && token < largest
        {
            return Err(Error::fenced_off(token, Some(largest)));
        }
        inner.seen = Some((token, ticket));
        Ok(())
    }

    /// Calls `read` with the value.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.inner.lock().unwrap_or_else(PoisonError::into_inner).value)
    }

    /// Returns the largest token seen.
    pub fn largest(&self) -> Option<FencingToken> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).seen.map(|(token, _)| token)
    }
}

impl<T: Default> Default for Fenced<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Fenced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced").field("largest", &self.largest()).finish_non_exhaustive()
    }
}
