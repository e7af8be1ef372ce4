//! The holds and queues of the model.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;

use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, Ending, Force, Kept, Object, ParameterCheck,
    Polled, Release, Renew, Usage, refused,
};
use stanchion_core::{
    Error, ErrorKind, FencingToken, Holder, Inspection, Kind, OnMismatch, Result, Ticket, Ttl,
};
use tokio::time::Instant;

use super::faults::Stuck;
use super::groups::Cause;
use super::{Model, ModelHold, Record};

impl Record {
    pub fn used(&self) -> u32 {
        self.holds.iter().map(|hold| hold.weight).sum()
    }

    pub fn reap(&mut self) {
        let now = Instant::now();
        self.end(Some(Cause::Expired), |hold| hold.expires <= now);
        self.tombstones.retain(|_, until| *until > now);
    }

    pub fn tombstone(&mut self, ticket: Ticket, lasting: Ttl) {
        self.tombstones.insert(ticket, Instant::now() + lasting.get());
    }

    /// Ends holds and tells how many.
    fn end(&mut self, cause: Option<Cause>, ends: impl Fn(&ModelHold) -> bool) -> u32 {
        let before = self.holds.len();
        let weight = self.holds.iter().filter(|hold| ends(hold)).map(|hold| hold.weight).sum();
        self.holds.retain(|hold| !ends(hold));
        self.generations.ended(cause, weight, self.holds.is_empty());
        u32::try_from(before - self.holds.len()).unwrap()
    }
}

impl Model {
    fn wake(&self, record: &Record, limit: u32) {
        let mut free = limit.saturating_sub(record.used());
        for (ticket, weight) in &record.queue {
            if *weight > free || self.faults.no_wake.load(SeqCst) {
                return;
            }
            free -= weight;
            let _ = self.wake.send(*ticket);
        }
    }

    fn acquire_one(&self, record: &mut Record, ask: &Acquire) -> Acquired {
        self.faults.acquires.fetch_add(1, SeqCst);
        if record.tombstones.contains_key(&ask.ticket) {
            return Acquired::Cancelled;
        }
        let limit = *record.limit.get_or_insert(ask.limit);
        if limit != ask.limit && ask.check == ParameterCheck::First(OnMismatch::Refuse) {
            return Acquired::Mismatch { stored: limit };
        }
        let expires = Instant::now() + ask.lease.get();
        if let Some(hold) = record.holds.iter_mut().find(|hold| hold.ticket == ask.ticket) {
            hold.expires = expires;
            return Acquired::Granted {
                token: FencingToken::new(hold.token).unwrap(),
                limit,
                epoch: record.epoch,
            };
        }
        let place = record.queue.iter().position(|(ticket, _)| *ticket == ask.ticket);
        // All in front may come in any order.
        let in_front = &record.queue[..place.unwrap_or(record.queue.len())];
        let wanted = in_front.iter().map(|(_, weight)| weight).sum::<u32>() + ask.weight;
        if u64::from(record.used()) + u64::from(wanted) <= u64::from(limit) {
            let token = self.token.fetch_add(1, SeqCst) + 1;
            record.queue.retain(|(ticket, _)| *ticket != ask.ticket);
            if ask.object.kind == Kind::WaitGroup {
                record.generations.open();
                record.epoch = if record.epoch == 0 { token } else { record.epoch };
            }
            record.holds.push(ModelHold {
                ticket: ask.ticket,
                weight: ask.weight,
                token,
                granted: Instant::now(),
                expires,
            });
            self.wake(record, limit);
            return Acquired::Granted {
                token: FencingToken::new(token).unwrap(),
                limit,
                epoch: record.epoch,
            };
        }
        if ask.queue && place.is_none() {
            if ask.max_waiters.is_some_and(|max| record.queue.len() >= max as usize) {
                return Acquired::Overloaded;
            }
            record.queue.push((ask.ticket, ask.weight));
        } else if !ask.queue {
            record.queue.retain(|(ticket, _)| *ticket != ask.ticket);
        }
        Acquired::Waiting { limit, epoch: record.epoch }
    }

    fn free(&self, record: &mut Record, cause: Option<Cause>, freed: impl Fn(Ticket) -> bool) -> u32 {
        let count = record.end(cause, |hold| freed(hold.ticket));
        if let Some(limit) = record.limit {
            self.wake(record, limit);
        }
        count
    }
}

fn poll_one(records: &mut HashMap<Object, Record>, object: &Object) -> Polled {
    let record = records.entry(object.clone()).or_default();
    let mut free = record.limit.unwrap_or(1).saturating_sub(record.used());
    let mut ready = Vec::new();
    for (ticket, weight) in &record.queue {
        if *weight > free {
            break;
        }
        free -= weight;
        ready.push(*ticket);
    }
    let next = record.holds.iter().map(|hold| hold.expires).min();
    let next = next.map(|next| next.saturating_duration_since(Instant::now()));
    Polled { ready, next, is_first: true, epoch: record.epoch }
}

