//! What the networked stores share on their way to a server.

mod attempt;
mod backoff;
mod credentials;
mod options;
mod parameters;
mod url;

use std::time::Duration;

pub use self::attempt::{Attempts, current_runtime};
pub use self::backoff::Backoff;
pub use self::credentials::{Credentials, CredentialsProvider};
pub use self::options::NetworkOptions;
pub use self::parameters::UrlParameters;
pub use self::url::UrlParts;

/// For authors of stores: the time without an answer after which a connection is asked, before its
/// next request, whether it still leads to the server ([C28]). What is in between (a router, a
/// sleeping machine) drops idle connections without a word.
///
/// [C28]: crate::contract#c28
pub const MAX_UNCHECKED_IDLE: Duration = Duration::from_secs(1);

/// For authors of stores: the time after which an answer is late, and the server is asked over
/// another connection whether this one still leads to it ([C28]).
///
/// [C28]: crate::contract#c28
pub const LATE_ANSWER: Duration = Duration::from_millis(500);

/// For authors of stores: returns the pause before a server is asked about a late answer again. It
/// is [`LATE_ANSWER`], up to a fifth more, so that processes whose server stood still do not come
/// back together.
#[must_use]
pub fn late_pause() -> Duration {
    LATE_ANSWER.mul_f64(rand::random_range(1.0..=1.2))
}
