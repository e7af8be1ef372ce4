//! Names whose rows somebody else has locked: they delay nobody but their own callers (C27).
//!
//! A step waits for a row for a short time only, and then nothing of it was executed. It is sent
//! again then, without the names whose rows one and the same transaction keeps locked: these are
//! refused, and their callers ask again.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::postgres::PgRow;
use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::spi::{Answers, Object, refused};
use stanchion_core::{Error, ErrorKind, Kind, Result};
use tokio::sync::SemaphorePermit;

use super::PostgresSteps;
use super::call::{StatementArguments, column};
use super::kept::Marks;
use crate::error::{self, unexpected};
use crate::schema::Statement;
use crate::session_settings::LOCK_WAIT;

/// Times between the looks at who has a row locked. A row that many want has another locker after
/// the first; a transaction that has it after the last, and had it before, keeps it for longer than
/// a step of ours does, unless the disk is slow. All of this is short enough for the callers of
/// other names (C27).
const MOMENTS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(140)];
/// What the last look and the request after it may take.
pub(super) const LAST: Duration = LOCK_WAIT.saturating_add(Duration::from_millis(50));

/// A name whose row somebody keeps locked is given up for the moment after this time, where others
/// wait for the request.
const PATIENCE: Duration = Duration::from_millis(300);

const KEPT: &str = "somebody else keeps a row of this name locked";

pub(super) type Sending<'a, A> = Pin<Box<dyn Future<Output = Answers<A>> + Send + 'a>>;

impl PostgresSteps {
    /// Sends a batch, and again without the names whose rows somebody keeps locked, if it has
    /// others, until `end`.
    pub(super) async fn around_locked<E: Clone + Sync, A: Send>(
        &self,
        batch: &[E],
        object: fn(&E) -> &Object,
        end: Instant,
        send: impl for<'a> Fn(&'a Self, &'a [E]) -> Sending<'a, A> + Sync,
    ) -> Answers<A> {
        let end = if self.are_hurried { patience(end) } else { end };
        let Some(kind) = batch.first().map(|entry| object(entry).kind) else { return Vec::new() };
        let mut turn = match self.tables.turn(kind, end).await {
            Ok(turn) => turn,
            Err(error) => return refused(batch.len(), &error),
        };
        let all: Vec<_> = batch.iter().map(object).collect();
        let mut left: Vec<_> = (0..batch.len()).collect();
        let known = if are_several(&all) { self.known_locked(&all).await } else { Vec::new() };
        let mut answers = if known.is_empty() {
            self.send_tidily(batch, (object, end), &send).await
        } else {
            left.retain(|index| !known.contains(&all[*index]));
            let mut answers =
                refused(batch.len(), &Error::new(ErrorKind::Unavailable, KEPT).of_a_store_that_answers());
            self.send_these(batch, &left, (object, end), &send, &mut answers).await;
            answers
        };
        while left.first().is_some_and(|first| waited_in_vain(&answers, *first)) {
            let objects: Vec<_> = left.iter().map(|index| all[*index]).collect();
            let are_several = are_several(&objects);
            let has_time = now() + MOMENTS[0] + LAST < end;
            let kept = if has_time {
                match self.kept_locked(&objects, end).await {
                    Ok(kept) => kept,
                    Err(error) => {
                        if error::is_locked(&error) {
                            self.tables.saw(kind);
                        }
                        // Those of a batch ask again by themselves: some of them may not need the
                        // table.
                        if are_several || !self.next_turn(kind, &mut turn, end).await {
                            break;
                        }
                        self.send_these(batch, &left, (object, end), &send, &mut answers).await;
                        continue;
                    }
                }
            } else if are_several {
                Vec::new()
            } else {
                break;
            };
            if are_several && kept.is_empty() {
                // There is no time to see whose row it is, or it is not seen: behind it, requests
                // of ours wait for each other.
                self.send_each(batch, (&left, &objects), (object, end), send, &mut answers).await;
                break;
            }
            // A request of one entry delays no other name, and goes on.
            if batch.len() > 1 {
                left.retain(|index| !kept.contains(&object(&batch[*index])));
            }
            self.send_these(batch, &left, (object, end), &send, &mut answers).await;
        }
        answers
    }