impl Model {
    pub async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        self.faults.asked.lock().unwrap().extend_from_slice(batch);
        let began = Instant::now();
        let answers = self.each(batch.len(), |records| {
            batch
                .iter()
                .map(|ask| self.acquire_one(records.entry(ask.object.clone()).or_default(), ask))
                .collect()
        });
        let answers = answers.await;
        self.faults.flown(true, batch.len(), began);
        answers
    }

    pub(super) async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        self.faults.renewals.fetch_add(1, SeqCst);
        if let Err(error) = self.faults.pass(Stuck::Renew, batch.iter().map(|ask| &ask.object)).await {
            return refused(batch.len(), &error);
        }
        self.faults.renewed.lock().unwrap().push(batch.iter().map(|ask| ask.lease).collect());
        if self.faults.no_renewal.load(SeqCst) {
            return refused(batch.len(), &Error::new(ErrorKind::Unavailable, "no renewal"));
        }
        self.each(batch.len(), |records| {
            let renew = |ask: &Renew| {
                let record = records.entry(ask.object.clone()).or_default();
                match record.holds.iter_mut().find(|hold| hold.ticket == ask.ticket) {
                    Some(hold) => {
                        hold.expires = Instant::now() + ask.lease.get();
                        Kept::Yes
                    }
                    None => Kept::No,
                }
            };
            batch.iter().map(renew).collect()
        })
        .await
    }

    pub(super) async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        if let Err(error) = self.faults.pass(Stuck::Release, batch.iter().map(|ask| &ask.object)).await {
            return refused(batch.len(), &error);
        }
        let began = Instant::now();
        let answers = self.each(batch.len(), |records| {
            let release = |ask: &Release| {
                let record = records.entry(ask.object.clone()).or_default();
                if ask.call.is_some() && record.calls.get(&ask.ticket) == ask.call.as_ref() {
                    return Kept::Yes;
                }
                if let Some(lasting) = ask.tombstone {
                    record.tombstone(ask.ticket, lasting);
                }
                let cause = match ask.ending {
                    Ending::Finished => Cause::Finished,
                    Ending::Abandoned => Cause::Abandoned,
                };
                if self.free(record, Some(cause), |ticket| ticket == ask.ticket) == 0 {
                    return Kept::No;
                }
                record.calls.extend(ask.call.map(|call| (ask.ticket, call)));
                Kept::Yes
            };
            batch.iter().map(release).collect()
        });
        let answers = answers.await;
        self.faults.flown(false, batch.len(), began);
        answers
    }

    pub(super) async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        if let Err(error) = self.faults.pass(Stuck::Cancel, batch.iter().map(|ask| &ask.object)).await {
            return refused(batch.len(), &error);
        }
        self.each(batch.len(), |records| {
            for ask in batch {
                let record = records.entry(ask.object.clone()).or_default();
                record.queue.retain(|(ticket, _)| *ticket != ask.ticket);
                self.free(record, None, |ticket| ticket == ask.ticket);
                if let Some(lasting) = ask.tombstone {
                    record.tombstone(ask.ticket, lasting);
                }
            }
            vec![(); batch.len()]
        })
        .await
    }

    pub(super) async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        let mut answer = Box::pin(async {
            if let Err(error) = self.faults.pass(Stuck::Poll, batch.iter()).await {
                return refused(batch.len(), &error);
            }
            let is_first = !self.faults.far.load(SeqCst);
            let poll = |records: &mut HashMap<Object, Record>, object| Polled {
                is_first,
                ..poll_one(records, object)
            };
            self.each(batch.len(), |records| batch.iter().map(|object| poll(records, object)).collect()).await
        });
        // A test that sees the count can set another delay: this poll has read its own.
        let begun = poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await;
        self.faults.polls.fetch_add(1, SeqCst);
        match begun {
            Poll::Ready(answers) => answers,
            Poll::Pending => answer.await,
        }
    }

    pub(super) async fn keep_places(&self, batch: &[Object]) -> Answers<Option<Polled>> {
        if !self.faults.far.load(SeqCst) {
            return self.poll(batch).await.into_iter().map(|answer| answer.map(Some)).collect();
        }
        self.faults.marks.fetch_add(1, SeqCst);
        batch.iter().map(|_| Ok(None)).collect()
    }

    pub(super) async fn attach(&self, ask: &Attach) -> Result<Option<Attached>> {
        self.step(|records| {
            let record = records.entry(ask.object.clone()).or_default();
            if record.tombstones.contains_key(&ask.to) {
                return None;
            }
            let hold =
                record.holds.iter_mut().find(|hold| hold.ticket == ask.from || hold.ticket == ask.to)?;
            hold.ticket = ask.to;
            hold.expires = Instant::now() + ask.lease.get();
            let token = FencingToken::new(hold.token).unwrap();
            let attached = Attached { token, weight: hold.weight, epoch: record.epoch };
            record.tombstone(ask.from, ask.lease);
            Some(attached)
        })
        .await
    }

    pub(super) async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.step(|records| {
            let record = records.entry(object.clone()).or_default();
            let holder = |hold: &ModelHold| {
                let token = FencingToken::new(hold.token).unwrap();
                Holder::new(hold.ticket, token, hold.weight, hold.granted.elapsed())
            };
            Inspection::new(
                record.holds.iter().map(holder).collect(),
                record.queue.len() as u64,
                record.limit,
            )
        })
        .await
    }

    pub(super) async fn usage(&self, object: &Object) -> Result<Usage> {
        let inspection = self.inspect(object).await?;
        let weight = inspection.holders.iter().map(|holder| u64::from(holder.weight)).sum();
        Ok(Usage::new(weight, inspection.limit))
    }

    pub(super) async fn resize(&self, object: &Object, limit: u32) -> Result<()> {
        self.step(|records| {
            let record = records.entry(object.clone()).or_default();
            record.limit = Some(limit);
            self.wake(record, limit);
        })
        .await
    }

    pub(super) async fn force(&self, object: &Object, force: Force) -> Result<u32> {
        self.step(|records| {
            let record = records.entry(object.clone()).or_default();
            self.free(record, Some(Cause::Abandoned), |ticket| {
                force == Force::All || force == Force::One(ticket)
            })
        })
        .await
    }

    pub(super) async fn ping(&self) -> Result<()> {
        self.step(|_| ()).await
    }
}
