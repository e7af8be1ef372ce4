//! The clauses of the mutex, asserted for every lock with one holder at a time.

mod cancel;
mod deadline;
mod grant;
mod inspect;
mod lost;
mod queue;
mod release;
mod transfer;
mod unpolled;

pub(crate) use cancel::*;
pub(crate) use deadline::*;
pub(crate) use grant::*;
pub(crate) use inspect::*;
pub(crate) use lost::*;
pub(crate) use queue::*;
pub(crate) use release::*;
pub(crate) use transfer::*;
pub(crate) use unpolled::*;
