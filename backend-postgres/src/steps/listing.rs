//! The request that lists names.

use std::time::Duration;

use sqlx::postgres::PgRow;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{List, ListPart, ListedBucket, NO_LIMIT};
use stanchion_core::{Cursor, Kind, Listed, Name, Result};

use super::PostgresSteps;
use super::call::{StatementArguments, column};
use crate::context::micros;
use crate::error::unexpected;

/// Maximum number of names that one statement looks at: it counts up to 50 holds of each (C27).
const MAX_COUNT: usize = 100;

/// Where a listing goes on: behind a name of a kind. The empty text stands before all names.
#[derive(Debug, PartialEq, Eq)]
struct Position<'a> {
    kind: Kind,
    after: &'a str,
}

impl<'a> Position<'a> {
    fn of(list: &'a List) -> Result<Self> {
        let Some(text) = &list.after else {
            return Ok(Self { kind: list.kind.unwrap_or(Kind::ALL[0]), after: "" });
        };
        let read = || {
            let (letter, after) = text.split_once(':')?;
            let kind = Kind::of_letter(letter)?;
            let is_name = after.is_empty() || Name::new(after).is_ok();
            is_name.then_some(Self { kind, after })
        };
        read().ok_or_else(Cursor::invalid)
    }

    fn write(kind: Kind, after: &str) -> String {
        format!("{}:{after}", kind.letter())
    }

    /// Returns the beginning of the next kind; `None` at the end of the listing.
    fn next_kind(&self, only: Option<Kind>) -> Option<String> {
        let next = self.kinds_left().nth(1)?;
        only.is_none().then(|| Self::write(next, ""))
    }

    /// Returns the kind of this position and those behind it, in the order of the listing.
    fn kinds_left(&self) -> impl Iterator<Item = Kind> {
        let kind = self.kind;
        Kind::ALL.iter().copied().skip_while(move |other| *other != kind)
    }
}

impl PostgresSteps {
    pub(super) async fn list(&self, list: &List, end: Instant) -> Result<ListPart> {
        let mut position = Position::of(list)?;
        if let Some(only) = list.kind.filter(|only| *only != position.kind) {
            // The cursor of a listing of other kinds. This one comes behind it, or is over.
            if !position.kinds_left().any(|kind| kind == only) {
                return Ok(ListPart::default());
            }
            position = Position { kind: only, after: "" };
        }
        let (count, kind) = (list.count.min(MAX_COUNT), position.kind);
        let rows = self.looked_at(list, &position, count, end).await?;
        let mut entries = Vec::with_capacity(rows.len());
        for row in &rows {
            if column::<bool>(row, 1)? {
                entries.push(listed(kind, row)?);
            }
        }
        let next = match rows.last() {
            Some(last) if rows.len() == count => Some(Position::write(kind, column(last, 0)?)),
            _ => position.next_kind(list.kind),
        };
        Ok(ListPart { entries, next })
    }

    async fn looked_at(
        &self,
        list: &List,
        position: &Position<'_>,
        count: usize,
        end: Instant,
    ) -> Result<Vec<PgRow>> {
        let context = &self.context;
        let statements = &self.statements;
        let mut arguments = StatementArguments::default().with(&*context.namespace);
        let statement = match position.kind {
            Kind::Limiter => &statements.list_limiters,
            Kind::BloomFilter => &statements.list_blooms,
            kind => {
                arguments = arguments.with(micros(context.retention.state)).with(kind.letter().to_string());
                &statements.list_permits
            }
        };
        // No name that begins with the prefix comes after this text.
        let last = format!("{}{}", list.prefix, "\u{10ffff}".repeat(Name::MAX_BYTES / 4 + 1));
        let arguments = arguments
            .with(position.after)
            .with(list.prefix.as_str())
            .with(last)
            .with(i32::try_from(count).unwrap_or(i32::MAX));
        self.run(statement, arguments, end).await
    }
}

fn listed(kind: Kind, row: &PgRow) -> Result<Listed> {
    let name = Name::new(column(row, 0)?).map_err(|error| unexpected().with_source(error))?;
    let mut listed = Listed::new(kind, name);
    let number =
        |index: usize| Ok(column::<Option<i64>>(row, index)?.and_then(|number| u64::try_from(number).ok()));
    match kind {
        Kind::Limiter => {
            let [clock, amount, period, burst, fraction, last] = [2, 3, 4, 5, 7, 8].map(number);
            let tokens = column(row, 6)?;
            let known = |number: Result<Option<u64>>| number?.ok_or_else(unexpected);
            let bucket = ListedBucket {
                amount: known(amount)?,
                period: known(period)?,
                burst: known(burst)?,
                tokens,
                fraction: known(fraction)?,
                last: known(last)?,
            };
            bucket.tell(known(clock)?, &mut listed);
        }
        Kind::BloomFilter => listed.limit = number(2)?,
        _ => {
            (listed.holders, listed.weight, listed.waiters) = (number(2)?, number(3)?, number(4)?);
            listed.limit = number(5)?.filter(|limit| *limit != u64::from(NO_LIMIT));
            listed.last_used = number(6)?.map(Duration::from_micros);
        }
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let list =
            |after: &str| List { kind: None, prefix: String::new(), count: 1, after: Some(after.to_owned()) };
        for (kind, after) in [(Kind::Mutex, ""), (Kind::BloomFilter, "a:b"), (Kind::Limiter, "\u{10ffff}")] {
            let list = list(&Position::write(kind, after));
            assert_eq!(Position::of(&list).unwrap(), Position { kind, after });
        }
        for other in ["", "m", "x:a", "ms:a", "é", "m:a\0", &format!("m:{}", "x".repeat(513))] {
            assert!(Position::of(&list(other)).is_err(), "{other}");
        }
        let kinds: Vec<_> =
            Kind::ALL.iter().map(|&kind| Position { kind, after: "" }.next_kind(None)).collect();
        let next = ["s:", "w:", "l:", "b:"].map(|next| Some(next.to_owned()));
        assert_eq!(kinds, [&next[..], &[None]].concat());
        assert_eq!(Position { kind: Kind::Mutex, after: "" }.next_kind(Some(Kind::Mutex)), None);
    }
}
