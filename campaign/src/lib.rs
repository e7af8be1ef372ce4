//! Fault campaigns against the networked stores, and the checkers that read their outcome.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`rounds`] | worker processes use a store while a nemesis injects faults into it |
//! | [`history`] | the events that the workers recorded, and their checkers |
//! | [`recovery`] | the time until the store serves calls again after one fault |
//! | [`lost_commands`] | loses each command of each call once |
//! | [`mutants`](mod@mutants) | stores with planted bugs, each caught by a named case or checker |

mod connecting;
pub mod history;
pub mod lost_commands;
pub mod mutants;
mod outage;
pub mod recovery;
pub mod rounds;

pub use connecting::connected;
pub use outage::Outage;
