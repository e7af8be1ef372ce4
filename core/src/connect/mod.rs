//! What the networked stores share on their way to a server.

mod attempt;
mod backoff;
mod credentials;

pub use self::attempt::{OwnAttempts, SharedAttempts, current_runtime};
pub use self::backoff::Backoff;
pub use self::credentials::{Credentials, CredentialsProvider};
