//! What a request carries.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error;
use serde_json::value::RawValue;

/// The longest name of a payload, in bytes.
const LONGEST_ID: usize = 128;

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
    /// It is not JSON, or not the object `{"payloads": […]}`.
    #[error("not a collection of payloads: {0}")]
    Collection(#[source] serde_json::Error),
    /// It has no payloads.
    #[error("a collection has at least one payload")]
    Empty,
    /// A payload, counted from 0, is not an object with an `id`.
    #[error("payload {position} is not an object with an id: {source}")]
    Payload {
        /// Which one.
        position: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A payload's `id` is empty or too long.
    #[error("the id of payload {position} does not have 1 to 128 bytes")]
    Id {
        /// Which one, counted from 0.
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
    /// Reads a body and checks it: `{"payloads": [{"id": "…", …}, …]}` with at least one payload, each an object with an
    /// `id` of 1 to 128 bytes. What else a payload has is kept as it is.
    ///
    /// # Errors
    ///
    /// What is wrong with it first.
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
            if head.id.is_empty() || head.id.len() > LONGEST_ID {
                return Err(Malformed::Id { position });
            }
            push_line(&mut lines, payload.get());
        }
        Ok(Self { lines, payloads: u64::try_from(body.payloads.len()).unwrap_or(u64::MAX) })
    }

    /// How many payloads it has.
    pub fn payloads(&self) -> u64 {
        self.payloads
    }

    /// The payloads, each with a line feed behind it.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }
}

/// Reads an object only: a derived `Deserialize` takes an array of its fields too.
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
