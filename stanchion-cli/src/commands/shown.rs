//! Holders, for people and for programs.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use stanchion::Holder;

use crate::values::rounded;

/// Returns one line of text.
pub(crate) fn text(holder: &Holder) -> String {
    let mut parts = Vec::new();
    parts.push(holder.label.as_ref().map_or("no label".to_owned(), |label| format!("{label:?}")));
    parts.extend(holder.age.map(|age| format!("for {}", rounded(age))));
    parts.extend(holder.age.and_then(since).map(|since| format!("since {since}")));
    parts.extend(holder.lease_left.map(|left| format!("lease ends in {}", rounded(left))));
    if holder.weight > 1 {
        parts.push(format!("{} permits", holder.weight));
    }
    parts.extend(holder.token.map(|token| format!("token {token}")));
    parts.extend(holder.ticket.map(|ticket| format!("ticket {ticket}")));
    parts.join(", ")
}

/// Returns a JSON object; `null` stands for a value that the store does not know.
pub(crate) fn value(holder: &Holder) -> Value {
    json!({
        "label": holder.label,
        "ticket": holder.ticket.map(|ticket| ticket.to_string()),
        "token": holder.token.map(|token| token.get()),
        "weight": holder.weight,
        "age_ms": holder.age.map(millis),
        "since": holder.age.and_then(since),
        "lease_left_ms": holder.lease_left.map(millis),
    })
}

/// Returns whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time in UTC, by this machine's clock, at which something of that age began: a store
/// gives ages.
#[expect(
    clippy::disallowed_methods,
    reason = "people compare the time of the wall clock with that of their logs"
)]
fn since(age: Duration) -> Option<String> {
    let begun = SystemTime::now().checked_sub(age).filter(|begun| *begun >= SystemTime::UNIX_EPOCH)?;
    Some(humantime::format_rfc3339_seconds(begun).to_string())
}
