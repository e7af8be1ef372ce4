//! Reads the answers of the SQL functions.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::types::Uuid;
use stanchion_core::spi::{Acquired, Attached, InspectionPart, Kept, Looked, Polled, Usage};
use stanchion_core::{FencingToken, Holder, Outcome, Result};

use super::call::{column, ticket};
use crate::error::unexpected;

fn number(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| unexpected())
}

fn count(value: i64) -> Result<u32> {
    u32::try_from(value).map_err(|_| unexpected())
}

fn token(value: i64) -> Result<FencingToken> {
    FencingToken::new(number(value)?).map_err(|_| unexpected())
}

/// Converts a time in µs; -1 stands for none.
fn time(micros: i64) -> Result<Option<Duration>> {
    if micros == -1 { Ok(None) } else { number(micros).map(|micros| Some(Duration::from_micros(micros))) }
}

fn past(earlier: i64, later: i64) -> Duration {
    Duration::from_micros(u64::try_from(later.saturating_sub(earlier)).unwrap_or_default())
}

/// Returns a column with one value for each entry.
fn column_of<'r, T>(row: &'r PgRow, index: usize, size: usize) -> Result<Vec<T>>
where
    Vec<T>: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    let values: Vec<T> = column(row, index)?;
    if values.len() == size { Ok(values) } else { Err(unexpected()) }
}

pub(super) fn acquired(row: &PgRow, size: usize) -> Result<Vec<Acquired>> {
    let codes: Vec<i32> = column_of(row, 0, size)?;
    let tokens: Vec<i64> = column_of(row, 1, size)?;
    let limits: Vec<i64> = column_of(row, 2, size)?;
    let epochs: Vec<i64> = column_of(row, 3, size)?;
    let answer = |index: usize| -> Result<Acquired> {
        let (limit, epoch) = (count(limits[index])?, number(epochs[index])?);
        Ok(match codes[index] {
            0 => Acquired::Granted { token: token(tokens[index])?, limit, epoch },
            1 => Acquired::Waiting { limit, epoch },
            2 => Acquired::Cancelled,
            3 => Acquired::Mismatch { stored: limit },
            4 => Acquired::TooLarge { limit },
            5 => Acquired::Overloaded,
            _ => return Err(unexpected()),
        })
    };
    (0..size).map(answer).collect()
}

/// Reads the numbers, counted from 1, of the entries whose hold was there.
pub(super) fn kept(row: &PgRow, size: usize) -> Result<Vec<Kept>> {
    let there: Vec<i32> = column(row, 0)?;
    let mut kept = vec![Kept::No; size];
    for number in there {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        *index.and_then(|index| kept.get_mut(index)).ok_or_else(unexpected)? = Kept::Yes;
    }
    Ok(kept)
}

pub(super) fn polled(row: &PgRow, size: usize) -> Result<Vec<Polled>> {
    let epochs: Vec<i64> = column_of(row, 0, size)?;
    let nexts: Vec<i64> = column_of(row, 1, size)?;
    let firsts: Vec<bool> = column_of(row, 2, size)?;
    let counts: Vec<i32> = column_of(row, 3, size)?;
    let mut ready = column::<Vec<Uuid>>(row, 4)?.into_iter().map(ticket);
    let answer = |index: usize| -> Result<Polled> {
        let mine = usize::try_from(counts[index]).map_err(|_| unexpected())?;
        let ready = ready.by_ref().take(mine).collect();
        let (next, is_first) = (time(nexts[index])?, firsts[index]);
        Ok(Polled { ready, next, is_first, epoch: number(epochs[index])? })
    };
    (0..size).map(answer).collect()
}

pub(super) fn attached(row: &PgRow) -> Result<Option<Attached>> {
    let Some(given) = column::<Option<i64>>(row, 0)? else { return Ok(None) };
    Ok(Some(Attached {
        token: token(given)?,
        weight: count(column(row, 1)?)?,
        epoch: number(column(row, 2)?)?,
    }))
}

/// Reads a part of an inspection. No row means that there is no record.
pub(super) fn inspected(rows: &[PgRow]) -> Result<InspectionPart<i64>> {
    let Some(row) = rows.first() else {
        return Ok(InspectionPart { now: 0, waiters: 0, limit: None, holders: Vec::new(), next: None });
    };
    let now: i64 = column(row, 0)?;
    let tickets: Vec<Uuid> = column(row, 4)?;
    let tokens: Vec<i64> = column_of(row, 5, tickets.len())?;
    let weights: Vec<i64> = column_of(row, 6, tickets.len())?;
    let granted: Vec<i64> = column_of(row, 7, tickets.len())?;
    let expiries: Vec<i64> = column_of(row, 8, tickets.len())?;
    let labels: Vec<Option<String>> = column_of(row, 9, tickets.len())?;
    let mut holders = Vec::with_capacity(tickets.len());
    for (index, label) in labels.into_iter().enumerate() {
        let (token, weight) = (token(tokens[index])?, count(weights[index])?);
        let mut holder = Holder::new(ticket(tickets[index]), token, weight, past(granted[index], now));
        holder.lease_left = Some(past(now, expiries[index]));
        holder.label = label;
        holders.push((number(granted[index])?, holder));
    }
    let (waiters, limit) = (number(column(row, 2)?)?, usage(rows)?.limit);
    Ok(InspectionPart { now: number(now)?, waiters, limit, holders, next: column(row, 10)? })
}

pub(super) fn usage(rows: &[PgRow]) -> Result<Usage> {
    let Some(row) = rows.first() else { return Ok(Usage::default()) };
    let limit = column::<Option<i64>>(row, 1)?.map(count).transpose()?;
    Ok(Usage::new(number(column(row, 3)?)?, limit))
}

pub(super) fn looked(row: &PgRow, size: usize) -> Result<Vec<Looked>> {
    let epochs: Vec<i64> = column_of(row, 0, size)?;
    let members: Vec<i64> = column_of(row, 1, size)?;
    let generations: Vec<i64> = column_of(row, 2, size)?;
    let nexts: Vec<i64> = column_of(row, 3, size)?;
    let ended: Vec<bool> = column_of(row, 4, size)?;
    let counts: [Vec<i64>; 3] =
        [column_of(row, 5, size)?, column_of(row, 6, size)?, column_of(row, 7, size)?];
    let answer = |index: usize| -> Result<Looked> {
        let mut outcome = Outcome::default();
        outcome.finished = number(counts[0][index])?;
        outcome.abandoned = number(counts[1][index])?;
        outcome.expired = number(counts[2][index])?;
        Ok(Looked {
            epoch: number(epochs[index])?,
            count: number(members[index])?,
            generation: number(generations[index])?,
            ended: ended[index].then_some(outcome),
            next: time(nexts[index])?,
        })
    };
    (0..size).map(answer).collect()
}
