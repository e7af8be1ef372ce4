//! `ls`: the names that have state.

use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;
use serde_json::{Value, json};
use stanchion::{Kind, ListOptions, Listed, StoreExt as _};

use super::inspect;
use super::shown::millis;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::url::Target;
use crate::values::{self, rounded};

/// List the names that have state, with the numbers of holders and waiters, limits and tokens
///
/// `inspect NAME` shows the holders of one of them. Names are printed as they are found, in no
/// particular order. A name that exists all the time is printed at least once, perhaps twice; a
/// name that comes or goes meanwhile may be left out. The store looks at all of its keys or rows,
/// in small parts, so the whole costs as much as it has of them, of other namespaces and programs
/// too. On Redis the login needs the right to SCAN.
#[derive(Args, Clone, Debug)]
pub(crate) struct Ls {
    /// Only names that begin with this text
    #[arg(default_value = "", value_parser = values::prefix)]
    prefix: String,
    /// Only objects of this kind
    #[arg(long, value_enum)]
    kind: Option<inspect::Kind>,
    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn ls(options: &Ls, target: &Target) -> Result<Exit, Failure> {
    let store = target.open_to_look().await?;
    let mut list = ListOptions::new().prefix(&options.prefix);
    list.kind = options.kind.map(inspect::Kind::of_store);
    let mut pages = store.pages(list);
    let mut progress = Progress::new();
    while let Some(page) = pages.next().await? {
        progress.clear();
        for listed in &page.entries {
            if options.json {
                output::json(&value(listed))?;
            } else {
                output::line(text(listed))?;
            }
        }
        progress.tell(page.entries.len());
    }
    progress.clear();
    if progress.found == 0 {
        output::message(
            "no such name has state; other namespaces are not looked at (`namespace=` in the URL)",
        );
    }
    Ok(Exit::DONE)
}

/// Says on standard error how many names were found, where that is a terminal and the names go
/// elsewhere.
struct Progress {
    is_shown: bool,
    found: usize,
}

impl Progress {
    fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal() && !io::stdout().is_terminal(), found: 0 }
    }

    fn tell(&mut self, more: usize) {
        self.found += more;
        self.write(format_args!("\r{} names; the store looks at all of its keys", self.found));
    }

    fn clear(&self) {
        self.write(format_args!("\r\u{1b}[K"));
    }

    fn write(&self, text: std::fmt::Arguments<'_>) {
        if self.is_shown {
            // A closed standard error must not end the listing.
            let _ = io::stderr().lock().write_fmt(text);
        }
    }
}

fn text(listed: &Listed) -> String {
    let mut parts = Vec::new();
    let weight =
        listed.weight.filter(|weight| listed.kind == Kind::Semaphore && Some(*weight) != listed.holders);
    let many = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    parts.extend(listed.holders.map(|holders| match listed.kind {
        Kind::WaitGroup => many(holders, "member"),
        _ => many(holders, "holder"),
    }));
    parts.extend(weight.map(|weight| format!("{} held", many(weight, "permit"))));
    parts.extend(listed.waiters.filter(|waiters| *waiters > 0).map(|waiters| format!("{waiters} waiting")));
    match (listed.tokens, listed.limit) {
        (Some(tokens), Some(limit)) => parts.push(format!("{tokens} of {limit} tokens left")),
        (None, Some(limit)) if listed.kind != Kind::Mutex => parts.push(format!("limit {limit}")),
        _ => {}
    }
    parts.extend(
        listed
            .last_used
            .filter(|idle| idle.as_millis() > 0)
            .map(|idle| format!("used {} ago", rounded(idle))),
    );
    let kind = listed.kind.as_str().replace('_', "-");
    format!("{kind:<12} {:?}: {}", listed.name.as_str(), parts.join(", "))
}

/// Returns a JSON object; `null` stands for a figure that the store does not know, or the kind does
/// not have.
fn value(listed: &Listed) -> Value {
    json!({
        "kind": listed.kind.as_str(),
        "name": listed.name.as_str(),
        "holders": listed.holders,
        "weight": listed.weight,
        "waiters": listed.waiters,
        "limit": listed.limit,
        "tokens": listed.tokens,
        "last_used_ms": listed.last_used.map(millis),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stanchion::Name;

    use super::*;

    #[test]
    fn what_is_known_is_told() {
        let listed = |kind| Listed::new(kind, Name::new("a\u{1b}[2J").unwrap());
        let mut mutex = listed(Kind::Mutex);
        (mutex.holders, mutex.waiters, mutex.limit, mutex.last_used) =
            (Some(1), Some(3), Some(1), Some(Duration::ZERO));
        assert_eq!(text(&mutex), "mutex        \"a\\u{1b}[2J\": 1 holder, 3 waiting");
        let mut limiter = listed(Kind::Limiter);
        (limiter.tokens, limiter.limit, limiter.last_used) =
            (Some(2), Some(5), Some(Duration::from_secs(61)));
        assert_eq!(text(&limiter), "limiter      \"a\\u{1b}[2J\": 2 of 5 tokens left, used 1m 1s ago");
        let mut semaphore = listed(Kind::Semaphore);
        (semaphore.holders, semaphore.weight, semaphore.limit) = (Some(2), Some(3), Some(4));
        assert_eq!(text(&semaphore), "semaphore    \"a\\u{1b}[2J\": 2 holders, 3 permits held, limit 4");
        assert_eq!(value(&semaphore)["waiters"], Value::Null);
    }
}
