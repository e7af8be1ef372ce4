//! Undoes grants that too little keeps, so that they are not handed out.

use stanchion_core::spi::{Acquire, Acquired, Answers, Cancel, Ending, PermitSteps, Release};
use stanchion_core::{Error, ErrorKind, Kind, Result};

use super::RedisSteps;
use super::acked_reply::AckedReply;
use crate::error::unexpected;

impl RedisSteps {
    /// Reads the replies to a batch of acquires, and undoes the grants that too little keeps.
    pub(super) async fn granted(&self, batch: &[Acquire], replies: Answers<AckedReply>) -> Answers<Acquired> {
        let mut unacknowledged = Vec::new();
        let mut answers = Vec::with_capacity(batch.len());
        for (index, acked) in replies.into_iter().enumerate() {
            let read = acked.and_then(|acked| Ok((acked.reply.ours()?.acquired()?, acked.shortfall)));
            if let Ok((Acquired::Granted { .. }, Some(error))) = &read {
                unacknowledged.push((index, error.replicate()));
            }
            answers.push(read.map(|(acquired, _)| acquired));
        }
        if unacknowledged.is_empty() {
            return answers;
        }
        let granted: Vec<_> = unacknowledged.iter().filter_map(|(index, _)| batch.get(*index)).collect();
        let undone = self.undo(granted.into_iter()).await;
        for ((index, error), undone) in unacknowledged.into_iter().zip(undone) {
            answers[index] = Err(match undone {
                Ok(()) => error,
                Err(failed) => {
                    let detail = "the grant is not kept as was asked, and undoing it failed";
                    Error::new(ErrorKind::Unknown, detail).with_source(failed)
                }
            });
        }
        answers
    }

    /// Frees grants, so that the same tickets may ask again. A member of a wait group is cancelled for good instead: one that
    /// is released is counted.
    async fn undo(&self, granted: impl Iterator<Item = &Acquire>) -> Vec<Result<()>> {
        let (mut releases, mut cancels, mut is_cancelled) = (Vec::new(), Vec::new(), Vec::new());
        for Acquire { object, ticket, lease, .. } in granted {
            let (object, ticket) = (object.clone(), *ticket);
            is_cancelled.push(object.kind == Kind::WaitGroup);
            if object.kind == Kind::WaitGroup {
                cancels.push(Cancel { object, ticket, lease: *lease });
            } else {
                let ending = Ending::Abandoned;
                releases.push(Release { object, ticket, ending, tombstone: None, call: None });
            }
        }
        let mut released = self.release(&releases).await.into_iter();
        let mut cancelled = self.cancel(&cancels).await.into_iter();
        let undone = is_cancelled.into_iter().map(|is_cancelled| match is_cancelled {
            true => cancelled.next().unwrap_or_else(|| Err(unexpected())),
            false => released.next().map_or_else(|| Err(unexpected()), |kept| kept.map(drop)),
        });
        undone.collect()
    }
}
