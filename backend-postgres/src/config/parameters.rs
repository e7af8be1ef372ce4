//! The parameters of a URL.

use std::str::FromStr;
use std::time::Duration;

use stanchion_core::{Error, MutexMode, Result};
use url::Url;

use crate::address::TargetSessionAttrs;

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

/// The store's own parameters, and the parameters for the client library.
#[derive(Default)]
pub(super) struct Parameters {
    pub(super) namespace: Option<String>,
    pub(super) schema: Option<String>,
    pub(super) migrate: Option<bool>,
    pub(super) mutex: Option<MutexMode>,
    pub(super) session_ttl: Option<Duration>,
    pub(super) request_timeout: Option<Duration>,
    pub(super) target: Option<TargetSessionAttrs>,
    pub(super) client: Vec<(String, String)>,
}

impl Parameters {
    /// Reads the parameters of a URL.
    ///
    /// # Errors
    /// `InvalidArgument` for a parameter that is unknown, given twice or malformed.
    pub(super) fn read(url: &Url) -> Result<Self> {
        let mut read = Self::default();
        for (key, value) in url.query_pairs() {
            let twice = match key.as_ref() {
                "namespace" => read.namespace.replace(value.into_owned()).is_some(),
                "schema" => read.schema.replace(value.into_owned()).is_some(),
                "migrate" => {
                    let migrate = one_of(&key, &value, &[("on", true), ("off", false)])?;
                    read.migrate.replace(migrate).is_some()
                }
                "mutex" => {
                    let modes = [("session", MutexMode::Session), ("lease", MutexMode::Lease)];
                    read.mutex.replace(one_of(&key, &value, &modes)?).is_some()
                }
                "session_ttl_ms" => {
                    read.session_ttl.replace(Duration::from_millis(number(&key, &value)?)).is_some()
                }
                "request_timeout_ms" => {
                    read.request_timeout.replace(Duration::from_millis(number(&key, &value)?)).is_some()
                }
                "target_session_attrs" => {
                    let targets =
                        [("any", TargetSessionAttrs::Any), ("read-write", TargetSessionAttrs::ReadWrite)];
                    read.target.replace(one_of(&key, &value, &targets)?).is_some()
                }
                known if is_client_parameter(known) => {
                    let twice = known != "options" && read.client.iter().any(|(earlier, _)| earlier == known);
                    read.client.push((known.to_owned(), value.into_owned()));
                    twice
                }
                _ => {
                    let query = url.query().unwrap_or_default();
                    return Err(Error::unknown_parameter(url.scheme(), &key, query));
                }
            };
            if twice {
                let key = Error::shown(&key);
                return Err(Error::invalid_argument(format!("URL parameter {key} is given twice")));
            }
        }
        Ok(read)
    }
}

fn is_client_parameter(key: &str) -> bool {
    CLIENT_PARAMETERS.contains(&key) || (key.starts_with("options[") && key.ends_with(']'))
}

fn one_of<T: Copy>(key: &str, value: &str, choices: &[(&str, T)]) -> Result<T> {
    let chosen = choices.iter().find(|(name, _)| *name == value);
    chosen.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        Error::invalid_argument(format!("{key} is one of {}", names.join(", ")))
    })
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::invalid_argument(format!("{key} is a whole number")))
}
