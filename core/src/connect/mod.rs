//! What the networked stores share on their way to a server.

mod attempt;
mod backoff;
mod credentials;
mod options;
mod parameters;
mod url;

pub use self::attempt::{Attempts, current_runtime};
pub use self::backoff::Backoff;
pub use self::credentials::{Credentials, CredentialsProvider};
pub use self::options::NetworkOptions;
pub use self::parameters::UrlParameters;
pub use self::url::UrlParts;
