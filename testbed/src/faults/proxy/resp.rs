//! Framing of the Redis protocol, versions 2 and 3:
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use std::ops::Range;

use super::stop::Stop;

/// Maximum number of elements of a request that are kept for its text.
const KEPT: usize = 32;

/// One command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The length on the wire, in bytes.
    pub(super) length: usize,
    /// The number of its elements.
    pub(super) count: usize,
    /// The first elements.
    pub(super) words: Vec<String>,
    pub(super) last: String,
}

/// One reply or push message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The length on the wire, in bytes, including the attributes in front.
    pub(super) length: usize,
    /// The type byte, after the attributes.
    pub(super) kind: u8,
    /// Whether it is one of the forms of a null reply.
    pub(super) nil: bool,
    /// The first element of an array or a push message, in lower case.
    pub(super) head: String,
}

/// Parses the command at the front of a client's bytes.
pub(super) fn command(bytes: &[u8]) -> Result<Command, Stop> {
    match bytes.first() {
        None => Err(Stop::Part),
        Some(b'*') => array_command(bytes),
        Some(first) if first.is_ascii_alphabetic() || first.is_ascii_whitespace() => inline_command(bytes),
        Some(_) => Err(Stop::Foreign),
    }
}

fn inline_command(bytes: &[u8]) -> Result<Command, Stop> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(Stop::Part)?;
    let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    let last = words.last().cloned().unwrap_or_default();
    Ok(Command { length: end + 1, count: words.len(), words, last })
}

fn array_command(bytes: &[u8]) -> Result<Command, Stop> {
    let (count, mut at) = header(bytes, 0)?;
    let count = usize::try_from(count).unwrap_or(0);
    let mut words = Vec::new();
    let mut last = String::new();
    for index in 0..count {
        let element = bulk(bytes, at)?;
        at = element.end + 2;
        if index < KEPT || index + 1 == count {
            last = String::from_utf8_lossy(&bytes[element]).into_owned();
            words.extend((index < KEPT).then(|| last.clone()));
        }
    }
    Ok(Command { length: at, count, words, last })
}

/// Returns the elements of a complete command; `None` for an inline one.
pub(super) fn elements(command: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut at) = header(command, 0).ok().filter(|_| command.first() == Some(&b'*'))?;
    let mut elements = Vec::new();
    for _ in 0..count {
        let element = bulk(command, at).ok()?;
        at = element.end + 2;
        elements.push(&command[element]);
    }
    Some(elements)
}

/// Parses the reply or push message at the front of a server's bytes.
pub(super) fn frame(bytes: &[u8]) -> Result<Frame, Stop> {
    let mut at = 0;
    while bytes.get(at) == Some(&b'|') {
        at = end_of(bytes, at)?;
    }
    let length = end_of(bytes, at)?;
    let kind = bytes[at];
    let nil = kind == b'_' || (b"*$".contains(&kind) && bytes[at + 1..].starts_with(b"-1\r"));
    Ok(Frame { length, kind, nil, head: head(bytes, at) })
}

