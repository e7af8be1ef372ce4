//! Takes a URL with several hosts apart, which no URL parser does.

use std::fmt;

use crate::{Error, Result};

/// For authors of stores: the parts of a URL
/// `SCHEME://[USER[:PASSWORD]@][HOST[:PORT]][,…][/PATH][?…]`, not decoded.
#[derive(Clone)]
pub struct UrlParts<'a> {
    text: &'a str,
    /// The scheme, in lower case.
    pub scheme: String,
    /// User, password and the `@`, if there are any.
    pub userinfo: &'a str,
    /// The hosts with their ports: at least one, which may be empty.
    pub hosts: Vec<&'a str>,
    /// The path, without its leading slash.
    pub path: &'a str,
    /// The parameters, without the `?`.
    pub query: &'a str,
}

impl<'a> UrlParts<'a> {
    /// Takes a URL apart that has one of these schemes. `store` names the store in errors.
    ///
    /// # Errors
    /// `InvalidArgument`, without any part of the URL that may be a password.
    pub fn read(text: &'a str, store: &str, schemes: &[&str]) -> Result<Self> {
        let scheme = text.split(':').next().unwrap_or_default();
        let rest = text.get(scheme.len()..).and_then(|rest| rest.strip_prefix("://")).unwrap_or_default();
        let scheme = scheme.to_ascii_lowercase();
        if !schemes.contains(&scheme.as_str()) {
            let schemes: Vec<_> = schemes.iter().map(|scheme| format!("{scheme}://")).collect();
            let detail = format!("the scheme of a {store} URL is one of {}", schemes.join(", "));
            return Err(Error::invalid_argument(detail));
        }
        let is_socket = scheme.ends_with("+unix");
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = before.split_once('/').unwrap_or((before, ""));
        let (userinfo, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let parts = Self { text, scheme, userinfo, hosts: hosts.split(',').collect(), path, query };
        // An `@` behind the host may be the end of a password that was not escaped.
        let has_at = query.contains('@') || (!is_socket && path.contains('@'));
        let has_gap = parts.hosts.len() > 1 && parts.hosts.contains(&"");
        if rest.is_empty() || rest.contains('#') || has_at || has_gap {
            return Err(parts.malformed());
        }
        Ok(parts)
    }

    /// Returns the error of a URL that was not understood, which says what part of it is wrong.
    #[must_use]
    pub fn malformed(&self) -> Error {
        Error::malformed_url(self.text)
    }
}

impl fmt::Debug for UrlParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlParts").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<UrlParts<'_>> {
        UrlParts::read(text, "Any", &["any", "any+unix"])
    }

    #[test]
    fn the_parts_of_a_url_are_found() {
        let url = read("ANY://u:a,b@h1:1,[::1]:2/p/q?x=a/b").unwrap();
        assert_eq!((url.scheme.as_str(), url.userinfo), ("any", "u:a,b@"));
        assert_eq!(url.hosts, ["h1:1", "[::1]:2"]);
        assert_eq!((url.path, url.query), ("p/q", "x=a/b"));
        let url = read("any://?x").unwrap();
        assert_eq!((url.hosts.as_slice(), url.path, url.query), (&[""][..], "", "x"));
        assert_eq!(read("any+unix:///run/a@b").unwrap().path, "run/a@b");
    }

    #[test]
    fn c21_no_error_shows_a_part_of_a_password() {
        for text in [
            "",
            "any",
            "any:s3cret",
            "any://",
            "other://u:s3cret@h",
            "any://u:s3cret@a,,b",
            "any://u:1/s3cret@h",
        ] {
            let error = read(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        let schemes = "the scheme of a Any URL is one of any://, any+unix://";
        assert!(read("x://h").unwrap_err().to_string().ends_with(schemes));
        assert!(!format!("{:?}", read("any://u:s3cret@h").unwrap()).contains("s3cret"));
    }
}
