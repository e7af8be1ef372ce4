//! Traits, guards, engine and exact arithmetic of the `stanchion` coordination library.
//!
//! Users depend on the facade `stanchion`; this crate is for authors of stores.
//!
//! | module | is |
//! | --- | --- |
//! | `api` | what users hold: traits, guards, options, answers |
//! | `value`, `error` | names, tickets, tokens and leases; the errors of all stores |
//! | [`spi`] | what a store's author writes |
//! | [`engine`] | waiting, renewal, release and retry, written once for all lease stores |
//! | `runtime` | where work runs: the engine's thread and the callers' runtimes |
//! | `connect` | what networked stores share on their way to a server |
//! | [`observe`] | the log, the metrics, outages |
//! | [`limiter`], [`bloom`] | the arithmetic of rates, the layout of filters: pure |
//! | `election`, [`blocking`] | made of the traits: leaders and periodic jobs, the same for threads |
//! | [`clock`], `sync` | the one place that reads the clock; locks and signals that a model checker can replace |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod bloom;
pub mod clock;
pub mod connect;
pub mod contract;
mod election;
pub mod engine;
mod error;
pub mod limiter;
pub mod observe;
pub mod runtime;
pub mod spi;
mod sync;
mod value;

pub use self::api::*;
pub use self::connect::{Credentials, CredentialsProvider};
pub use self::election::{
    Election, ElectionHandle, ElectionObserver, ElectionOptions, JobResult, Leader, LeaderChanges,
    PeriodicJob,
};
pub use self::error::{Error, ErrorKind, Result};
pub use self::limiter::Quota;
pub use self::value::{FencingToken, GrantId, Kind, Name, Ticket, Ttl};
