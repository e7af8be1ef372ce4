//! Campaigns: workers use a store, a nemesis injects faults, and checkers read the events that the
//! workers recorded.
//!
//! A [`Round`] is one store under one [`Fault`]: worker processes call all kinds of objects, each
//! over a proxy of its own, and the nemesis injects the fault again and again. At the end a last
//! worker takes all free permits, and the [history](crate::history) is checked. All randomness
//! comes from the round's seed. Real servers and schedulers have their own timing, so a seed
//! reproduces the plan but not the exact moments.
//!
//! On Postgres, some faults are deeds of a neighbour: another client or the administrator, who
//! locks rows and tables of ours, keeps an old snapshot, fills the queue of notifications, switches
//! to read-only, or cancels and terminates. The round counts what they did ([`Outcome::deeds`]) and
//! fails if that is nothing. Locks concern some names only; the checkers then look that no call on
//! another name is late.
//!
//! The server keeps its own record of the holds, by triggers on Postgres and by the append-only
//! file on Redis. The checkers compare that record with what the workers saw. Sessions leave no
//! record.
//!
//! [Recovery](crate::recovery) measures instead how long it takes until the store serves calls
//! again after one fault.
//!
//! The caller provides the program of a worker. The program parses its arguments with
//! [`Work::parse`], connects to [`Work::url`] and calls [`Work::run`]. `cargo xtask faults` and
//! `cargo xtask recovery` do.
//!
//! [`TwoHolders`] is for the faults that the contract does not call safe: two holders believe at
//! once, and one [`Register`] must refuse the older one.

mod audit;
mod deeds;
mod fault;
mod nemesis;
mod register;
mod round;
mod server;
mod server_monitor;
pub(crate) mod stall_monitor;
pub(crate) mod tail;
mod two_holders;
pub(crate) mod work;
mod worker;
pub(crate) mod worker_commands;
mod worker_view;
mod workload;

pub use fault::Fault;
pub use register::{Register, Written};
pub use round::{Outcome, Round};
pub use server::{CampaignServer, Deployment};
pub use two_holders::{Contender, TwoHolders};
pub use work::Work;
