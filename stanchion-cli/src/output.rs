//! What this program writes: text for people, JSON for programs, messages. Nothing of it moves a
//! terminal's cursor or changes its colours, whatever names and labels contain.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::exit::Failure;

/// Maximum number of messages that wait to be written.
const MAX_MESSAGES: usize = 256;
/// How long the end of this program waits for the writing of its messages.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes one line of text on standard output.
pub(crate) fn line(text: impl fmt::Display) -> Result<(), Failure> {
    write_all(&format!("{}\n", printable(&text.to_string())))
}

/// Writes one JSON value on one line.
pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    write_all(&format!("{}\n", ascii_controls(&value.to_string())))
}

/// Writes a text that this program made itself, as it is.
pub(crate) fn raw(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).map_err(Failure::Output)
}

fn write_all(text: &str) -> Result<(), Failure> {
    raw(text.as_bytes())
}

/// Writes a message on standard error, soon: neither a hold's renewal nor the end of a command
/// waits for the reader, who may not read it. Where too many wait to be read, further ones are
/// dropped.
pub(crate) fn message(text: impl fmt::Display) {
    let text = format!("stanchion: {}\n", printable(&text.to_string()));
    let _ = messages().try_send(Message::Text(text));
}

/// Waits until all messages were written, but not long.
pub(crate) fn flush_messages() {
    let (sender, written) = mpsc::channel();
    if messages().try_send(Message::Flush(sender)).is_ok() {
        let _ = written.recv_timeout(FLUSH_TIMEOUT);
    }
}

enum Message {
    Text(String),
    Flush(mpsc::Sender<()>),
}

/// Returns where messages go: to a thread that writes them.
fn messages() -> &'static SyncSender<Message> {
    static MESSAGES: OnceLock<SyncSender<Message>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let (sender, waiting) = mpsc::sync_channel(MAX_MESSAGES);
        // Without the thread there are no messages.
        let _ = thread::Builder::new().name("messages".to_owned()).spawn(move || write_messages(&waiting));
        sender
    })
}

fn write_messages(waiting: &Receiver<Message>) {
    for message in waiting {
        // A closed standard error ends no command.
        let _ = match message {
            Message::Text(text) => io::stderr().lock().write_all(text.as_bytes()),
            Message::Flush(sender) => sender.send(()).map_err(|_| io::ErrorKind::BrokenPipe.into()),
        };
    }
}

/// Returns the text with all characters escaped that control a terminal or the direction of
/// writing.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |out, c| write!(out, "{}", c.escape_default()))
}

/// As [`printable`], but line ends stay: for a text of several lines.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// In JSON text, such characters stand in strings alone, where this is how they are escaped. All
/// are below 2^16.
fn ascii_controls(text: &str) -> Cow<'_, str> {
    escaped(text, |out, c| write!(out, "\\u{:04x}", u32::from(c)))
}

fn escaped(text: &str, mut escape: impl FnMut(&mut String, char) -> fmt::Result) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_control(c) {
            // Writing to a string does not fail.
            let _ = escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns whether a character is a control character, or changes the direction or the lines of
/// text.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_terminal_escape_is_printed() {
        assert_eq!(printable("a\u{1b}[31mb\u{9b}2J\u{7f}\u{202e}"), "a\\u{1b}[31mb\\u{9b}2J\\u{7f}\\u{202e}");
        assert_eq!(printable("ä 🚲 \"x\""), "ä 🚲 \"x\"");
        assert_eq!(printable_lines("a\tb\nc\r"), "a\\tb\nc\\r");
    }

    #[test]
    fn json_stays_json() {
        let value = Value::from("a\u{1b}\u{9b}\u{7f}\u{202e}ä");
        let text = ascii_controls(&value.to_string()).into_owned();
        assert!(!text.contains(is_control), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
