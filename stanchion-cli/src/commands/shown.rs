//! Holders, for people and for programs.

use serde_json::{Value, json};
use stanchion::Holder;

use crate::values::rounded;

/// Returns one line of text.
pub(crate) fn text(holder: &Holder) -> String {
    let mut parts = Vec::new();
    parts.push(holder.label.as_ref().map_or("no label".to_owned(), |label| format!("{label:?}")));
    parts.extend(holder.age.map(|age| format!("for {}", rounded(age))));
    parts.extend(holder.lease_left.map(|left| format!("lease ends in {}", rounded(left))));
    if holder.weight > 1 {
        parts.push(format!("{} permits", holder.weight));
    }
    parts.extend(holder.token.map(|token| format!("token {token}")));
    parts.extend(holder.ticket.map(|ticket| format!("ticket {ticket}")));
    parts.join(", ")
}

/// Returns a JSON object; `null` stands for what the store does not know.
pub(crate) fn value(holder: &Holder) -> Value {
    json!({
        "label": holder.label,
        "ticket": holder.ticket.map(|ticket| ticket.to_string()),
        "token": holder.token.map(|token| token.get()),
        "weight": holder.weight,
        "age_ms": holder.age.map(millis),
        "lease_left_ms": holder.lease_left.map(millis),
    })
}

/// Returns whole milliseconds.
pub(crate) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
