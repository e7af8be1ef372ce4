//! Guards: a caller gets one for each grant.

mod hold;
mod kind;
mod member;
#[cfg(test)]
mod model_tests;
mod mutex_guard;
mod permit;
mod reservation;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

pub use hold::{Hold, HoldBackend};
pub use kind::{GuardKind, OfMutex, OfSemaphore, OfWaitGroup};
pub use member::Member;
pub use mutex_guard::MutexGuard;
pub use permit::Permit;
pub use reservation::{Reservation, ReservationBackend};

use crate::{Detached, FencingToken, Result, Ticket, Ttl};

/// The guard of a hold: [`MutexGuard`], [`Permit`] and [`Member`] are this type. A function over
/// `Guard<K>` takes any of them.
///
/// # Drop
/// Never panics. It queues the release ([C12]), so that the hold ends a moment later, not at once;
/// call [`release`](Self::release) to wait for that. It does not block while anything else of its
/// store is alive; the last drop waits until the queue is sent, for the store's `drain` time at
/// most. If the process dies first, the end of the lease ends the hold. A [`Member`] that is
/// dropped counts as *abandoned*, which `wait` reports ([W4]).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// use stanchion::{Guard, GuardKind, Result};
///
/// async fn report<K: GuardKind>(guard: &Guard<K>) -> Result<()> {
///     guard.run(async { println!("{} holds {}", guard.ticket(), guard.name()) }).await
/// }
///
/// let store = stanchion::connect("memory:").await?;
/// report(&store.mutex("report", Default::default())?.lock().await?).await?;
/// report(&store.wait_group("batch 7", Default::default())?.add().await?).await
/// # }
/// ```
///
/// [C12]: crate::contract#c12
/// [W4]: crate::contract#w4
#[must_use = "dropping a guard gives up what it holds"]
pub struct Guard<K: GuardKind> {
    hold: Hold,
    kind: PhantomData<K>,
}

impl<K: GuardKind> Guard<K> {
    /// For authors of stores: makes a guard of a hold that a store granted.
    #[inline]
    pub fn new(hold: Hold) -> Self {
        Self { hold, kind: PhantomData }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hold.name()
    }

    /// Returns the ticket of this acquisition.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.hold.ticket()
    }

    /// Returns the fencing token of this grant: larger than every earlier one of this name ([M2]).
    ///
    /// A resource may refuse the smaller of two tokens only where their holders exclude each other:
    /// at a mutex, or at a semaphore with one permit. Holders of different permits, and members of
    /// a group, live at the same time with different tokens, so that such a resource would refuse
    /// live ones. There, fence each part of the resource by a mutex of its own.
    ///
    /// [M2]: crate::contract#m2
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.token()
    }

    /// Returns whether the hold is live, without I/O: `false` exactly from the
    /// [`deadline`](Self::deadline) on, also in a process that was stopped and resumed ([C10]).
    /// Once `false`, it stays `false`.
    ///
    /// Limitation: the hold may have ended when the next statement runs. An effect that must not
    /// happen twice needs a resource that checks the fencing token.
    ///
    /// [C10]: crate::contract#c10
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Returns the local monotonic time from which on this hold is not live any more, as last
    /// renewed; `None` for a hold without a lease.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.hold.deadline().map(tokio::time::Instant::into_std)
    }

    /// Resolves when the hold is lost: at its deadline without any network, earlier if the store
    /// reports it ([C9]). It does not resolve while renewals succeed, nor at an ordinary release.
    ///
    /// # Cancel safety
    /// Dropping the call has no effect.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// let guard = store.mutex("report", Default::default())?.lock().await?;
    /// tokio::select! {
    ///     () = guard.lost() => println!("stop: another process may hold it now"),
    ///     () = async { /* work */ } => println!("done"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [C9]: crate::contract#c9
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Runs a future while the hold is live ([M4]): the future is dropped at the deadline or at the
    /// loss, whichever comes first, and is not polled after that.
    ///
    /// Limitation: a future that blocks its thread is stopped only at its next await point.
    ///
    /// # Errors
    /// `Lost` if the future was stopped.
    ///
    /// # Cancel safety
    /// As the future given.
    ///
    /// [M4]: crate::contract#m4
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        self.hold.run(future).await
    }

    /// Ends renewal, sets the lease a last time, and returns the hold without a guard, which
    /// `attach` takes over in any process ([C24]). The store counts the lease, 100 ms to 24 h, from
    /// now.
    ///
    /// # Errors
    /// `Lost` if the hold was gone; `Unsupported` where
    /// [`Capabilities::detach`](crate::Capabilities) says so; `InvalidArgument` while other guards
    /// of the hold are alive, which keep it. After any other error, also the `InvalidArgument` for
    /// a lease out of range, the hold is being released.
    ///
    /// # Cancel safety
    /// A dropped call releases the hold.
    ///
    /// [C24]: crate::contract#c24
    pub async fn detach(self, lease: impl Into<Duration> + Send) -> Result<Detached> {
        let lease = Ttl::new(lease.into()).map_err(|error| self.hold.context("detach", error))?;
        self.hold.detach(lease).await
    }

    /// Ends the hold now and reports whether that succeeded: unlocks the mutex, returns the
    /// permits, or reports a member's work as finished. Of several guards of one hold, only the
    /// last one sends a request.
    ///
    /// If a reply is lost and the retry finds the hold gone before the
    /// [`deadline`](Self::deadline), this call has ended it. Limitation: if another process ended
    /// the hold by force, or a member by its ticket, just before this call, `release` may still
    /// return `Ok`.
    ///
    /// # Errors
    /// `Lost` if the hold was gone already; no other hold is released by that ([C11]).
    /// `Unavailable` or `Unknown` if the store did not answer in time, or if the outcome is
    /// unknown; then the release stays queued, and a member is being abandoned.
    ///
    /// # Cancel safety
    /// A dropped call queues the release, as [`Drop`] does.
    ///
    /// [C11]: crate::contract#c11
    pub async fn release(self) -> Result<()> {
        self.hold.release().await
    }
}

impl<K: GuardKind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("kind", &K::KIND).field("hold", &self.hold).finish()
    }
}
