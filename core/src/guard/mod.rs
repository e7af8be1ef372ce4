//! Guards: what a caller gets for a grant.

mod hold;
mod member;
#[cfg(test)]
mod model_tests;
mod mutex_guard;
mod permit;
mod reservation;

pub use hold::{Hold, HoldBackend};
pub use member::Member;
pub use mutex_guard::MutexGuard;
pub use permit::Permit;
pub use reservation::{Reservation, ReservationBackend};

/// The methods that all guards share. `$make` is an expression that makes a guard of a `store`, for the examples.
macro_rules! hold_methods {
    ($make:literal) => {
        /// Makes a guard of a hold that a store granted.
        #[inline]
        pub fn new(hold: crate::guard::Hold) -> Self {
            Self { hold }
        }

        /// Returns the ticket of this acquisition.
        ///
        /// # Examples
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> stanchion::Result<()> {
        /// # let store = stanchion::connect("memory:").await?;
        #[doc = concat!("let guard = ", $make, ";")]
        /// println!("{}", guard.ticket());
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn ticket(&self) -> crate::Ticket {
            self.hold.ticket()
        }

        /// Returns the fencing token of this grant: larger than every earlier one of this name ([M2]).
        ///
        /// A resource may refuse the smaller of two tokens only where their holders exclude each other: at a mutex, or at a
        /// semaphore with one permit. Holders of different permits, and members of a group, live at the same time with
        /// different tokens, so that such a resource would refuse live ones. There, fence each part of the resource by a mutex of
        /// its own.
        ///
        /// # Examples
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> stanchion::Result<()> {
        /// # let store = stanchion::connect("memory:").await?;
        #[doc = concat!("let guard = ", $make, ";")]
        /// println!("granted with {}", guard.fencing_token());
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// [M2]: crate::contract#m2
        #[must_use]
        pub fn fencing_token(&self) -> crate::FencingToken {
            self.hold.token()
        }

        /// Returns whether the hold is live, without I/O: `false` exactly from the [`deadline`](Self::deadline) on,
        /// also in a process that was stopped and resumed ([C10]). Once `false`, it stays `false`.
        ///
        /// What is *not* guaranteed: that the hold is still live when the next statement runs. Protect what must not happen
        /// twice by a resource that checks the fencing token.
        ///
        /// # Examples
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> stanchion::Result<()> {
        /// # let store = stanchion::connect("memory:").await?;
        #[doc = concat!("let guard = ", $make, ";")]
        /// assert!(guard.is_held());
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// [C10]: crate::contract#c10
        #[must_use]
        pub fn is_held(&self) -> bool {
            self.hold.is_held()
        }

        /// Returns the local monotonic time from which on this hold is not live any more, as last renewed; `None` for a hold
        /// without a lease.
        ///
        /// # Examples
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> stanchion::Result<()> {
        /// # let store = stanchion::connect("memory:").await?;
        #[doc = concat!("let guard = ", $make, ";")]
        /// if let Some(deadline) = guard.deadline() {
        ///     println!("{:?} left", deadline.saturating_duration_since(std::time::Instant::now()));
        /// }
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn deadline(&self) -> Option<std::time::Instant> {
            self.hold.deadline().map(tokio::time::Instant::into_std)
        }

        /// Resolves when the hold is lost: at its deadline without any network, earlier if the store reports it ([C9]).
        /// It does not resolve while renewals succeed, nor at an ordinary release.
        ///
        /// # Cancel safety
        /// Dropping the call has no effect.
        ///
        /// # Examples
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> stanchion::Result<()> {
        /// # let store = stanchion::connect("memory:").await?;
        #[doc = concat!("let guard = ", $make, ";")]
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

        /// Runs a future while the hold is live ([M4]): the future is dropped at the deadline or at the loss, whichever
        /// comes first, and is not polled after that.
        ///
        /// What is *not* guaranteed: a future that blocks its thread is stopped only at its next await point.
        ///
        /// # Errors
        /// `Lost` if the future was stopped.
        ///
        /// # Cancel safety
        /// As the future given.
        ///
        /// # Examples
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> stanchion::Result<()> {
        /// # let store = stanchion::connect("memory:").await?;
        #[doc = concat!("let guard = ", $make, ";")]
        /// let sum = guard.run(async { 1 + 1 }).await?;
        /// assert_eq!(sum, 2);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// [M4]: crate::contract#m4
        pub async fn run<F: std::future::Future>(&self, future: F) -> crate::Result<F::Output> {
            self.hold.run(future).await
        }

        /// Ends renewal, sets the lease a last time, and returns the hold without a guard, which `attach` takes over in any
        /// process ([C24]). The store counts the lease from now.
        ///
        /// # Errors
        /// `Lost` if the hold was gone; `Unsupported` where [`Capabilities::detach`](crate::Capabilities) says so;
        /// `InvalidArgument` while other guards of the hold are alive, which keep it. After any other error the hold is being
        /// released.
        ///
        /// # Cancel safety
        /// A dropped call releases the hold.
        ///
        /// # Examples
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> stanchion::Result<()> {
        /// # let store = stanchion::connect("memory:").await?;
        #[doc = concat!("let guard = ", $make, ";")]
        /// let lease = stanchion::Ttl::new(std::time::Duration::from_secs(60))?;
        /// let detached = guard.detach(lease).await?;
        /// println!("another process can attach {detached}");
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// [C24]: crate::contract#c24
        pub async fn detach(self, lease: crate::Ttl) -> crate::Result<crate::Detached> {
            self.hold.detach(lease).await
        }
    };
}

use hold_methods;
