//! What every side does that decides about a rate.

use std::sync::Arc;

use stanchion_core::Limiter;

use crate::Failure;

/// Decides, name by name, whether one more may pass. A clone asks for the same names, as another task would.
pub trait Gate: Clone + Send + Sync + 'static {
    /// Decides for the name with that number.
    fn allow(&self, name: usize) -> impl Future<Output = Result<bool, Failure>> + Send;
}

/// Ours: limiters of any store, one for each name.
impl Gate for Arc<Vec<Arc<dyn Limiter>>> {
    async fn allow(&self, name: usize) -> Result<bool, Failure> {
        let limiter = self.get(name % self.len()).ok_or("there is no limiter")?;
        Ok(Limiter::allow(&**limiter).await?.allowed)
    }
}
