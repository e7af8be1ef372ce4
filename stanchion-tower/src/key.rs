//! Keys by which the clients of a service are limited: functions from the head of a request to a
//! [`Key`].
//!
//! Any function `Fn(&Parts) -> Option<String>` is one. Requests without a key (`None`) share one
//! limit, so that no client evades a limit by leaving its key out.

use http::HeaderName;
use http::request::Parts;

/// Which limit of a layer counts for a request. No text of a client is one of the other forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Key {
    /// That of the client with this text.
    Client(String),
    /// That of all requests without a key.
    Missing,
    /// That of all requests.
    All,
}

impl Key {
    /// Returns the text of a client; nothing for the other forms.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Client(text) => text,
            Self::Missing | Self::All => "",
        }
    }
}

impl From<Option<String>> for Key {
    fn from(client: Option<String>) -> Self {
        client.map_or(Self::Missing, Self::Client)
    }
}

impl From<String> for Key {
    fn from(client: String) -> Self {
        Self::Client(client)
    }
}

/// The value of a header, such as an API key. A value that is no text counts as missing.
///
/// An unchecked value limits nobody: each new value is another client, with a burst of its own and
/// a record at the store. Put the layer behind the layer that checks the value.
///
/// # Panics
/// If `name` is no name of a header in lower case.
///
/// # Examples
/// ```
/// let (parts, ()) = http::Request::builder().header("x-api-key", "abc").body(())?.into_parts();
/// assert_eq!(stanchion_tower::key::header("x-api-key")(&parts).as_deref(), Some("abc"));
/// # Ok::<(), http::Error>(())
/// ```
pub fn header(name: &'static str) -> impl Fn(&Parts) -> Option<String> + Clone {
    let name = HeaderName::from_static(name);
    move |parts| parts.headers.get(&name)?.to_str().ok().map(str::to_owned)
}

/// The path of the request.
pub fn path() -> impl Fn(&Parts) -> Option<String> + Clone {
    |parts| Some(parts.uri.path().to_owned())
}

/// A value that another layer or the server has put into the request's extensions, such as the
/// address of the peer or the name of the user.
///
/// # Examples
/// ```
/// use std::net::SocketAddr;
///
/// use axum::extract::ConnectInfo;
/// use stanchion_tower::key;
///
/// // With `into_make_service_with_connect_info::<SocketAddr>()`:
/// let peer = key::extension(|info: &ConnectInfo<SocketAddr>| info.0.ip().to_string());
/// # let (mut parts, ()) = http::Request::new(()).into_parts();
/// # parts.extensions.insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 80))));
/// # assert_eq!(peer(&parts).as_deref(), Some("127.0.0.1"));
/// ```
pub fn extension<T: Clone + Send + Sync + 'static>(
    key: impl Fn(&T) -> String + Clone,
) -> impl Fn(&Parts) -> Option<String> + Clone {
    move |parts| parts.extensions.get::<T>().map(&key)
}

/// One limit for all requests.
pub fn all() -> impl Fn(&Parts) -> Key + Clone {
    |_| Key::All
}
