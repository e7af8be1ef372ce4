//! The values that everything else is said in: names, tickets, fencing tokens, leases.

mod grant_id;
mod lease;
mod name;
mod ticket;
#[cfg(feature = "serde")]
mod with_serde;

pub use self::grant_id::GrantId;
pub use self::lease::Ttl;
pub use self::name::{Kind, Name};
pub use self::ticket::{FencingToken, Ticket};
