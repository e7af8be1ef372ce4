//! Wake-ups with faults.

use std::sync::Arc;

use async_trait::async_trait;
use stanchion_core::spi::{Object, WakeSource};
use stanchion_core::{Result, Ticket};

use super::Faults;

/// A source of wake-ups that loses some and doubles some.
#[derive(Debug)]
pub struct FaultyWake {
    inner: Arc<dyn WakeSource>,
    faults: Arc<Faults>,
}

impl FaultyWake {
    /// Wraps a store's own source.
    #[must_use]
    pub fn new(inner: Arc<dyn WakeSource>, faults: &Arc<Faults>) -> Self {
        Self { inner, faults: Arc::clone(faults) }
    }
}

#[async_trait]
impl WakeSource for FaultyWake {
    fn watch(&self, object: &Object, waited_for: bool) {
        self.inner.watch(object, waited_for);
    }

    async fn next(&self) -> Result<Vec<Ticket>> {
        let hints = self.inner.next().await?;
        let mut state = self.faults.state();
        if state.no_hints {
            return Ok(Vec::new());
        }
        let Some(draw) = &mut state.draw else { return Ok(hints) };
        Ok(hints.into_iter().flat_map(|hint| std::iter::repeat_n(hint, draw.hints())).collect())
    }
}
