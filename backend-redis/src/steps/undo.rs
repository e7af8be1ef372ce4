//! Undoes grants that too little keeps, so that they are not handed out.

use stanchion_core::clock::Instant;
use stanchion_core::spi::{Acquire, Acquired, Answers, Cancel, Ending, Release, Request, Steps};
use stanchion_core::{Error, ErrorKind, Kind};

use super::RedisSteps;
use super::reply::Reply;

impl RedisSteps {
    /// Reads the replies to a batch of acquires, and undoes the grants that too little keeps.
    pub(super) async fn granted(
        &self,
        batch: &[&Acquire],
        replies: Answers<Reply>,
        end: Instant,
    ) -> Answers<Acquired> {
        let mut unacknowledged = Vec::new();
        let mut answers = Vec::with_capacity(batch.len());
        for (index, reply) in replies.into_iter().enumerate() {
            let mut reply = reply.and_then(Reply::ours);
            let acquired = reply.as_ref().map_err(Error::replicate).and_then(Reply::acquired);
            let shortfall = reply.as_mut().ok().and_then(Reply::take_shortfall);
            if matches!(acquired, Ok(Acquired::Granted { .. })) {
                unacknowledged.extend(shortfall.map(|error| (index, error)));
            }
            answers.push(acquired);
        }
        if unacknowledged.is_empty() {
            return answers;
        }
        let undoing: Vec<_> = unacknowledged.iter().map(|(index, _)| undoing(batch[*index])).collect();
        let undone = self.send(&undoing, end).await;
        for ((index, error), undone) in unacknowledged.into_iter().zip(undone) {
            answers[index] = Err(match undone {
                Ok(_) => error,
                Err(failed) => {
                    let detail = "the grant is not kept as was asked, and undoing it failed";
                    Error::new(ErrorKind::Unknown, detail).with_source(failed)
                }
            });
        }
        answers
    }
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
