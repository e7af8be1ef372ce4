//! Undoes grants that too little keeps, so that they are not handed out.

use redis::Cmd;
use stanchion_core::clock::{Instant, micros};
use stanchion_core::spi::{Acquire, Acquired, Answers, Cancel, Ending, Release, Request, Steps};
use stanchion_core::{Error, ErrorKind, Kind, Result};

use super::RedisSteps;
use super::reply::Reply;
use super::step::Step;

/// A grant that too little keeps.
struct Undone<'a> {
    index: usize,
    acquire: &'a Acquire,
    /// Where the ticket stood, and whether it had waited; none where that is unknown.
    place: Option<(u64, bool)>,
    shortfall: Error,
}

impl RedisSteps {
    /// Reads the replies to a batch of acquires, and undoes the grants that too little keeps. Those
    /// that may wait do so, where they stood.
    pub(super) async fn granted(
        &self,
        batch: &[&Acquire],
        replies: Answers<Reply>,
        end: Instant,
    ) -> Answers<Acquired> {
        let (mut waiting, mut over) = (Vec::new(), Vec::new());
        let mut answers = Vec::with_capacity(batch.len());
        for (index, reply) in replies.into_iter().enumerate() {
            let mut reply = reply.and_then(Reply::ours);
            let acquired = reply.as_ref().map_err(Error::replicate).and_then(Reply::acquired);
            let shortfall = reply.as_mut().ok().and_then(Reply::take_shortfall);
            if let (Ok(Acquired::Granted { .. }), Some(shortfall)) = (&acquired, shortfall) {
                let place = reply.as_ref().ok().and_then(Reply::place);
                // Nobody waits where a right is missing.
                let waits = batch[index].queue && !shortfall.kind().is_final();
                let undone = Undone { index, acquire: batch[index], place, shortfall };
                if waits { &mut waiting } else { &mut over }.push(undone);
            }
            answers.push(acquired);
        }
        if !waiting.is_empty() {
            let put_back = self.put_back(&waiting, end).await;
            for (undone, answer) in waiting.into_iter().zip(put_back) {
                answers[undone.index] = match answer {
                    // Whoever did not know that it waits has to be told.
                    Ok(Some(waits)) if undone.place.is_some_and(|(_, had_waited)| !had_waited) => Ok(waits),
                    Ok(_) => Err(undone.shortfall),
                    Err(failed) => Err(in_vain(failed)),
                };
            }
        }
        if !over.is_empty() {
            let undoing: Vec<_> = over.iter().map(|undone| undoing(undone.acquire)).collect();
            for (undone, answer) in over.into_iter().zip(self.send(&undoing, end).await) {
                answers[undone.index] = Err(answer.map_or_else(in_vain, |_| undone.shortfall));
            }
        }
        answers
    }

    /// Puts tickets back into their queues.
    async fn put_back(&self, undone: &[Undone<'_>], end: Instant) -> Answers<Option<Acquired>> {
        let arguments = |command: &mut Cmd, Undone { acquire, place, .. }: &Undone<'_>| {
            let number = place.map(|(number, _)| number.to_string()).unwrap_or_default();
            command.arg(acquire.ticket.to_string()).arg(micros(acquire.lease.get())).arg(number);
        };
        let step =
            Step::new(&self.scripts().put_back, |undone: &Undone<'_>| &undone.acquire.object, arguments);
        let read = |reply: Result<Reply>| reply.and_then(Reply::ours)?.put_back();
        let undone: Vec<_> = undone.iter().collect();
        self.call(&step, &undone, end).await.into_iter().map(read).collect()
    }
}

fn in_vain(failed: Error) -> Error {
    let detail = "the grant is not kept as was asked, and undoing it failed";
    Error::new(ErrorKind::Unknown, detail).with_source(failed)
}

/// Returns the request that frees a grant, so that the same ticket may ask again. A member of a
/// wait group is cancelled for good instead: one that is released is counted.
fn undoing(Acquire { object, ticket, lease, .. }: &Acquire) -> Request {
    let (object, ticket) = (object.clone(), *ticket);
    if object.kind == Kind::WaitGroup {
        return Cancel { object, ticket, tombstone: Some(*lease) }.into();
    }
    Release { object, ticket, ending: Ending::Abandoned, tombstone: None, call: None }.into()
}
