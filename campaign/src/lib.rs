//! Campaigns of faults against the networked stores, and what reads their outcome.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`rounds`] | worker processes use a store while a nemesis breaks what they stand on |
//! | [`history`] | what the workers wrote down, and the checkers of it |
//! | [`recovery`] | how long it takes until things go on after one fault |
//! | [`lost_commands`] | each command of each call is lost once |
//! | [`plant`] | stores with planted bugs, each of which a named case or checker catches |

pub mod lost_commands;
pub mod history;
mod outage;
pub mod mutants;
pub mod recovery;
pub mod rounds;

pub use outage::Outage;
