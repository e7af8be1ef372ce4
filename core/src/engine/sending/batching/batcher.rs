//! The callers' requests, by lane.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{FutureExt, TryFutureExt};
use tokio::runtime::{Handle, Id};

use super::queue::{Admission, RequestQueue, SendSlot, Timed};
use super::until_known;
use crate::clock::{Instant, now, timeout_at};
use crate::engine::contained::{REQUEST_GRACE, unanswered};
use crate::engine::part_sizes::PartSizes;
use crate::spi::{Ask, Lane, Request, RequestId, RequestKind, Response, Steps, short};
use crate::{Error, ErrorKind, Result};

/// Number of queues from which on idle ones are dropped.
const MAXIMUM_QUEUES: usize = 64;

/// A runtime, a lane of the store, and the kind of requests whose batches are in turn: they have
/// queues of their own.
type QueueKey = (Id, Lane, Option<RequestKind>);

/// The callers' requests.
#[derive(Debug)]
pub(crate) struct Batcher {
    steps: Arc<dyn Steps>,
    part_sizes: Arc<PartSizes>,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    /// A short list: comparing is cheaper than hashing.
    used: Vec<(QueueKey, Arc<RequestQueue>)>,
    /// The ids of the last batches of dropped queues. New queues go on from them: a store keeps an
    /// answer for each sequence that it has heard of.
    spare: Vec<RequestId>,
}

impl Queues {
    /// Drops the queues without a batch under way.
    fn drop_idle(&mut self) {
        let spare = &mut self.spare;
        self.used.retain(|(_, queue)| match queue.retire() {
            None => true,
            Some(id) => {
                spare.extend(id);
                false
            }
        });
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.used).finish()
    }
}

impl Batcher {
    pub(crate) fn new(steps: Arc<dyn Steps>, part_sizes: Arc<PartSizes>) -> Self {
        Self { steps, part_sizes, queues: Mutex::default() }
    }

    /// Sends a request, alone or with others, and waits for its answer until `end`.
    ///
    /// # Errors
    /// The request's own error; at `end`, `Unavailable` if it was not sent, `Unknown` if it was.
    pub(crate) fn ask<A: Ask>(&self, request: A, end: Instant) -> impl Future<Output = Result<A::Answer>> {
        self.ask_timed(request, end).map_ok(|timed| timed.answer)
    }

    /// As [`ask`](Self::ask), with the times of the answer.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn ask_timed<A: Ask>(
        &self,
        request: A,
        end: Instant,
    ) -> impl Future<Output = Result<Timed<A::Answer>>> {
        self.send(request.into(), end).map(|answered| {
            let Timed { answer, sent, received } = answered?;
            A::answer(answer).map(|answer| Timed { answer, sent, received })
        })
    }

    async fn send(&self, request: Request, end: Instant) -> Result<Timed<Response>> {
        let queue = self.queue(&request)?;
        let (mut slot, mut stale, mut answer) = match queue.admit(request) {
            // Boxed: the call of a caller in a crowd is allocated as a whole, and with this in it
            // would be larger than what an allocator hands out without a lock.
            Admission::Alone(request, send_slot) => {
                return Box::pin(self.send_alone(request, send_slot, end)).await;
            }
            Admission::Queued(slot, stale, answer) => (slot, stale, answer),
        };
        // A batch has a time limit of its own, which the engine keeps a little later.
        let end = end + REQUEST_GRACE;
        loop {
            let answered = timeout_at(stale.map_or(end, |stale| stale.min(end)), &mut answer).await;
            slot.left = answered.is_ok();
            match answered {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => return Err(Error::new(ErrorKind::Unknown, "the request was dropped half way")),
                Err(_) if now() >= end && slot.leave() => return Err(unsent()),
                Err(_) if now() >= end => return Err(unanswered()),
                Err(_) => queue.overtake(),
            }
            stale = slot.stale_at();
        }
    }

    /// Sends a request on its caller's task. A decision or a probe whose outcome is unknown
    /// is sent again until `end`.
    async fn send_alone(&self, request: Request, slot: SendSlot, end: Instant) -> Result<Timed<Response>> {
        let (mut batch, sent) = ([request], now());
        let first = end.min(sent + batch[0].time_limit(self.steps.request_timeout()));
        let answers = match batch[0].kind().is_in_turn() {
            true => until_known::send(&*self.steps, &mut batch, first, Some(end), &|_| true).await,
            false => self.steps.send(&batch, first).await,
        };
        drop(slot);
        answers.into_iter().next().unwrap_or_else(|| Err(short())).map(|answer| Timed {
            answer,
            sent,
            received: now(),
        })
    }

    fn queue(&self, request: &Request) -> Result<Arc<RequestQueue>> {
        let runtime = Handle::try_current()
            .map_err(|error| Error::new(ErrorKind::Unavailable, "there is no runtime").with_source(error))?;
        let kind = request.kind();
        let in_turn = kind.is_in_turn().then_some(kind);
        let key = (runtime.id(), self.steps.lane(request), in_turn);
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, queue)) = queues.used.iter().find(|(of, _)| *of == key) {
            return Ok(Arc::clone(queue));
        }
        if queues.used.len() >= MAXIMUM_QUEUES {
            queues.drop_idle();
        }
        let last = in_turn.and_then(|_| queues.spare.pop());
        let most = (in_turn.is_some()).then(|| (Arc::clone(&self.part_sizes), key.1));
        let queue = Arc::new(RequestQueue::new(runtime, Arc::clone(&self.steps), most, last));
        queues.used.push((key, Arc::clone(&queue)));
        Ok(queue)
    }
}

