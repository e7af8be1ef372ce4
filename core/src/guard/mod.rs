//! Guards: what a caller holds while it holds something.

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

/// The methods that all guards share.
macro_rules! hold_methods {
    () => {
        /// A guard of a hold that a store granted.
        #[inline]
        pub fn new(hold: crate::guard::Hold) -> Self {
            Self { hold }
        }

        /// The ticket of this acquisition.
        #[must_use]
        pub fn ticket(&self) -> crate::Ticket {
            self.hold.ticket()
        }

        /// The fencing token of this grant: larger than every earlier one of this name (M2).
        #[must_use]
        pub fn fencing_token(&self) -> crate::FencingToken {
            self.hold.token()
        }

        /// Whether the hold may still be believed in. Answers without I/O; `false` from the
        /// [`deadline`](Self::deadline) on exactly, also in a process that was stopped and resumed (C10), and once
        /// `false` for ever.
        ///
        /// What is *not* guaranteed: that it stays true until the next statement ran. What must not happen twice
        /// belongs behind a resource that checks the fencing token.
        #[must_use]
        pub fn is_held(&self) -> bool {
            self.hold.is_held()
        }

        /// The local monotonic time from which this hold is not believed in any more, as renewed last; `None`
        /// where the hold has no lease to lose.
        #[must_use]
        pub fn deadline(&self) -> Option<std::time::Instant> {
            self.hold.deadline().map(tokio::time::Instant::into_std)
        }

        /// Resolves when the hold is lost: at its deadline without any network, sooner when the store says so
        /// (C9). Never while renewals succeed, never on an ordinary release.
        ///
        /// # Cancel safety
        /// Safe: it changes nothing and may be called again.
        pub async fn lost(&self) {
            self.hold.lost().await;
        }

        /// Runs a future for as long as the hold lasts (M4): it is dropped at the deadline or at the loss,
        /// whichever comes first, and is not polled after that.
        ///
        /// What is *not* guaranteed: a future that blocks its thread is stopped at its next await point only.
        ///
        /// # Errors
        /// `Lost` if the future was stopped.
        ///
        /// # Cancel safety
        /// As the future given.
        pub async fn run<F: std::future::Future>(&self, future: F) -> crate::Result<F::Output> {
            self.hold.run(future).await
        }

        /// Ends renewal, sets the lease once, and gives the ticket, by which `attach` takes the hold over in any
        /// process (C24). `lease` is 100 ms to 24 h, counted by the store from now.
        ///
        /// # Errors
        /// `Lost` if the hold was gone; `InvalidArgument` for a lease out of range; `Unsupported` where
        /// [`Capabilities::detach`](crate::Capabilities) says so. After any error the hold is being released.
        ///
        /// # Cancel safety
        /// A dropped call releases the hold.
        pub async fn detach(self, lease: std::time::Duration) -> crate::Result<crate::Ticket> {
            self.hold.detach(crate::Ttl::new(lease)?).await
        }
    };
}
use hold_methods;
