//! Keys by which the clients of a service are limited: functions from the head of a request to a
//! [`Key`].
//!
//! Any function `Fn(&Parts) -> Option<String>` is one. Requests without a key (`None`) share one
//! limit, so that no client evades a limit by leaving its key out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// The value of a header, such as an API key. A value that is no text counts as missing, and so do
/// several: a client may have added one to that of a proxy.
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
    move |parts| {
        let mut values = parts.headers.get_all(&name).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        value.to_str().ok().map(str::to_owned)
    }
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

/// The address of the peer, which the server has put into the request's extensions: of IPv4 the
/// whole address, of IPv6 the network of 64 bits, which one client has all of. Behind a proxy the
/// peer is the proxy: see [`forwarded`].
///
/// # Examples
/// ```
/// use std::net::SocketAddr;
///
/// use axum::extract::ConnectInfo;
/// use stanchion_tower::key;
///
/// // With `into_make_service_with_connect_info::<SocketAddr>()`:
/// let peer = key::peer_ip(|info: &ConnectInfo<SocketAddr>| info.0.ip());
/// # let (mut parts, ()) = http::Request::new(()).into_parts();
/// # parts.extensions.insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 80))));
/// # assert_eq!(peer(&parts).as_deref(), Some("127.0.0.1"));
/// ```
pub fn peer_ip<T: Clone + Send + Sync + 'static>(
    address: impl Fn(&T) -> IpAddr + Clone,
) -> impl Fn(&Parts) -> Option<String> + Clone {
    extension(move |from: &T| network(address(from), 32, 64))
}

/// The address of the client as proxies in front of the service tell it in `X-Forwarded-For`, in
/// the form of [`peer_ip`]. `trusted_hops` is the number of proxies that a request passes: each
/// adds the address of its own peer at the end, or as another field behind, so that the value at
/// that place from the end is what a proxy of yours has seen. Everything before it is the client's
/// own claim, and is not looked at.
///
/// Requests without an address at that place have no key. A service that clients reach without the
/// proxies trusts their claims: let it listen where only the proxies reach it, or use
/// [`forwarded_through`].
///
/// # Panics
/// If `trusted_hops` is 0.
///
/// # Examples
/// ```
/// let (parts, ()) = http::Request::builder()
///     .header("x-forwarded-for", "10.9.9.9, 192.0.2.7")
///     .body(())?
///     .into_parts();
/// assert_eq!(stanchion_tower::key::forwarded(1)(&parts).as_deref(), Some("192.0.2.7"));
/// # Ok::<(), http::Error>(())
/// ```
pub fn forwarded(trusted_hops: usize) -> impl Fn(&Parts) -> Option<String> + Clone {
    assert!(trusted_hops > 0, "without a proxy in front, the peer is the client: `key::peer_ip`");
    move |parts| {
        let value = forwarded_for(parts).nth(trusted_hops - 1)?;
        Some(network(address(value)?, 32, 64))
    }
}

/// The address of the client as [`forwarded`] reads it, behind any number of proxies whose
/// addresses are `trusted`: the last address of `X-Forwarded-For` and the peer that is not. A peer
/// that is not trusted is the client, whatever it claims. Where all are trusted, the first one is
/// the client; a trusted proxy that tells no address leaves the request without a key.
///
/// # Examples
/// ```
/// use std::net::{IpAddr, SocketAddr};
///
/// use axum::extract::ConnectInfo;
/// use stanchion_tower::key;
///
/// let client = key::forwarded_through(
///     |info: &ConnectInfo<SocketAddr>| info.0.ip(),
///     |address| matches!(address, IpAddr::V4(address) if address.octets()[0] == 10),
/// );
/// # let request = http::Request::builder().header("x-forwarded-for", "192.0.2.7, 10.1.1.1");
/// # let (mut parts, ()) = request.body(()).unwrap().into_parts();
/// # parts.extensions.insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 80))));
/// # assert_eq!(client(&parts).as_deref(), Some("192.0.2.7"));
/// ```
pub fn forwarded_through<T: Clone + Send + Sync + 'static>(
    peer: impl Fn(&T) -> IpAddr + Clone,
    trusted: impl Fn(IpAddr) -> bool + Clone,
) -> impl Fn(&Parts) -> Option<String> + Clone {
    move |parts| {
        let mut client = peer(parts.extensions.get::<T>()?).to_canonical();
        let mut values = forwarded_for(parts);
        while trusted(client) {
            match values.next() {
                Some(value) => client = address(value)?,
                None => break,
            }
        }
        Some(network(client, 32, 64))
    }
}

