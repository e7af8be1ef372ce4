//! The parameters of the client library in a URL.

use stanchion_core::Result;
use stanchion_core::connect::UrlParameters;

/// Parameters that the client library reads from the URL.
const CLIENT_PARAMETERS: [&str; 18] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// Takes the client library's parameters off a URL. `options` may be given several times.
///
/// # Errors
/// `InvalidArgument` for another one that is given twice.
pub(super) fn of_client(parameters: &mut UrlParameters) -> Result<Vec<(String, String)>> {
    let is_clients =
        |key: &str| CLIENT_PARAMETERS.contains(&key) || (key.starts_with("options[") && key.ends_with(']'));
    parameters.take_all(is_clients, |key| key == "options")
}
