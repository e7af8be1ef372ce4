//! The interface of sides with a rate limiter.

use std::sync::Arc;

use stanchion_core::Limiter;

use crate::Failure;

/// Decides for each name whether a call is admitted. A clone decides for the same names, as another
/// task would.
pub trait Decider: Clone + Send + Sync + 'static {
    /// Decides for the name with this number.
    fn allow(&self, name: usize) -> impl Future<Output = Result<bool, Failure>> + Send;
}

/// This library's limiters on any store, one for each name.
impl Decider for Arc<Vec<Arc<dyn Limiter>>> {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        let limiter = self.get(name % self.len()).ok_or("there is no limiter")?;
        Ok(Limiter::allow(&**limiter).await?.allowed)
    }
}
