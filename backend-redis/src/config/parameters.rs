//! The parameters of a URL.

use std::time::Duration;

use stanchion_core::{Error, Result};
use url::Url;

use super::tls::TlsFiles;

/// The parameters of this crate, and those of the URL of a socket, which belong to the client library.
#[derive(Default)]
pub(crate) struct Parameters {
    pub(crate) namespace: Option<String>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) replicas: Option<u32>,
    pub(crate) fsync: Option<bool>,
    pub(crate) confirm_renewals: Option<bool>,
    pub(crate) client_name: Option<String>,
    pub(crate) is_resp2: Option<bool>,
    pub(super) tls: TlsFiles,
    pub(super) server_name: Option<String>,
    pub(super) sentinel_user: Option<String>,
    pub(super) sentinel_password: Option<String>,
    pub(super) socket: Vec<(String, String)>,
}

impl Parameters {
    /// Reads the parameters of a URL of this scheme.
    ///
    /// # Errors
    /// `InvalidArgument` for a parameter that is unknown, given twice or malformed.
    pub(super) fn read(scheme: &str, url: &Url) -> Result<Self> {
        let mut read = Self::default();
        for (key, value) in url.query_pairs() {
            let value = value.into_owned();
            let twice = match key.as_ref() {
                "namespace" => read.namespace.replace(value).is_some(),
                "request_timeout_ms" => {
                    let timeout = Duration::from_millis(number(&key, &value)?);
                    read.request_timeout.replace(timeout).is_some()
                }
                "connect_timeout_ms" => {
                    let timeout = Duration::from_millis(number(&key, &value)?);
                    read.connect_timeout.replace(timeout).is_some()
                }
                "replicas" => read.replicas.replace(number(&key, &value)?).is_some(),
                "fsync" => read.fsync.replace(switch(&key, &value)?).is_some(),
                "confirm_renewals" => read.confirm_renewals.replace(switch(&key, &value)?).is_some(),
                "client_name" => read.client_name.replace(value).is_some(),
                "protocol" => {
                    let is_resp2 = match value.as_str() {
                        "resp2" => true,
                        "resp3" => false,
                        _ => return Err(Error::invalid_argument("protocol is resp2 or resp3")),
                    };
                    read.is_resp2.replace(is_resp2).is_some()
                }
                "ca" if scheme.starts_with("rediss") => read.tls.ca.replace(value).is_some(),
                "cert" if scheme.starts_with("rediss") => read.tls.cert.replace(value).is_some(),
                "key" if scheme.starts_with("rediss") => read.tls.key.replace(value).is_some(),
                "server_name" if scheme == "rediss" => read.server_name.replace(value).is_some(),
                "sentinel_user" if scheme.ends_with("+sentinel") => {
                    read.sentinel_user.replace(value).is_some()
                }
                "sentinel_password" if scheme.ends_with("+sentinel") => {
                    read.sentinel_password.replace(value).is_some()
                }
                "db" | "user" | "pass" if scheme == "redis+unix" => {
                    let twice = read.socket.iter().any(|(known, _)| *known == key);
                    read.socket.push((key.clone().into_owned(), value));
                    twice
                }
                _ => {
                    return Err(Error::unknown_parameter(scheme, &key, url.query().unwrap_or_default()));
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

fn switch(key: &str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Error::invalid_argument(format!("{key} is on or off"))),
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::invalid_argument(format!("{key} is a whole number")))
}