/// Returns the first element of the value at `at`, if it has elements and the first one is a
/// string.
fn head(bytes: &[u8], at: usize) -> String {
    let first = header(bytes, at).and_then(|(_, next)| bulk(bytes, next));
    match (bytes[at], first) {
        (b'*' | b'>', Ok(first)) => String::from_utf8_lossy(&bytes[first]).to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// Returns where the value at `at` ends. Counts elements instead of recursion, so that any depth
/// works.
fn end_of(bytes: &[u8], mut at: usize) -> Result<usize, Stop> {
    let mut missing: u64 = 1;
    while missing > 0 {
        missing -= 1;
        let kind = *bytes.get(at).ok_or(Stop::Part)?;
        match kind {
            b'+' | b'-' | b':' | b',' | b'(' | b'#' | b'_' => at = end_of_line(bytes, at)? + 2,
            b'$' | b'!' | b'=' => {
                let (length, next) = header(bytes, at)?;
                at = usize::try_from(length).map_or(next, |length| next.saturating_add(length + 2));
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let (count, next) = header(bytes, at)?;
                let width = if b"%|".contains(&kind) { 2 } else { 1 };
                missing = missing.saturating_add(u64::try_from(count).unwrap_or(0).saturating_mul(width));
                at = next;
            }
            _ => return Err(Stop::Foreign),
        }
        if at > bytes.len() {
            return Err(Stop::Part);
        }
    }
    Ok(at)
}

/// Returns the range of the bulk string at `at`.
fn bulk(bytes: &[u8], at: usize) -> Result<Range<usize>, Stop> {
    if *bytes.get(at).ok_or(Stop::Part)? != b'$' {
        return Err(Stop::Foreign);
    }
    let (length, next) = header(bytes, at)?;
    let end = usize::try_from(length).map_err(|_| Stop::Foreign)?.saturating_add(next);
    if bytes.len() < end.saturating_add(2) { Err(Stop::Part) } else { Ok(next..end) }
}

/// Returns the number after the type byte at `at`, and where the next line begins.
fn header(bytes: &[u8], at: usize) -> Result<(i64, usize), Stop> {
    let end = end_of_line(bytes, at)?;
    let text = std::str::from_utf8(&bytes[at + 1..end]).map_err(|_| Stop::Foreign)?;
    Ok((text.parse().map_err(|_| Stop::Foreign)?, end + 2))
}

/// Returns the position of the `\r` of the line that begins at `at`.
fn end_of_line(bytes: &[u8], at: usize) -> Result<usize, Stop> {
    let rest = bytes.get(at..).ok_or(Stop::Part)?;
    rest.windows(2).position(|pair| pair == b"\r\n").map(|end| at + end).ok_or(Stop::Part)
}

#[cfg(test)]
mod tests {
    use super::{Stop, command, frame};

    /// Returns the length of the frame at the front, and checks that every shorter prefix is
    /// incomplete.
    fn whole(bytes: &[u8]) -> usize {
        for end in 0..bytes.len() {
            assert_eq!(frame(&bytes[..end]).err(), Some(Stop::Part), "{end} of {}", bytes.escape_ascii());
        }
        frame(&[bytes, b"+NEXT\r\n"].concat()).unwrap().length
    }

    #[test]
    fn replies_of_every_type_end_where_they_end() {
        let replies = [
            "+OK\r\n",
            "-ERR no\r\n",
            ":12\r\n",
            "$5\r\na\r\nbc\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "_\r\n",
            "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            "%1\r\n+a\r\n*1\r\n,1.5\r\n",
            "~1\r\n#t\r\n",
            "(123\r\n",
            "=6\r\ntxt:ab\r\n",
            ">2\r\n$7\r\nmessage\r\n:1\r\n",
            "|1\r\n+ttl\r\n:1\r\n:7\r\n",
            "!3\r\nERR\r\n",
        ];
        for reply in replies {
            assert_eq!(whole(reply.as_bytes()), reply.len(), "{reply:?}");
        }
        assert_eq!(frame(b"\x16\x03").err(), Some(Stop::Foreign));
    }

    #[test]
    fn replies_tell_their_kind() {
        let push = frame(b">2\r\n$7\r\nMessage\r\n:1\r\n").unwrap();
        assert_eq!((push.kind, push.head.as_str(), push.nil), (b'>', "message", false));
        assert!(frame(b"*-1\r\n").unwrap().nil && frame(b"_\r\n").unwrap().nil);
        assert!(!frame(b":-1\r\n").unwrap().nil && !frame(b"$0\r\n\r\n").unwrap().nil);
        assert_eq!(frame(b"|1\r\n+ttl\r\n:1\r\n:7\r\n").unwrap().kind, b':');
    }

    #[test]
    fn commands_are_read_in_both_forms() {
        let bytes = b"*3\r\n$5\r\nBLPOP\r\n$1\r\na\r\n$3\r\n0.5\r\n";
        for end in 0..bytes.len() {
            assert_eq!(command(&bytes[..end]).err(), Some(Stop::Part));
        }
        let blpop = command(&[&bytes[..], b"PING\r\n"].concat()).unwrap();
        assert_eq!((blpop.length, blpop.count, blpop.last.as_str()), (bytes.len(), 3, "0.5"));
        assert_eq!(blpop.words, ["BLPOP", "a", "0.5"]);
        let inline = command(b"set a b\r\n").unwrap();
        assert_eq!((inline.length, inline.words.len()), (9, 3));
        assert_eq!(command(b"\x16\x03\x01").err(), Some(Stop::Foreign));
    }
}
