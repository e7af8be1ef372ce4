//! The errors of URLs that do not parse, in the same words on every store
//! ([C21](crate::contract#c21)). They repeat nothing that may be a part of a password: in a
//! malformed URL it can stand anywhere.

use super::{Error, Shown};

/// How the delimiters of a URL are written in a password.
const ESCAPED: &str =
    "in a user, password or parameter, percent-encode `#` as %23, `/` as %2F, `?` as %3F and `@` as %40";

impl Error {
    /// Returns the error of a URL `SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,…][/PATH][?…]` that was
    /// not understood, for authors of stores. Its text says which part is wrong.
    #[must_use]
    pub fn malformed_url(url: &str) -> Self {
        let Some(rest) = url.split_once(':').and_then(|(_, rest)| rest.strip_prefix("//")) else {
            return Self::invalid_argument(
                "two slashes and a host follow the scheme of a URL: SCHEME://HOST",
            );
        };
        if rest.contains('#') {
            return Self::invalid_argument(format!("a URL has no fragment (`#`): {ESCAPED}"));
        }
        let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if tail.contains('@') {
            return Self::invalid_argument(format!("an `@` stands behind the host of the URL: {ESCAPED}"));
        }
        Self::invalid_argument(fault(authority))
    }

    /// Returns the error of a URL parameter that is unknown, for authors of stores. `query` is the
    /// text of all parameters. The text names the key, unless it may be a part of a password.
    #[must_use]
    pub fn unknown_parameter(scheme: &str, key: &str, query: &str) -> Self {
        if query.contains('@') || key.contains('@') {
            return Self::invalid_argument(format!("unknown URL parameter of {scheme}://; {ESCAPED}"));
        }
        Self::invalid_argument(format!("unknown URL parameter {} of {scheme}://", Shown(key)))
    }
}

/// Returns the mistake in user, password, hosts and ports.
fn fault(authority: &str) -> &'static str {
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let other =
        "the user, password or host of the URL is not understood (percent-encoded UTF-8, no wildcard)";
    hosts.split(',').find_map(fault_of_host).unwrap_or(other)
}

fn fault_of_host(host: &str) -> Option<&'static str> {
    // The colons inside brackets belong to an address.
    let (name, port) = match host.rsplit_once(']') {
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or_default()),
        None => host.split_once(':').unwrap_or((host, "")),
    };
    if port.contains(':') {
        return Some("the port of the URL is not a number (an IPv6 address stands in brackets: [::1]:6379)");
    }
    if name.is_empty() {
        return Some("the host of the URL is missing");
    }
    let is_wrong = !port.is_empty() && port.parse::<u16>().is_err();
    is_wrong.then_some("the port of the URL is not a number up to 65535")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn c21_the_text_says_which_part_of_a_url_is_wrong() {
        for (url, words) in [
            ("redis:", "two slashes"),
            ("redis:/localhost", "two slashes"),
            ("redis:x://h", "two slashes"),
            ("redis://", "host of the URL is missing"),
            ("redis:///0", "host of the URL is missing"),
            ("redis://me:pw@:6379", "host of the URL is missing"),
            ("redis://a,,b", "host of the URL is missing"),
            ("redis://h:notaport", "port of the URL"),
            ("redis://a,h:65536/0", "port of the URL"),
            ("redis://[::1]:x", "port of the URL"),
            ("redis://::1:6379", "in brackets"),
            ("redis://me:%ff@h", "user, password or host"),
            ("redis://h/0#x", "`#` as %23"),
            ("redis://me:p@s3cret#w/rd@h", "`#` as %23"),
            ("redis://me:p/s3cret@h", "`/` as %2F"),
            ("redis://me:1?s3cret@h", "`?` as %3F"),
        ] {
            let error = Error::malformed_url(url);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(words), "{url}: {error}");
            assert!(!error.to_string().contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn c21_an_unknown_parameter_is_told_unless_it_may_be_a_password() {
        let told = |key: &str, query: &str| Error::unknown_parameter("redis", key, query).to_string();
        assert!(told("namespaze", "namespaze=a").ends_with("URL parameter \"namespaze\" of redis://"));
        assert!(told(&"x".repeat(100), "").contains("(100 bytes)"));
        for query in ["s3cret=x@h", "s3cret@h/"] {
            let text = told("s3cret", query);
            assert!(!text.contains("s3cret") && text.contains("%3F"), "{text}");
        }
    }
}
