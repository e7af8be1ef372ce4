//! Values that a caller passed in, as texts show them ([C21](crate::contract#c21)).

use std::fmt;

use super::Error;

/// Maximum length of a value in a text, in bytes.
const MAX_SHOWN: usize = 64;
/// Maximum length of a port, in digits.
const MAX_PORT: usize = 5;

/// A value in quotes, with control characters escaped, and its first 64 bytes alone if it is
/// longer.
pub(super) struct Shown<'a>(pub(super) &'a str);

/// The address of a server, as [`Shown`] but without quotes. The port of a long one is there, too.
pub(super) struct ShownAddress<'a>(pub(super) &'a str);

impl Error {
    /// Returns a value that a caller passed in as texts may show it, for authors of stores: in
    /// quotes, with control characters escaped, and its first 64 bytes alone if it is longer
    /// ([C21]).
    ///
    /// [C21]: crate::contract#c21
    #[must_use]
    pub fn shown(value: &str) -> impl fmt::Display {
        Shown(value)
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = beginning(self.0);
        write!(f, "{shown:?}")?;
        write_length(f, shown, self.0)
    }
}

impl fmt::Display for ShownAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = match self.0.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port),
            _ => (self.0, ""),
        };
        let shown = beginning(host);
        write!(f, "{}", shown.escape_debug())?;
        write_length(f, shown, host)?;
        if port.is_empty() { Ok(()) } else { write!(f, ":{port}") }
    }
}

fn is_port(text: &str) -> bool {
    (1..=MAX_PORT).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the shown part of a value.
fn beginning(value: &str) -> &str {
    let end = (0..=MAX_SHOWN.min(value.len())).rev().find(|&at| value.is_char_boundary(at));
    &value[..end.unwrap_or_default()]
}

/// Writes how long a value is, if only its beginning was written.
fn write_length(f: &mut fmt::Formatter<'_>, shown: &str, value: &str) -> fmt::Result {
    if shown.len() < value.len() { write!(f, "… ({} bytes)", value.len()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c21_long_and_odd_values_are_cut() {
        assert_eq!(Error::shown("a\n\"b").to_string(), r#""a\n\"b""#);
        let long = format!("{}é", "x".repeat(63));
        assert_eq!(Error::shown(&long).to_string(), format!("{:?}… (65 bytes)", "x".repeat(63)));
    }

    #[test]
    fn c21_an_address_is_shown_with_its_port() {
        let shown = |address: &str| ShownAddress(address).to_string();
        for address in ["127.0.0.1:6379", "::1:7000", "/run/redis:1/redis.sock", "h", "h:", ""] {
            assert_eq!(shown(address), address);
        }
        assert_eq!(shown("a\nb:6379"), "a\\nb:6379");
        let host = "h".repeat(70);
        assert_eq!(shown(&format!("{host}:6379")), format!("{}… (70 bytes):6379", &host[..64]));
        assert_eq!(shown(&format!("{host}:637900")), format!("{}… (77 bytes)", &host[..64]));
    }
}
