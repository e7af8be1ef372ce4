//! Leader election: the holder of a mutex leads.

mod candidate;
mod observer;
mod options;

pub use candidate::{Election, ElectionHandle};
pub use observer::{ElectionObserver, Leader, LeaderChanges};
pub use options::ElectionOptions;
