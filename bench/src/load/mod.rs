//! What sides are put under. Each load runs for a while and gives what it saw.

mod contended;
mod crew;
pub mod crowd;
mod decisions;
pub mod growth;
mod hand_off;
pub mod idle;
mod items;
mod pace;
mod turns;
mod uncontended;
mod zero;

pub use contended::{Contended, contended};
pub use crew::{LIMIT, clock};
pub use decisions::decisions;
pub use hand_off::{HandOff, hand_off};
pub use items::{Call, Items, items};
pub use pace::Pace;
pub use turns::turns;
pub use uncontended::uncontended;
pub use zero::{AT_ZERO, ZERO, at_zero};
