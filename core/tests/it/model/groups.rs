//! The generations of the model's wait groups.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

use stanchion_core::spi::{Answers, Look, Looked, MAX_SPLIT, Split, refused};
use stanchion_core::{Outcome, Result, Ticket};
use tokio::time::Instant;

use super::faults::Stuck;
use super::{Model, ModelHold, Record};

/// How a member ends.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    Finished,
    Abandoned,
    Expired,
}

#[derive(Debug, Default)]
pub struct Generations {
    open: bool,
    ends: Outcome,
    /// All that have ended.
    outcomes: Vec<Outcome>,
    watchers: BTreeSet<Ticket>,
    told: Vec<Ticket>,
}

impl Generations {
    pub fn open(&mut self) {
        self.open = true;
    }

    /// Members of that weight have ended; `zero` if they were the last.
    pub fn ended(&mut self, cause: Option<Cause>, weight: u32, zero: bool) {
        match cause {
            Some(Cause::Finished) => self.ends.finished += u64::from(weight),
            Some(Cause::Abandoned) => self.ends.abandoned += u64::from(weight),
            Some(Cause::Expired) => self.ends.expired += u64::from(weight),
            None => {}
        }
        if self.open && zero {
            self.open = false;
            let ends = std::mem::take(&mut self.ends);
            let outcome = if ends == Outcome::default() { self.last() } else { ends };
            self.outcomes.push(outcome);
            self.told.extend(std::mem::take(&mut self.watchers));
        }
    }

    fn last(&self) -> Outcome {
        self.outcomes.last().copied().unwrap_or_default()
    }

    /// The hints to be sent.
    pub fn hints(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.told)
    }
}

impl Record {
    fn look(&mut self, ask: &Look) -> Looked {
        let group = &mut self.generations;
        let generation = group.outcomes.len() as u64 + u64::from(group.open);
        let asked = ask.watch.filter(|watch| *watch > 0).unwrap_or(generation);
        let ended = match usize::try_from(asked).unwrap() {
            asked if asked > group.outcomes.len() && group.open => None,
            0 => Some(group.last()),
            asked => Some(group.outcomes[asked - 1]),
        };
        if ended.is_none() && ask.watch.is_some() {
            group.watchers.insert(ask.hint);
        }
        let next = self.holds.iter().map(|hold| hold.expires).min();
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        Looked { epoch: self.epoch, count: u64::from(self.used()), generation, ended, next }
    }
}

impl Model {
    pub(super) async fn look(&self, batch: &[Look]) -> Answers<Looked> {
        self.faults.looks.fetch_add(1, SeqCst);
        if let Err(error) = self.faults.pass(Stuck::Look, batch.iter().map(|ask| &ask.object)).await {
            return refused(batch.len(), &error);
        }
        self.each(batch.len(), |records| {
            let look = |ask: &Look| match records.get_mut(&ask.object).filter(|record| record.epoch > 0) {
                Some(record) => record.look(ask),
                None => Looked { ended: Some(Outcome::default()), ..Looked::default() },
            };
            batch.iter().map(look).collect()
        })
        .await
    }

    pub(super) async fn split(&self, split: &Split) -> Result<bool> {
        assert!(split.into.len() <= MAX_SPLIT, "a part of {}", split.into.len());
        self.step(|records| {
            let record = records.entry(split.object.clone()).or_default();
            if split.into.iter().any(|ticket| record.tombstones.contains_key(ticket)) {
                return false;
            }
            let expires = Instant::now() + split.lease.get();
            let mut again = false;
            for hold in record.holds.iter_mut().filter(|hold| split.into.contains(&hold.ticket)) {
                (hold.expires, again) = (expires, true);
            }
            let Some(at) = record.holds.iter().position(|hold| hold.ticket == split.from) else {
                return again;
            };
            let count = u32::try_from(split.into.len()).unwrap();
            let whole = &mut record.holds[at];
            if again {
                whole.expires = expires;
                return true;
            }
            if whole.weight < count {
                return false;
            }
            (whole.weight, whole.expires) = (whole.weight - count, expires);
            let ModelHold { weight: left, token, granted, .. } = *whole;
            let part = |ticket: &Ticket| ModelHold { ticket: *ticket, weight: 1, token, granted, expires };
            record.holds.extend(split.into.iter().map(part));
            if left == 0 {
                record.holds.swap_remove(at);
                record.tombstone(split.from, split.lease);
            }
            true
        })
        .await
    }
}