fn unsent() -> Error {
    Error::new(ErrorKind::Unavailable, "the request was not sent within its time limit")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use async_trait::async_trait;

    use super::*;
    use crate::spi::{Answers, Decide, LimitAsk, Limited, Object, ParameterCheck};
    use crate::{Kind, Name, Quota, Ticket};

    /// A store with a lane for each name, whose decisions name the id of their batch.
    #[derive(Debug)]
    struct Named;

    #[async_trait]
    impl Steps for Named {
        fn lane(&self, request: &Request) -> Lane {
            let name = request.object().unwrap().name.as_str();
            Lane { server: name.parse().unwrap(), queue: 0 }
        }

        async fn send(&self, batch: &[Request], _: Instant) -> Answers<Response> {
            let answer = |request: &Request| {
                let Decide { id, quota, .. } = Decide::of(request).unwrap();
                let mut place = crate::limiter::Reserved::default();
                (place.ready_at, place.wait) =
                    (u64::try_from(id.sequence.as_u128() >> 64).unwrap(), id.number);
                Ok(Response::Decide(Limited::Reserved { place: Some(place), quota: *quota }))
            };
            batch.iter().map(answer).collect()
        }

        fn request_timeout(&self) -> Duration {
            Duration::from_secs(2)
        }
    }

    fn decision(name: usize) -> Decide {
        let object = Object { kind: Kind::Limiter, name: Name::new(&name.to_string()).unwrap() };
        let quota = Quota::per_second(1).validate().unwrap();
        let (check, ask) = (ParameterCheck::Follow, LimitAsk::Take { cost: 1 });
        Decide { id: RequestId::NONE, object, quota, check, ask }
    }

    /// The sequence and the number of a batch.
    fn id_of(limited: Limited) -> (u64, u64) {
        let Limited::Reserved { place: Some(place), .. } = limited else { panic!("{limited:?}") };
        (place.ready_at, place.wait)
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
    async fn c27_the_sequences_that_a_store_hears_of_are_bounded() {
        let batcher = Batcher::new(Arc::new(Named), Arc::default());
        let mut last = HashMap::new();
        for name in (0..1_000).chain(0..1_000) {
            let answer = batcher.ask(decision(name), now() + Duration::from_secs(60)).await.unwrap();
            let (sequence, number) = id_of(answer);
            let before = last.insert(sequence, number).unwrap_or_default();
            assert_eq!(number, before + 1, "no number of a sequence is used twice");
        }
        assert!(last.len() <= MAXIMUM_QUEUES, "{} sequences", last.len());
    }

    #[test]
    fn a_queue_that_was_dropped_while_a_caller_had_it_shares_no_id_with_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let in_turn = || Some((Arc::default(), Lane { server: 0, queue: 0 }));
        let queue =
            |last| Arc::new(RequestQueue::new(runtime.handle().clone(), Arc::new(Named), in_turn(), last));
        let id_of = |queue: &Arc<RequestQueue>| match queue.admit(decision(0).into()) {
            Admission::Alone(request, send_slot) => {
                assert!(queue.retire().is_none(), "it is in use");
                drop(send_slot);
                Decide::of(&request).unwrap().id
            }
            Admission::Queued(..) => panic!("no batch is under way"),
        };
        let old = queue(None);
        let first = id_of(&old);
        let next = queue(old.retire().unwrap());
        assert_eq!(id_of(&next), RequestId { number: first.number + 1, ..first });
        assert_ne!(id_of(&old).sequence, first.sequence);
        assert_ne!(first.sequence, Ticket::NONE);
    }
}
