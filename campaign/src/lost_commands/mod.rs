//! Loses the request or the reply of the k-th command of a call, for every k: every await point on
//! the wire.
//!
//! Each call that acquires or waits first runs under each [`Contention`] without a fault, to learn
//! how many commands it sends. Then it runs again with each of these commands lost, in the ways of
//! [`Loss`]. Each run has its own client, its own [`Proxy`](stanchion_testbed::faults::Proxy) and
//! its own name. Afterwards another client, connected directly to the server, checks the state.
//! Either the call has succeeded once, and its release frees the object (C2). Or it has ended with
//! a definite no that was true, or with an error that says so (C3); then, within the bounds of the
//! contract, nothing is held or queued, and all permits can be taken (C4, S4). The caller's future
//! may also be dropped after the loss. Dropping it at its k-th poll needs no proxy: cases of the
//! suite do that.
//!
//! ```no_run
//! # async fn example(tested: std::sync::Arc<dyn stanchion_campaign::lost_commands::TestedServer>) {
//! use stanchion_campaign::lost_commands::{Losses, lose_every_command};
//!
//! let report = lose_every_command(&tested, Losses::Rotated).await;
//! println!("{report}");
//! assert!(report.is_clean());
//! # }
//! ```

mod acquirable;
mod call;
mod holding;
mod limiting;
mod report;
mod run;
mod trial;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{Kind, Store};

pub use call::{ALL_LOSSES_VARIABLE, Call, Contention, Loss, Losses};
pub use report::{Breach, Counts, Report};

/// The lease of all holds. It outlasts a run, also if the machine stands still meanwhile: a hold
/// that ends during a run was released, and did not expire.
pub const LEASE: Duration = Duration::from_secs(5);

/// The server of the runs, and how clients connect to it.
#[async_trait]
pub trait TestedServer: Send + Sync + 'static {
    /// Returns the server's URL, as [`Proxy::to`](stanchion_testbed::faults::Proxy::to) takes it.
    fn server(&self) -> String;

    /// Connects a new client, like another process, to `url`: the server's own URL or a proxy's.
    ///
    /// If sessions keep the mutexes, their TTL is [`LEASE`].
    ///
    /// # Panics
    /// If the server cannot be reached.
    async fn connect(&self, url: &str) -> Arc<dyn Store>;

    /// Connects the client that checks the state after a run. No fault affects it. The time limit
    /// of its requests is long enough for a busy machine.
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    async fn witness(&self) -> Arc<dyn Store>;

    /// Returns the request timeout of these clients, at most a third of [`LEASE`].
    fn request_timeout(&self) -> Duration;

    /// Returns the kinds of objects whose calls are tried.
    fn kinds(&self) -> &[Kind];
}

/// Runs every call under every contention, and loses every command as `losses` says.
///
/// # Panics
/// If the server cannot be reached without a fault.
pub async fn lose_every_command(tested: &Arc<dyn TestedServer>, losses: Losses) -> Report {
    let witness = tested.witness().await;
    run::all(tested, &witness, losses).await
}
