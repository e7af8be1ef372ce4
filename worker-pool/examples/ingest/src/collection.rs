//! The payloads of a request.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error;
use serde_json::value::RawValue;

/// Maximum length of a payload's `id`, in bytes.
const MAXIMUM_ID_BYTES: usize = 128;

/// The payloads of one request, each on a line of its own: newline-delimited JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct Collection {
    lines: Vec<u8>,
    payloads: u64,
}

/// Why a body is no collection of payloads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The body is not JSON, or not the object `{"payloads": […]}`.
    #[error("not a collection of payloads: {0}")]
    Collection(#[source] serde_json::Error),
    /// The collection has no payloads.
    #[error("a collection has at least one payload")]
    Empty,
    /// A payload, counted from 0, is not an object with an `id`.
    #[error("payload {position} is not an object with an id: {source}")]
    Payload {
        /// Position of the payload.
        position: usize,
        /// Why it could not be read.
        source: serde_json::Error,
    },
    /// A payload's `id` is empty or too long.
    #[error("the id of payload {position} does not have 1 to 128 bytes")]
    Id {
        /// Position of the payload, from 0.
        position: usize,
    },
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    payloads: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

impl Collection {
    /// Reads a body and checks it: `{"payloads": [{"id": "…", …}, …]}` with at least one payload,
    /// each an object with an `id` of 1 to 128 bytes. The other fields of a payload are kept
    /// unchanged.
    ///
    /// # Errors
    ///
    /// The first mistake in the body.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let body: Body<'_> = object(body).map_err(Malformed::Collection)?;
        if body.payloads.is_empty() {
            return Err(Malformed::Empty);
        }
        let length = body.payloads.iter().map(|payload| payload.get().len() + 1).sum();
        let mut lines = Vec::with_capacity(length);
        for (position, payload) in body.payloads.iter().enumerate() {
            let head: Head<'_> =
                object(payload.get().as_bytes()).map_err(|source| Malformed::Payload { position, source })?;
            if head.id.is_empty() || head.id.len() > MAXIMUM_ID_BYTES {
                return Err(Malformed::Id { position });
            }
            push_line(&mut lines, payload.get());
        }
        Ok(Self { lines, payloads: u64::try_from(body.payloads.len()).unwrap_or(u64::MAX) })
    }

    /// Returns the number of payloads.
    pub fn payloads(&self) -> u64 {
        self.payloads
    }

    /// Returns the payloads, each followed by a line feed.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }
}

/// Reads an object only, because a derived `Deserialize` accepts an array of the fields too.
fn object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    match text.trim_ascii_start().first() {
        Some(b'{') | None => serde_json::from_slice(text),
        Some(_) => Err(serde_json::Error::custom("not an object")),
    }
}

fn push_line(lines: &mut Vec<u8>, payload: &str) {
    // JSON has line ends between its tokens only: inside a string they are escaped.
    let one_line = payload.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte });
    lines.extend(one_line);
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::{Collection, Malformed};

    #[test]
    fn each_payload_becomes_one_line() {
        let body = b"{\"payloads\": [{\"id\":\"a\",\r\n \"x\": \"1\\n2\"}, {\"id\":\"b\"}]}";
        let collection = Collection::read(body).unwrap();
        assert_eq!(collection.payloads(), 2);
        assert_eq!(collection.lines(), b"{\"id\":\"a\",   \"x\": \"1\\n2\"}\n{\"id\":\"b\"}\n");
    }

    #[test]
    fn what_is_no_collection_is_refused() {
        for body in
            ["", "{", "[]", "[[{\"id\":\"a\"}]]", "{}", "{\"payloads\": 1}", "{\"payloads\": []} x", "\u{0}"]
        {
            assert!(matches!(Collection::read(body.as_bytes()), Err(Malformed::Collection(_))), "{body:?}");
        }
        assert!(matches!(Collection::read(b"{\"payloads\": []}"), Err(Malformed::Empty)));
        for payload in ["1", "{}", "{\"id\": 1}", "null", "[\"id\"]"] {
            let body = format!("{{\"payloads\": [{{\"id\": \"a\"}}, {payload}]}}");
            let read = Collection::read(body.as_bytes());
            assert!(
                matches!(read, Err(Malformed::Payload { position: 1, .. } | Malformed::Id { position: 1 })),
                "{payload}: {read:?}"
            );
        }
    }

    #[test]
    fn an_id_has_1_to_128_bytes() {
        let with_id =
            |id: &str| Collection::read(format!("{{\"payloads\": [{{\"id\": \"{id}\"}}]}}").as_bytes());
        assert!(matches!(with_id(""), Err(Malformed::Id { position: 0 })));
        assert!(with_id(&"x".repeat(128)).is_ok());
        assert!(matches!(with_id(&"x".repeat(129)), Err(Malformed::Id { position: 0 })));
    }
}
