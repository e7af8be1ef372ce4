//! What the networked stores share on their way to a server.

mod backoff;
mod credentials;

pub use self::backoff::Backoff;
pub use self::credentials::{Credentials, CredentialsProvider};
