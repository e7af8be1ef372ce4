//! Framing of the Postgres protocol, version 3.

use super::stop::Stop;

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
/// Maximum length of a first packet; the server refuses a longer one, too.
const MAXIMUM_OPENING: usize = 10_000;

/// The first packet of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// A request for TLS or GSS encryption, answered by one byte.
    Encryption,
    Cancel,
    /// The start-up message, with its parameters as words.
    Startup(String),
}

/// Returns the length and the meaning of the first packet, which has no type byte.
pub(super) fn opening(bytes: &[u8]) -> Result<(usize, Opening), Stop> {
    let length = length_at(bytes, 0)?;
    if !(8..=MAXIMUM_OPENING).contains(&length) {
        return Err(Stop::Foreign);
    }
    let packet = bytes.get(..length).ok_or(Stop::Part)?;
    let opening = match u32_at(packet, 4)? {
        CANCEL => Opening::Cancel,
        SSL | GSS => Opening::Encryption,
        version if version >> 16 == 3 => {
            let parameters = packet[8..].split(|&byte| byte == 0).filter(|part| !part.is_empty());
            Opening::Startup(parameters.map(words).collect::<Vec<_>>().join(" "))
        }
        _ => return Err(Stop::Foreign),
    };
    Ok((length, opening))
}

/// Returns the length of the message at the front, including its type byte.
pub(super) fn message(bytes: &[u8]) -> Result<usize, Stop> {
    if !bytes.first().ok_or(Stop::Part)?.is_ascii_alphanumeric() {
        return Err(Stop::Foreign);
    }
    let length = length_at(bytes, 1)?;
    if length < 4 {
        return Err(Stop::Foreign);
    }
    let whole = length.saturating_add(1);
    if bytes.len() < whole { Err(Stop::Part) } else { Ok(whole) }
}

/// Returns whether the server waits for the client after this message.
pub(super) fn awaits_client(message: &[u8]) -> bool {
    match message[0] {
        b'G' | b'W' => true,
        // Any authentication message except the success, and except the last message of SASL, which
        // the success follows.
        b'R' => !matches!(u32_at(message, 5), Ok(0 | 12)),
        _ => false,
    }
}

/// Returns the string before the next zero byte, and the bytes after it.
pub(super) fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// Returns a statement with its white space replaced by single blanks.
pub(super) fn words(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first word of a statement, in upper case.
pub(super) fn first_word(statement: &str) -> String {
    let end = statement.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    statement[..end.unwrap_or(statement.len())].to_ascii_uppercase()
}

fn length_at(bytes: &[u8], at: usize) -> Result<usize, Stop> {
    usize::try_from(u32_at(bytes, at)?).map_err(|_| Stop::Foreign)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Stop> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Stop::Part)?;
    Ok(u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::{Opening, Stop, awaits_client, first_word, message, opening, text, words};

    #[test]
    fn the_opening_is_read() {
        assert_eq!(opening(&[0, 0, 0, 8, 4, 210, 22, 47, 1]), Ok((8, Opening::Encryption)));
        let startup = b"\0\0\0\x12\0\x03\0\0user\0ann\0\0";
        for end in 0..startup.len() {
            assert_eq!(opening(&startup[..end]), Err(Stop::Part));
        }
        assert_eq!(opening(startup), Ok((18, Opening::Startup("user ann".to_owned()))));
        assert_eq!(opening(b"\x16\x03\x01\x02\0\x01\0\x01"), Err(Stop::Foreign));
    }

    #[test]
    fn messages_end_where_they_end() {
        let sync = b"S\0\0\0\x04";
        assert_eq!(message(&sync[..4]), Err(Stop::Part));
        assert_eq!(message(&[&sync[..], b"Q"].concat()), Ok(5));
        assert_eq!(message(b"S\0\0\0\x03"), Err(Stop::Foreign));
        assert!(awaits_client(b"R\0\0\0\x08\0\0\0\x0a") && !awaits_client(b"R\0\0\0\x08\0\0\0\0"));
    }

    #[test]
    fn statements_become_words() {
        assert_eq!(text(b"a\0b\0"), (&b"a"[..], &b"b\0"[..]));
        assert_eq!(words(b" select\n\t1 "), "select 1");
        assert_eq!(first_word("select(1)"), "SELECT");
        assert_eq!(first_word(""), "");
    }
}