    /// Lets the others take their turns, and waits for another one. Returns whether there is time
    /// for a request.
    async fn next_turn<'t>(
        &'t self,
        kind: Kind,
        turn: &mut Option<SemaphorePermit<'t>>,
        end: Instant,
    ) -> bool {
        *turn = None;
        sleep(MOMENTS[0]).await;
        match self.tables.turn(kind, end).await {
            Ok(next) => *turn = next,
            Err(_) => return false,
        }
        now() + LAST < end
    }

    /// Sends those of the entries, if there are any.
    async fn send_these<E: Clone + Sync, A: Send>(
        &self,
        batch: &[E],
        indices: &[usize],
        of: (fn(&E) -> &Object, Instant),
        send: &(impl for<'a> Fn(&'a Self, &'a [E]) -> Sending<'a, A> + Sync),
        answers: &mut Answers<A>,
    ) {
        let entries: Vec<_> = indices.iter().map(|index| batch[*index].clone()).collect();
        if !entries.is_empty() {
            for (index, answer) in indices.iter().zip(self.send_tidily(&entries, of, send).await) {
                answers[*index] = answer;
            }
        }
    }

    /// Returns those of the objects of which an earlier batch saw that somebody keeps a row locked,
    /// if that still is so.
    async fn known_locked<'o>(&self, objects: &[&'o Object]) -> Vec<&'o Object> {
        let mut known = self.kept.among(objects);
        sort(&mut known);
        if known.is_empty() {
            return known;
        }
        // Without an answer, the batch finds it out itself.
        let Ok(locked) = self.locked(&known).await else { return Vec::new() };
        known.retain(|object| self.kept.still_is(object, locked.get(object)));
        known
    }

    /// Sends the entries of each object in a request of their own, all at once. Those of one object
    /// stay together: a store tells its requests apart by their id alone, of which there is one for
    /// a batch.
    async fn send_each<E: Clone + Sync, A: Send>(
        &self,
        batch: &[E],
        (left, objects): (&[usize], &[&Object]),
        of: (fn(&E) -> &Object, Instant),
        send: impl for<'a> Fn(&'a Self, &'a [E]) -> Sending<'a, A> + Sync,
        answers: &mut Answers<A>,
    ) {
        let mut by_object: Vec<(&Object, Vec<usize>)> = Vec::new();
        let mut places: HashMap<&Object, usize> = HashMap::new();
        for (index, object) in left.iter().zip(objects) {
            let place = *places.entry(object).or_insert(by_object.len());
            if place == by_object.len() {
                by_object.push((object, Vec::new()));
            }
            by_object[place].1.push(*index);
        }
        let send = &send;
        let requests = by_object.into_iter().map(async |(_, indices)| {
            let entries: Vec<_> = indices.iter().map(|index| batch[*index].clone()).collect();
            (indices, self.send_tidily(&entries, of, send).await)
        });
        for (indices, answered) in join_all(requests).await {
            for (index, answer) in indices.into_iter().zip(answered) {
                answers[index] = answer;
            }
        }
    }

    /// Runs a step for one name, and again while somebody has its row locked, until its time is
    /// over. Returns its only row.
    pub(super) async fn row_of_one(
        &self,
        statement: &Statement,
        arguments: StatementArguments,
        end: Instant,
    ) -> Result<PgRow> {
        let arguments = arguments.complete()?;
        loop {
            let rows = self.run_by(statement, arguments.clone(), end).await;
            match rows {
                Err(error) if error::is_locked(&error) && now() + MOMENTS[0] + LAST < end => {
                    sleep(MOMENTS[0]).await;
                }
                rows => return rows?.into_iter().next().ok_or_else(unexpected),
            }
        }
    }

    /// Returns those of the objects whose rows one transaction has locked for longer than a step of
    /// ours would, as far as the time until `end` allows to tell.
    async fn kept_locked<'o>(&self, objects: &[&'o Object], end: Instant) -> Result<Vec<&'o Object>> {
        let mut objects = objects.to_vec();
        sort(&mut objects);
        let mut suspects = self.locked(&objects).await?;
        for moment in MOMENTS {
            if suspects.is_empty() || now() + moment + LAST > end {
                return Ok(suspects.into_keys().collect());
            }
            sleep(moment).await;
            let after = self.locked(&suspects.keys().copied().collect::<Vec<_>>()).await?;
            suspects.retain(|object, marks| {
                marks.retain(|mark| after.get(object).is_some_and(|after| after.contains(mark)));
                !marks.is_empty()
            });
        }
        for (object, marks) in &suspects {
            self.kept.saw(object, marks.clone());
        }
        Ok(suspects.into_keys().collect())
    }

    /// Returns those of the objects whose rows are locked at this moment, with the marks of who has
    /// them.
    async fn locked<'o>(&self, objects: &[&'o Object]) -> Result<HashMap<&'o Object, Marks>> {
        let arguments = StatementArguments::default()
            .with(&*self.context.namespace)
            .with(objects.iter().map(|object| object.kind.letter().to_string()).collect::<Vec<_>>())
            .with(objects.iter().map(|object| object.name.as_str()).collect::<Vec<_>>());
        let row = self.row(&self.statements.locked, arguments, self.request_end()).await?;
        let (numbers, lockers): (Vec<i32>, Vec<String>) = (column(&row, 0)?, column(&row, 1)?);
        let mut found: HashMap<_, Marks> = HashMap::new();
        for (number, locker) in numbers.into_iter().zip(lockers) {
            let object = usize::try_from(number).ok().and_then(|number| objects.get(number.checked_sub(1)?));
            found.entry(*object.ok_or_else(unexpected)?).or_default().insert(locker);
        }
        Ok(found)
    }
}

/// Returns the end of a batch whose answer nobody waits for, but those who come after it.
pub(super) fn patience(end: Instant) -> Instant {
    end.min(now() + PATIENCE)
}

/// Sorts objects, each once, as a step takes them.
pub(super) fn sort(objects: &mut Vec<&Object>) {
    objects.sort_unstable_by_key(|object| (object.kind.letter(), &object.name));
    objects.dedup();
}

pub(super) fn are_several(objects: &[&Object]) -> bool {
    objects.iter().any(|object| *object != objects[0])
}

fn waited_in_vain<A>(answers: &Answers<A>, index: usize) -> bool {
    answers.get(index).and_then(|answer| answer.as_ref().err()).is_some_and(error::is_locked)
}
