//! Campaigns: workers that use a store, a nemesis that breaks what they deployment on, and checkers that read what they wrote
//! down.
//!
//! A [`Round`] is one store under one [`Fault`]: worker processes call all kinds of objects over links of their own, the
//! nemesis strikes again and again, and in the end what is left is drained and the [history](crate::history) checked.
//! Everything random comes from the round's seed; real servers and schedulers keep times of their own, so that a seed
//! brings the same plan back and not the same moments.
//!
//! The server keeps a record of its holds by means of its own, triggers on Postgres and the append-only file on Redis, which
//! is compared with what the workers saw. Sessions leave none.
//!
//! [Recovery](crate::recovery) measures instead how long it takes until things go on after one fault.
//!
//! Whoever runs one gives the program of a worker: it reads [`Work::parse`] from its arguments, connects to
//! [`Work::url`] and calls [`Work::run`]. `cargo xtask faults` and `cargo xtask recovery` do.
//!
//! A [`TwoHolders`] is for the faults that the contract does not call safe: two holders believe at once, and one [`Register`] has
//! to tell them apart.

mod audit;
mod two_holders;
mod fault;
mod nemesis;
pub(crate) mod worker_commands;
mod register;
mod round;
mod worker_view;
mod server;
pub(crate) mod tail;
mod stall_monitor;
pub(crate) mod work;
mod workload;

pub use two_holders::{TwoHolders, Contender};
pub use fault::Fault;
pub use register::{Register, Written};
pub use round::{Outcome, Round};
pub use server::{CampaignServer, Deployment};
pub use work::Work;
