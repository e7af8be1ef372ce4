//! The library's warnings, on standard error.

use std::fmt::{self, Write as _};
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
        let text = line.text + &line.fields;
        match &mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(kept) => kept.push(text),
            None => message(format_args!("warning: {text}")),
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event as text: its message, then its fields.
#[derive(Debug, Default)]
struct Line {
    text: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.text, "{value:?}"),
            name => match inner(&format!("{value:?}")) {
                "None" => Ok(()),
                value => write!(self.fields, ", {name} {value}"),
            },
        };
    }
}

/// Returns the content of an optional value: people do not read `Some(…)`.
fn inner(value: &str) -> &str {
    value.strip_prefix("Some(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_value_is_shown_without_its_wrapping() {
        assert_eq!(inner(&format!("{:?}", Some("a)"))), "\"a)\"");
        assert_eq!([inner("None"), inner("Some"), inner("3.3s")], ["None", "Some", "3.3s"]);
    }
}
