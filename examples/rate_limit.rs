//! A limiter in front of a service: the answers to callers, and how a batch job waits instead.
//!
//! ```text
//! cargo run --example rate_limit
//! ```
#![expect(clippy::disallowed_methods, reason = "a program owns its runtime; the library does not")]

use std::env;
use std::time::Duration;

use stanchion::{LimiterOptions, Quota, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let store = stanchion::connect(&url).await?;
    // Ten calls a second on average, and never more than three at once.
    let quota = Quota::per_second(10).burst(3);
    let limiter = store.limiter("customer/7", LimiterOptions::new(quota))?;

    // A web server answers at once, and tells the client when to come back.
    for request in 1..=5 {
        let decision = limiter.allow().await?;
        match decision.retry_after {
            None => println!("request {request}: 200, {} of {} left", decision.remaining, decision.limit),
            Some(pause) => println!("request {request}: 429, Retry-After: {:.3} s", pause.as_secs_f64()),
        }
    }

    // A batch job reserves calls in the future, unless they are too far away.
    if limiter.reserve_n(3, Duration::from_millis(50)).await?.is_none() {
        println!("batch: three calls are not to be had within 50 ms, and asking cost nothing");
    }
    if let Some(reservation) = limiter.reserve_n(3, Duration::from_secs(1)).await? {
        println!("batch: three calls are reserved");
        reservation.wait().await;
        println!("batch: their time has come");
    }
    store.close().await
}
