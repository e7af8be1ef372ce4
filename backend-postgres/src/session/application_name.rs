//! The `application_name` of lock sessions, by which other processes know them.

use sqlx::postgres::PgConnectOptions;
use stanchion_core::Ticket;
use stanchion_core::spi::ProcessId;

/// Separates the user's part from the process id.
const SEPARATOR: &str = " lock ";
/// Maximum bytes kept of the user's application name; the server keeps 63 bytes in all.
const MAXIMUM_PREFIX: usize = 24;

/// Returns the name of a lock session: the user's own, cut to [`MAXIMUM_PREFIX`] bytes, and the
/// process id.
pub(super) fn application_name(options: &PgConnectOptions, process: ProcessId) -> String {
    let prefix = options.get_application_name().unwrap_or("stanchion");
    let room = prefix
        .char_indices()
        .map(|(at, char)| at + char.len_utf8())
        .take_while(|end| *end <= MAXIMUM_PREFIX)
        .last();
    format!("{}{SEPARATOR}{process}", &prefix[..room.unwrap_or_default()])
}

/// Returns whether a session is a lock session. Sessions of users' transactions (`lock_in`) are
/// neither shown nor ended.
pub(super) fn is_lock_session(application: &str) -> bool {
    application.rsplit_once(SEPARATOR).is_some_and(|(_, process)| process.parse::<Ticket>().is_ok())
}
