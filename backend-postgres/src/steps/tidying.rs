//! Names at which more has ended than one step removes (C27).
//!
//! A step that cannot be decided before all of it is gone changes nothing. What has ended is
//! removed in parts then, and the step is sent again. Others of its batch do not wait for that.

use std::time::Duration;

use stanchion_core::Result;
use stanchion_core::clock::{Instant, now, sleep};
use stanchion_core::spi::{Answers, Object};

use super::PostgresSteps;
use super::call::{StatementArguments, column, uuid};
use super::locked::{LAST, Sending, are_several, patience, sort};
use crate::context::micros;
use crate::error;

/// Pause between two parts, so that others reach the name.
const PAUSE: Duration = Duration::from_millis(2);

impl PostgresSteps {
    /// Sends a batch, and again when its names are tidy. The entries of a name that is not tidy in
    /// time are refused: their callers ask again.
    pub(super) async fn send_tidily<E: Clone + Sync, A: Send>(
        &self,
        batch: &[E],
        (object, end): (fn(&E) -> &Object, Instant),
        send: &(impl for<'a> Fn(&'a Self, &'a [E]) -> Sending<'a, A> + Sync),
    ) -> Answers<A> {
        let mut answers = send(self, batch).await;
        let mut left: Vec<_> = (0..batch.len()).collect();
        while left.first().is_some_and(|first| answers[*first].as_ref().is_err_and(error::is_untidy)) {
            let mut objects: Vec<_> = left.iter().map(|index| object(&batch[*index])).collect();
            let until = if are_several(&objects) { patience(end) } else { end };
            sort(&mut objects);
            let Ok(untidy) = self.tidy(objects, until).await else { break };
            left.retain(|index| !untidy.contains(&object(&batch[*index])));
            let entries: Vec<_> = left.iter().map(|index| batch[*index].clone()).collect();
            if !entries.is_empty() {
                let again = send(self, &entries).await;
                left.iter().zip(again).for_each(|(index, answer)| answers[*index] = answer);
            }
        }
        answers
    }

    /// Removes what has ended at names, until `end`, and one part at least. Returns the names at
    /// which there is more.
    pub(super) async fn tidy<'o>(
        &self,
        mut objects: Vec<&'o Object>,
        end: Instant,
    ) -> Result<Vec<&'o Object>> {
        loop {
            let kinds: Vec<_> = objects.iter().map(|object| object.kind.letter().to_string()).collect();
            let names: Vec<_> = objects.iter().map(|object| object.name.as_str()).collect();
            let arguments = StatementArguments::default()
                .with(&*self.context.namespace)
                .with(uuid(self.context.process))
                .with(micros(self.context.retention.tokens))
                .with(kinds)
                .with(names);
            let more: Vec<i32> = column(&self.row(&self.statements.tidy, arguments, end).await?, 0)?;
            let of = |number: i32| objects.get(usize::try_from(number).ok()?.checked_sub(1)?).copied();
            objects = more.into_iter().filter_map(of).collect();
            // A request of little time removes a part all the same.
            if objects.is_empty() || now() + LAST >= end {
                return Ok(objects);
            }
            // Another process may be at it.
            sleep(PAUSE).await;
        }
    }
}
