//! [Tower](https://docs.rs/tower) layers for limits that hold over all instances of a service:
//! their state is in a store of `stanchion`, in this process, on Redis or on Postgres.
//!
//! | to … | use |
//! | --- | --- |
//! | limit the requests of each client a second | `store.rate_limit(…)` of [`LayerExt`], or [`RateLimitLayer`] |
//! | limit the requests that run at a time | `store.concurrency_limit(…)`, or [`ConcurrencyLimitLayer`] |
//!
//! The layers work with every service of `http` requests and responses whose response body
//! implements `Default`, as those of axum, hyper and tonic. A refusal has no body, unless
//! [`ProblemLayer`] or the service [gives it one](Refused); that of a gRPC request is a gRPC
//! status.
//!
//! The README has a whole service, and the example `service` runs one. How a service ends in order
//! is there, too.
//!
//! # Examples
//! ```
//! use axum::Router;
//! use axum::routing::get;
//! use stanchion::{Quota, SemaphoreOptions};
//! use stanchion_tower::{LayerExt, key};
//!
//! # #[tokio::main]
//! # async fn main() -> stanchion::Result<()> {
//! let store = stanchion::connect("memory:").await?;
//! let rate = store.rate_limit("api/", key::header("x-api-key"), Quota::per_second(50).burst(100))?;
//! let exports = store.concurrency_limit("exports", SemaphoreOptions::new(3))?;
//! let app: Router = Router::new().route("/export", get(async || "hello").layer(exports)).layer(rate);
//! # Ok(())
//! # }
//! ```

mod claims;
mod concurrency;
mod handles;
pub mod key;
mod layer_ext;
mod permit_body;
mod problem;
mod rate;
mod refusal;

pub use concurrency::{ConcurrencyLimit, ConcurrencyLimitLayer};
pub use layer_ext::LayerExt;
pub use permit_body::{HeldPermit, PermitBody};
pub use problem::{Problem, ProblemLayer};
pub use rate::{RateLimit, RateLimitLayer};
pub use refusal::Refused;
