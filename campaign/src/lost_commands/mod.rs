//! Every await point on the wire: the reply, or the request, of the k-th command of a call is lost, for every k.
//!
//! Each call that acquires or waits is made in each [contention](Contention) without a fault, to learn how many commands it takes, and
//! then with each of them lost, in the ways of [`Loss`]. Each run has a client of its own behind a
//! [`Proxy`](stanchion_testbed::faults::Proxy) of its own, and a name of its own. Another client, straight to the server, looks at what is left: the call has succeeded once, and
//! its release frees it (C2), or it has ended with a definite no that was true or with an error that says so (C3), and then
//! within the bounds of the contract nothing is held or queued, and all permits can be taken (C4, S4). The caller's future
//! may be dropped after the loss as well. Dropping it at its k-th poll needs no proxy: cases of the suite do that.
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

mod call;
mod holding;
mod limiting;
mod acquirable;
mod report;
mod run;
mod trial;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{Kind, Store};

pub use call::{ALL_LOSSES_VARIABLE, Call, Loss, Losses, Contention};
pub use report::{Breach, Counts, Report};

/// The lease of all holds, long enough to outlast a run: what is given back before was given back by somebody.
pub const LEASE: Duration = Duration::from_secs(3);

/// Where the calls take place: a server, and how a store is connected to it.
#[async_trait]
pub trait TestedServer: Send + Sync + 'static {
    /// The server's URL, as [`Proxy::to`](stanchion_testbed::faults::Proxy::to) takes it.
    fn server(&self) -> String;

    /// A fresh client, as of another process, of the server at that URL, which is the server's own or a proxy's.
    ///
    /// Where sessions keep mutexes, their TTL is [`LEASE`].
    ///
    /// # Panics
    /// If the server cannot be reached.
    async fn connect(&self, url: &str) -> Arc<dyn Store>;

    /// A client that looks at what is left. No fault strikes it; its requests have a limit that a busy machine does not
    /// reach.
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    async fn witness(&self) -> Arc<dyn Store>;

    /// The time limit of a request of these clients, a third of [`LEASE`] at most.
    fn request_timeout(&self) -> Duration;

    /// The kinds of objects whose calls are tried.
    fn kinds(&self) -> &[Kind];
}

/// Runs every call of a tested in every contention, with every command lost in these ways.
///
/// # Panics
/// If the server cannot be reached without a fault.
pub async fn lose_every_command(tested: &Arc<dyn TestedServer>, losses: Losses) -> Report {
    let witness = tested.witness().await;
    run::all(tested, &witness, losses).await
}
