//! The hold behind every guard.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use async_trait::async_trait;

use crate::clock::Instant;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::{Detached, Error, ErrorKind, FencingToken, Result, Ticket, Ttl};

/// The store's side of a guard. Every method concerns the hold with that ticket only ([C11]).
///
/// [C11]: crate::contract#c11
#[async_trait]
pub trait HoldBackend: fmt::Debug + Send + Sync {
    /// Returns whether the hold is live. No I/O; `false` from the deadline on, and once `false`,
    /// always ([C9], [C10]).
    ///
    /// [C9]: crate::contract#c9
    /// [C10]: crate::contract#c10
    fn is_held(&self, ticket: Ticket) -> bool;

    /// Returns the deadline `D` as last renewed; `None` while the hold has none.
    fn deadline(&self, ticket: Ticket) -> Option<Instant>;

    /// Returns the name of the object.
    fn name(&self) -> &str;

    /// Adds to an error the operation, the store and the name of the object ([C21]).
    ///
    /// [C21]: crate::contract#c21
    fn context(&self, operation: &'static str, error: Error) -> Error;

    /// Resolves when the hold is lost, at its deadline at the latest; never on an ordinary release
    /// ([C9]).
    ///
    /// [C9]: crate::contract#c9
    async fn lost(&self, ticket: Ticket);

    /// Queues the release. Must not block, panic or need a runtime ([C12]).
    ///
    /// [C12]: crate::contract#c12
    fn abandon(&self, ticket: Ticket);

    /// Releases now.
    ///
    /// # Errors
    /// `Lost` if the hold was gone; `Unavailable` or `Unknown` if the store did not answer.
    async fn release(&self, ticket: Ticket) -> Result<()>;

    /// Ends renewal, sets the lease a last time, and returns the hold, with the token of its grant,
    /// under the ticket by which it can be attached ([C24]): its own or a fresh one.
    ///
    /// # Errors
    /// As [`release`](Self::release); `Unsupported` where the store cannot.
    ///
    /// [C24]: crate::contract#c24
    async fn detach(&self, ticket: Ticket, token: FencingToken, lease: Ttl) -> Result<Detached>;
}

/// One hold of one acquisition, shared by the guards of it: the inside of
/// [`MutexGuard`](crate::MutexGuard), [`Permit`](crate::Permit) and [`Member`](crate::Member).
#[must_use = "dropping a hold releases it"]
pub struct Hold {
    backend: Arc<dyn HoldBackend>,
    ticket: Ticket,
    token: FencingToken,
    weight: u32,
    /// The number of guards of this hold, once there is more than one.
    shares: OnceLock<Arc<AtomicU32>>,
    armed: bool,
}

impl Hold {
    /// Makes a hold that a store granted.
    #[inline]
    pub fn new(backend: Arc<dyn HoldBackend>, ticket: Ticket, token: FencingToken, weight: u32) -> Self {
        Self { backend, ticket, token, weight, shares: OnceLock::new(), armed: true }
    }

    pub(crate) fn name(&self) -> &str {
        self.backend.name()
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn backend(&self) -> Arc<dyn HoldBackend> {
        Arc::clone(&self.backend)
    }

    pub(crate) fn context(&self, operation: &'static str, error: Error) -> Error {
        self.backend.context(operation, error)
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight
    }

    pub(crate) fn is_held(&self) -> bool {
        self.backend.is_held(self.ticket)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.backend.deadline(self.ticket)
    }

    pub(crate) async fn lost(&self) {
        self.backend.lost(self.ticket).await;
    }

    pub(crate) async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        let mut future = pin!(future);
        let mut lost = self.backend.lost(self.ticket);
        poll_fn(|cx| {
            // Checked before the future is polled: a process stopped past its deadline must not
            // take one more step.
            if !self.is_held() || lost.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(self.backend.context("run", Error::lost())));
            }
            future.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    pub(crate) fn share(&self) -> Self {
        let shares = self.shares.get_or_init(|| Arc::new(AtomicU32::new(1)));
        shares.fetch_add(1, Ordering::Relaxed);
        Self {
            backend: Arc::clone(&self.backend),
            ticket: self.ticket,
            token: self.token,
            weight: self.weight,
            shares: OnceLock::from(Arc::clone(shares)),
            armed: true,
        }
    }

    /// Gives up this guard's share; `true` for the last guard, which still has to release the hold.
    #[inline]
    fn is_last(&mut self) -> bool {
        let last = self.shares.get().is_none_or(|shares| shares.fetch_sub(1, Ordering::AcqRel) == 1);
        // `drop` must not give the share back again.
        self.shares = OnceLock::new();
        self.armed = last;
        last
    }

    pub(crate) async fn release(mut self) -> Result<()> {
        // Another guard may release the hold as soon as this one has given up its share.
        let is_held = self.is_held();
        if !self.is_last() {
            return if is_held { Ok(()) } else { Err(self.backend.context("release", Error::lost())) };
        }
        let released = self.backend.release(self.ticket).await;
        // Where the hold may be left, `drop` queues the release again.
        self.armed = released.as_ref().is_err_and(|error| {
            !matches!(error.kind(), ErrorKind::Lost | ErrorKind::InvalidArgument | ErrorKind::Closed)
        });
        released
    }

    pub(crate) async fn detach(mut self, lease: Ttl) -> Result<Detached> {
        if !self.is_last() {
            let shared =
                Error::invalid_argument("other guards of this hold are alive: it cannot be detached");
            return Err(self.backend.context("detach", shared));
        }
        let detached = self.backend.detach(self.ticket, self.token, lease).await?;
        self.armed = false;
        Ok(detached)
    }
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        if self.armed && self.is_last() {
            self.backend.abandon(self.ticket);
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("ticket", &self.ticket)
            .field("token", &self.token)
            .field("weight", &self.weight)
            .field("held", &self.is_held())
            .finish()
    }
}
