//! Connects to a store on a machine that may stand still.

use std::sync::Arc;
use std::time::Duration;

use stanchion::Store;
use stanchion_core::Result;
use stanchion_core::clock::{now, sleep};

/// The time from which on an error is final.
const LIMIT: Duration = Duration::from_secs(30);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Connects to a store, again if the first attempt took too long or came at a bad moment.
///
/// # Errors
/// As [`stanchion::connect`], if another attempt makes no sense or none has succeeded within 30 s.
pub async fn connected(url: &str) -> Result<Arc<dyn Store>> {
    let end = now() + LIMIT;
    loop {
        match stanchion::connect(url).await {
            Err(error) if error.is_retryable() && now() < end => sleep(PAUSE).await,
            connected => return connected,
        }
    }
}
