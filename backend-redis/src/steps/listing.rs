//! The request that lists names.

use std::time::Duration;

use redis::Value;
use stanchion_core::clock::{Instant, micros};
use stanchion_core::spi::{List, ListPart, ListedBucket, NO_LIMIT};
use stanchion_core::{Cursor, Kind, Listed, Result};

use super::RedisSteps;
use crate::command::Command;
use crate::error::unexpected;
use crate::keys::STRIPES;

/// Maximum number of names that one call of the script is asked for: it tells figures of twice as
/// many in less than 10 ms (C27).
const MAX_COUNT: usize = 250;

/// Where a listing goes on: at a position of a server process. Positions of one process mean
/// nothing to another, as after a failover.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    /// The stripe that is listed; `None` where one server holds them all.
    stripe: Option<usize>,
    process: String,
    scan: u64,
}

impl Position {
    fn begin(stripe: Option<usize>) -> Self {
        Self { stripe, process: String::new(), scan: 0 }
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let stripe = match parts.next()? {
            "*" => None,
            stripe => Some(stripe.parse().ok().filter(|stripe| *stripe < STRIPES)?),
        };
        let (process, scan) = (parts.next()?, parts.next()?.parse().ok()?);
        let is_known = process.len() <= 64 && process.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_known && parts.next().is_none()).then(|| Self { stripe, process: process.to_owned(), scan })
    }

    fn write(&self) -> String {
        let stripe = self.stripe.map_or_else(|| "*".to_owned(), |stripe| stripe.to_string());
        format!("{stripe}:{}:{}", self.process, self.scan)
    }

    /// Returns the position behind an answer; `None` at the end of the listing.
    fn next(&self, process: &str, scan: u64) -> Option<Self> {
        if scan > 0 {
            return Some(Self { stripe: self.stripe, process: process.to_owned(), scan });
        }
        self.stripe
            .map(|stripe| stripe + 1)
            .filter(|next| *next < STRIPES)
            .map(|next| Self::begin(Some(next)))
    }
}

impl RedisSteps {
    /// Returns the stripe that a part of a listing is about.
    pub(super) fn listed_stripe(&self, list: &List) -> usize {
        self.position(list).ok().and_then(|position| position.stripe).unwrap_or_default()
    }

    pub(super) async fn list(&self, list: &List, end: Instant) -> Result<ListPart> {
        let position = self.position(list)?;
        let stripe = position.stripe.unwrap_or_default();
        let keyspace = &self.context.keyspace;
        let keys = keyspace.whole_stripe(stripe);
        let pattern = keyspace.pattern(position.stripe, list.kind, &list.prefix);
        let script = &self.scripts().list;
        let command = Command::call(script, |command| {
            command.arg(keys.len()).arg(&keys).arg(&pattern).arg(&position.process).arg(position.scan);
            command.arg(list.count.min(MAX_COUNT)).arg(micros(self.context.retention));
        });
        match self.route.send(stripe, &command, end).await {
            Ok(answered) => self.part(list, &position, answered.value),
            Err(error) => Err(self.name_missing(error, script, (stripe, &keys[0]), end).await),
        }
    }

    fn position(&self, list: &List) -> Result<Position> {
        let begin = Position::begin((!self.route.has_all_stripes()).then_some(0));
        match &list.after {
            None => Ok(begin),
            Some(text) => Position::read(text)
                .filter(|position| position.stripe.is_some() == begin.stripe.is_some())
                .ok_or_else(Cursor::invalid),
        }
    }

    fn part(&self, list: &List, position: &Position, answer: Value) -> Result<ListPart> {
        let Value::Array(parts) = answer else { return Err(unexpected()) };
        let [process, scan, at, records @ ..] = &parts[..] else { return Err(unexpected()) };
        let number = |value| text(value)?.parse::<u64>().ok();
        let (Some(process), Some(scan), Some(at)) = (text(process), number(scan), number(at)) else {
            return Err(unexpected());
        };
        let mut entries = Vec::with_capacity(records.len() / 2);
        for record in records.chunks_exact(2) {
            // A key that is not of UTF-8 is none of ours.
            let object = text(&record[0]).and_then(|key| self.context.keyspace.object_of(key));
            let meant = object.filter(|object| {
                list.kind.is_none_or(|kind| kind == object.kind)
                    && object.name.as_str().starts_with(&list.prefix)
            });
            if let Some(object) = meant {
                let listed = Listed::new(object.kind, object.name);
                entries.extend(text(&record[1]).and_then(|figures| told(listed, figures, at)));
            }
        }
        Ok(ListPart { entries, next: position.next(process, scan).map(|next| next.write()) })
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Reads the figures of a name; `None` if it has no state.
fn told(listed: Listed, figures: &str, now: u64) -> Option<Listed> {
    match listed.kind {
        Kind::Limiter => of_limiter(listed, figures, now),
        Kind::BloomFilter => of_filter(listed, figures, now),
        _ => of_permits(listed, figures),
    }
}

fn of_permits(mut listed: Listed, figures: &str) -> Option<Listed> {
    let mut numbers = figures.split(' ').map(|number| number.parse::<i64>().ok());
    let mut next = || numbers.next()?.map(|number| u64::try_from(number).ok());
    (listed.holders, listed.weight, listed.waiters) = (next()?, next()?, next()?);
    listed.limit = next()?.filter(|limit| !matches!(*limit, 0) && *limit != u64::from(NO_LIMIT));
    listed.last_used = next()?.map(Duration::from_micros);
    Some(listed)
}

/// "amount period burst tokens fraction last expires_at cursor".
fn of_limiter(mut listed: Listed, figures: &str, now: u64) -> Option<Listed> {
    let numbers: Vec<i64> = figures.split(' ').map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    let [amount, period, burst, tokens, fraction, last, expires_at, ..] = numbers[..] else { return None };
    let [amount, period, burst, fraction, last, expires_at] =
        [amount, period, burst, fraction, last, expires_at]
            .map(|number| u64::try_from(number).unwrap_or_default());
    ListedBucket { amount, period, burst, tokens, fraction, last }.tell(now, &mut listed);
    (expires_at > now).then_some(listed)
}

/// "generation ends set cursor life terms", with the terms "bits hashes capacity rate ttl", or "-"
/// after a clear.
fn of_filter(mut listed: Listed, figures: &str, now: u64) -> Option<Listed> {
    let mut parts = figures.split(' ');
    let ends: u64 = parts.nth(1)?.parse().ok()?;
    listed.limit = Some(parts.nth(5)?.parse().ok()?);
    (ends == 0 || ends > now / 1000).then_some(listed)
}

#[cfg(test)]
mod tests {
    use stanchion_core::Name;

    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        for (stripe, process, scan) in [(None, "", 0), (Some(15), "00ff", u64::MAX), (Some(0), "a", 7)] {
            let position = Position { stripe, process: process.to_owned(), scan };
            assert_eq!(Position::read(&position.write()), Some(position));
        }
        for other in ["", "*", "*:", "16::0", "*:xyz:0", "*:::", "*::0:", "*::18446744073709551616", "é"] {
            assert_eq!(Position::read(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_call_did_not_count_is_not_told() {
        let listed = |kind| Listed::new(kind, Name::new("a").unwrap());
        let told = of_permits(listed(Kind::WaitGroup), "-1 -1 3 4294967295 -1").unwrap();
        assert_eq!((told.holders, told.weight, told.waiters), (None, None, Some(3)));
        assert_eq!((told.limit, told.last_used), (None, None));
        assert_eq!(of_permits(listed(Kind::Mutex), "1 1"), None);
    }
}
