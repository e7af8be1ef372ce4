//! Where a listing goes on.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Where a listing goes on, as [`ListPage::next`](super::ListPage::next) gives it. It belongs to
/// the store and the namespace that gave it.
///
/// `Display` gives a text that [`FromStr`] reads, so that a program can keep it. The text has no
/// other meaning, and another version of this library may refuse it. A cursor never expires: a
/// listing that goes on later lists every name that existed all the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    store: Box<str>,
    namespace: Box<str>,
    position: Box<str>,
}

/// Maximum length of the text of a cursor, in bytes.
const MAX_TEXT: usize = 4096;

impl Cursor {
    /// Makes the cursor of a position, which only that store understands.
    #[must_use]
    pub fn new(store: &str, namespace: &str, position: &str) -> Self {
        Self { store: store.into(), namespace: namespace.into(), position: position.into() }
    }

    /// Returns the position in a namespace of a store.
    ///
    /// # Errors
    /// `InvalidArgument` if the cursor belongs to another store or namespace.
    pub fn position(&self, store: &str, namespace: &str) -> Result<&str> {
        if &*self.store != store {
            let detail = format!("the cursor belongs to a store of the kind {}", self.store);
            return Err(Error::invalid_argument(detail));
        }
        if &*self.namespace != namespace {
            return Err(Error::invalid_argument("the cursor belongs to another namespace"));
        }
        Ok(&self.position)
    }

    /// Returns the error of a cursor that no store has given.
    #[must_use]
    pub fn invalid() -> Error {
        Error::invalid_argument("this is not the cursor of a listing")
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.store, self.namespace)?;
        self.position.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (store, rest) = text.split_once(':')?;
            let (namespace, position) = rest.split_once(':')?;
            let position = String::from_utf8(bytes(position)?).ok()?;
            let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_graphic());
            (!store.is_empty() && is_word(store) && is_word(namespace))
                .then(|| Self::new(store, namespace, &position))
        };
        if text.len() > MAX_TEXT { None } else { read() }.ok_or_else(Self::invalid)
    }
}

/// Reads hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(16 * digit(high)? + digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_cursor_is_read_from_its_text() {
        for position in ["", "m:7", "l:né\u{1b}:*"] {
            let cursor = Cursor::new("redis", "a.b-c_d", position);
            let text = cursor.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            assert_eq!(text.parse::<Cursor>().unwrap(), cursor);
        }
    }

    #[test]
    fn another_text_is_refused() {
        let long = format!("redis::{}", "61".repeat(MAX_TEXT));
        for bad in [
            "",
            "redis",
            "redis:ns",
            "redis:ns:6",
            "redis:ns:zz",
            "redis:ns:ff",
            ":ns:61",
            "a b:ns:61",
            &long,
        ] {
            let error = bad.parse::<Cursor>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn a_cursor_of_another_store_or_namespace_is_refused() {
        let cursor = Cursor::new("redis", "ns", "p");
        assert_eq!(cursor.position("redis", "ns").unwrap(), "p");
        for (store, namespace) in [("memory", "ns"), ("redis", "other")] {
            let error = cursor.position(store, namespace).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
}
