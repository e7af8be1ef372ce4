//! The library's warnings, on standard error.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::output::message;

/// Warnings that `check` and `top` show in their own place, instead of on standard error.
static KEPT: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Whether the record of holds that were ended by force is shown, too.
static SHOWS_AUDIT: AtomicBool = AtomicBool::new(false);

/// Shows from now on the holds that are ended by force, for a program that does so for others. To
/// be called before the first one.
pub(crate) fn show_audit() {
    SHOWS_AUDIT.store(true, Ordering::Relaxed);
}

/// Shows warnings from now on.
pub(crate) fn show_warnings() {
    // It is the only one.
    let _ = tracing::subscriber::set_global_default(Warnings);
}

/// Keeps warnings from now on.
pub(crate) fn keep_warnings() {
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
}

/// Returns the warnings that were kept since the last call.
pub(crate) fn take_warnings() -> Vec<String> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(mem::take).unwrap_or_default()
}

#[derive(Debug)]
struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Elsewhere the user has just asked for the lock to be freed by force.
        *metadata.level() <= Level::WARN
            && metadata.target().starts_with("stanchion")
            && (metadata.target() != "stanchion_core::observe::audit" || SHOWS_AUDIT.load(Ordering::Relaxed))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let text = line.sentence();
        match &mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(kept) => kept.push(text),
            None => message(format_args!("warning: {text}")),
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event as a sentence: its message, the error behind it, and in brackets what else it says.
#[derive(Debug, Default)]
struct Line {
    text: String,
    error: String,
    others: Vec<String>,
}

impl Line {
    fn sentence(self) -> String {
        let Self { text, error, others } = self;
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        let error = if error.is_empty() { error } else { format!(": {error}") };
        text + &others + &error
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        let value = inner(&value);
        match field.name() {
            "message" => self.text = value.to_owned(),
            "exception.message" => self.error = value.to_owned(),
            // The error says it.
            "error.type" => {}
            _ if value == "None" => {}
            name => self.others.push(format!("{} {value}", spoken(name))),
        }
    }
}

/// Returns the words of a field's name.
fn spoken(name: &str) -> String {
    name.strip_prefix("stanchion.").unwrap_or(name).replace(['.', '_'], " ")
}

/// Returns the content of an optional value: people do not read `Some(…)`.
fn inner(value: &str) -> &str {
    value.strip_prefix("Some(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_sentence() {
        let line = Line {
            text: "a run failed".to_owned(),
            error: "no answer".to_owned(),
            others: vec![
                format!("{} \"x\"", spoken("stanchion.name")),
                format!("{} 7", spoken("stanchion.fencing_token")),
            ],
        };
        assert_eq!(line.sentence(), "a run failed (name \"x\", fencing token 7): no answer");
        let bare = Line { text: "it is so".to_owned(), ..Line::default() };
        assert_eq!(bare.sentence(), "it is so");
    }

    #[test]
    fn an_optional_value_is_shown_without_its_wrapping() {
        assert_eq!(inner(&format!("{:?}", Some("a)"))), "\"a)\"");
        assert_eq!([inner("None"), inner("Some"), inner("3.3s")], ["None", "Some", "3.3s"]);
    }
}
