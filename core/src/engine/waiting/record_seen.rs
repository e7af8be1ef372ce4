//! The record of a wait group that a handle has seen: an absent record is not a count of zero (W6).

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::engine::timing::engine_now as now;
use crate::spi::Looked;
use crate::{Error, ErrorKind, Result};

/// A record that was seen with members.
#[derive(Clone, Copy, Debug)]
struct Record {
    epoch: u64,
    /// When this process first knew of it. An answer to a request sent earlier may be older.
    known: Instant,
}

/// The record that a handle has seen with members, if any.
#[derive(Debug, Default)]
pub(crate) struct RecordSeen(Mutex<Option<Record>>);

impl RecordSeen {
    /// Notes the record in which this handle was granted a member.
    pub(crate) fn follow(&self, epoch: u64) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_none_or(|record| record.epoch != epoch) {
            *seen = Some(Record { epoch, known: now() });
        }
    }

    /// Checks an answer to a request sent at `sent`. Returns `false` if the answer may be older than the known record: look
    /// again.
    ///
    /// # Errors
    /// `StateLost` if the known record is gone. If there is another record, this handle follows it from now on.
    pub(crate) fn check(&self, looked: &Looked, sent: Instant) -> Result<bool> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let live = (looked.count > 0).then(|| Record { epoch: looked.epoch, known: now() });
        match *seen {
            Some(record) if record.epoch == looked.epoch => {}
            Some(record) if sent <= record.known => return Ok(false),
            Some(_) => {
                if looked.epoch != 0 {
                    *seen = live;
                }
                return Err(state_lost());
            }
            None => *seen = live,
        }
        Ok(true)
    }
}

pub(crate) fn state_lost() -> Error {
    Error::new(ErrorKind::StateLost, "the group was seen live and its record is gone")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn looked(epoch: u64, count: u64) -> Looked {
        Looked { epoch, count, ..Looked::default() }
    }

    fn kind(judged: Result<bool>) -> Option<ErrorKind> {
        judged.err().map(|error| error.kind())
    }

    #[test]
    fn w6_who_saw_nothing_cannot_know() {
        let seen = RecordSeen::default();
        for looked in [looked(0, 0), looked(3, 0), looked(0, 0), looked(4, 0)] {
            assert!(seen.check(&looked, now()).unwrap());
        }
    }

    #[test]
    fn w6_a_lost_record_is_told_until_there_is_another_and_of_that_once() {
        let (seen, later) = (RecordSeen::default(), now() + Duration::from_secs(1));
        assert!(seen.check(&looked(3, 1), later).unwrap());
        assert!(seen.check(&looked(3, 0), later).unwrap(), "zero is a record");
        for _ in 0..2 {
            assert_eq!(kind(seen.check(&looked(0, 0), later)), Some(ErrorKind::StateLost));
        }
        assert_eq!(kind(seen.check(&looked(4, 1), later)), Some(ErrorKind::StateLost));
        assert!(seen.check(&looked(4, 1), later).unwrap());
        seen.follow(5);
        assert!(seen.check(&looked(5, 1), later).unwrap());
    }

    #[test]
    fn w6_an_answer_older_than_an_add_says_nothing() {
        let (seen, before) = (RecordSeen::default(), now());
        seen.follow(5);
        assert!(!seen.check(&looked(4, 1), before).unwrap());
        assert!(!seen.check(&looked(0, 0), before).unwrap());
        assert!(seen.check(&looked(5, 1), before).unwrap());
    }
}