/// Returns the network of an address, of that many bits: `192.0.2.7`, `192.0.2.0/24`,
/// `2001:db8::/64`. An IPv4 address within IPv6 counts as one of IPv4.
///
/// # Examples
/// ```
/// use stanchion_tower::key::network;
///
/// assert_eq!(network("::ffff:192.0.2.7".parse()?, 24, 56), "192.0.2.0/24");
/// assert_eq!(network("2001:db8:0:1ff::1".parse()?, 24, 56), "2001:db8:0:100::/56");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[must_use]
pub fn network(address: IpAddr, v4_bits: u8, v6_bits: u8) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) if v4_bits >= 32 => address.to_string(),
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4_bits)).unwrap_or(0);
            format!("{}/{v4_bits}", Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) if v6_bits >= 128 => address.to_string(),
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6_bits)).unwrap_or(0);
            format!("{}/{v6_bits}", Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

/// Returns the values of `X-Forwarded-For`, the last one first. Several fields are one list
/// (RFC 9110, 5.3).
fn forwarded_for(parts: &Parts) -> impl Iterator<Item = &[u8]> {
    let fields = parts.headers.get_all("x-forwarded-for").iter().rev();
    fields.flat_map(|field| field.as_bytes().rsplit(|byte| *byte == b','))
}

/// Reads an address, which some proxies write with the port.
fn address(value: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let parsed = bare.unwrap_or(text).parse().ok();
    parsed
        .or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()))
        .map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(fields: &[&str], peer: &str) -> Parts {
        let mut request = http::Request::builder().extension(peer.parse::<IpAddr>().unwrap());
        for field in fields {
            request = request.header("x-forwarded-for", *field);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_client_moves_nobody_s_address_but_its_own_claims() {
        let peer = "10.0.0.1";
        let forwarded = |hops: usize, fields: &[&str]| forwarded(hops)(&parts(fields, peer));
        assert_eq!(forwarded(1, &["9.9.9.9, 192.0.2.7"]).as_deref(), Some("192.0.2.7"));
        assert_eq!(forwarded(2, &["9.9.9.9,192.0.2.7 , 10.0.0.2"]).as_deref(), Some("192.0.2.7"));
        assert_eq!(forwarded(1, &["9.9.9.9, [2001:db8::1:2]:443"]).as_deref(), Some("2001:db8::/64"));
        assert_eq!(forwarded(1, &["::ffff:192.0.2.7"]).as_deref(), Some("192.0.2.7"));
        assert_eq!(forwarded(1, &["192.0.2.7:80"]).as_deref(), Some("192.0.2.7"));
        for fields in [&[][..], &["9.9.9.9, unknown"], &["192.0.2.7,"], &[""]] {
            assert_eq!(forwarded(1, fields), None, "{fields:?}");
        }
        // Whatever the client writes, it does not leave its own limit.
        for claim in ["x", "9.9.9.9", ",", "é", "_hidden, 10.0.0.3", "192.0.2.7:x"] {
            for fields in [&[&*format!("{claim}, 192.0.2.7")][..], &[claim, "192.0.2.7"]] {
                assert_eq!(forwarded(1, fields).as_deref(), Some("192.0.2.7"), "{fields:?}");
            }
        }
        assert_eq!(forwarded(3, &["192.0.2.7, 10.0.0.2"]), None);
    }

    #[test]
    fn a_peer_that_is_not_trusted_is_the_client() {
        let trusted = |address: IpAddr| address.to_string().starts_with("10.");
        let client =
            |fields: &[&str], peer| forwarded_through(|peer: &IpAddr| *peer, trusted)(&parts(fields, peer));
        assert_eq!(
            client(&["9.9.9.9, 192.0.2.7, 10.1.1.1"], "::ffff:10.0.0.1").as_deref(),
            Some("192.0.2.7")
        );
        assert_eq!(client(&["9.9.9.9"], "192.0.2.8").as_deref(), Some("192.0.2.8"));
        assert_eq!(client(&["10.1.1.1"], "10.0.0.1").as_deref(), Some("10.1.1.1"), "all are trusted");
        assert_eq!(client(&["9.9.9.9", "8.8.8.8"], "10.0.0.1").as_deref(), Some("8.8.8.8"));
        assert_eq!(client(&["x, 8.8.8.8, 10.1.1.1"], "10.0.0.1").as_deref(), Some("8.8.8.8"));
        assert_eq!(client(&["8.8.8.8, x"], "10.0.0.1"), None);
    }

    #[test]
    fn several_values_of_a_header_are_none() {
        let of = |values: &[&str]| {
            let request = http::Request::builder();
            let request = values.iter().fold(request, |request, value| request.header("x-user", *value));
            header("x-user")(&request.body(()).unwrap().into_parts().0)
        };
        assert_eq!((of(&["a"]).as_deref(), of(&["a", "b"]), of(&[])), (Some("a"), None, None));
    }

    #[test]
    fn a_network_has_as_many_bits_as_it_is_told() {
        let of = |text: &str, v4, v6| network(text.parse().unwrap(), v4, v6);
        assert_eq!([of("192.0.2.7", 32, 64), of("192.0.2.7", 0, 64)], ["192.0.2.7", "0.0.0.0/0"]);
        assert_eq!(of("2001:db8::1", 32, 128), "2001:db8::1");
        assert_eq!([of("2001:db8::1", 32, 0), of("2001:db8::1", 32, 32)], ["::/0", "2001:db8::/32"]);
    }
}
