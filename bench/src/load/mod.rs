//! The loads under which sides run. Each load runs for a given time and returns its measurements.

mod contended;
pub mod crowd;
mod decisions;
pub mod growth;
mod hand_off;
pub mod herd;
pub mod idle;
mod items;
mod pace;
mod rotation;
mod tasks;
pub mod threads;
mod uncontended;
mod zero;

pub use contended::{Contended, contended};
pub use decisions::decisions;
pub use hand_off::{HandOff, hand_off};
pub use items::{Call, Items, items};
pub use pace::Pace;
pub use rotation::rotation;
pub use tasks::{TIMEOUT, clock};
pub use uncontended::uncontended;
pub use zero::{AT_ZERO, ZERO, at_zero};
