//! The record of a wait group that a handle has seen: an absent record is not a count of zero (W6).

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::engine::timing::engine_now as now;
use crate::spi::Looked;
use crate::{Error, ErrorKind, Result};

/// A record that was seen with members.
#[derive(Clone, Copy, Debug)]
struct Record {
    epoch: u64,
    /// When this process first saw it. An answer to a request sent earlier may be older.
    since: Instant,
}

/// The record of a wait group that a handle has seen with members, if any ([W6]). Epochs of records
/// count from 1; 0 is no record.
///
/// # Examples
/// ```
/// use stanchion_core::engine::RecordSeen;
///
/// let record_seen = RecordSeen::default();
/// assert!(record_seen.check(1, 3).is_ok(), "record 1 has three members");
/// assert!(record_seen.check(1, 0).is_ok(), "zero is a count");
/// assert!(record_seen.check(0, 0).is_err(), "absent is not zero");
/// ```
///
/// [W6]: crate::contract#w6
#[derive(Debug, Default)]
pub struct RecordSeen(Mutex<Option<Record>>);

impl RecordSeen {
    /// Returns the error of a call that has seen a record which is gone.
    #[must_use]
    pub fn lost() -> Error {
        Error::new(ErrorKind::StateLost, "the group was seen live and its record is gone")
    }

    fn seen(&self) -> MutexGuard<'_, Option<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the record in which this handle was granted a member.
    pub fn follow(&self, epoch: u64) {
        let mut seen = self.seen();
        if seen.is_none_or(|record| record.epoch != epoch) {
            *seen = Some(Record { epoch, since: now() });
        }
    }

    /// Compares the record seen with the one that exists, and follows the latter if it has members.
    ///
    /// # Errors
    /// `StateLost` if the record seen is gone: again and again while there is none, once if there
    /// is another.
    pub fn check(&self, epoch: u64, count: u64) -> Result<()> {
        compare(&mut self.seen(), epoch, count)
    }

    /// As [`check`](Self::check), with the answer to a request sent at `sent`. Returns `false` if
    /// the answer may be older than the record seen: look again.
    pub(crate) fn check_answer(&self, looked: &Looked, sent: Instant) -> Result<bool> {
        let mut seen = self.seen();
        if seen.is_some_and(|record| record.epoch != looked.epoch && sent <= record.since) {
            return Ok(false);
        }
        compare(&mut seen, looked.epoch, looked.count).map(|()| true)
    }
}

fn compare(seen: &mut Option<Record>, epoch: u64, count: u64) -> Result<()> {
    let was_seen = seen.is_some();
    if seen.is_some_and(|record| record.epoch == epoch) {
        return Ok(());
    }
    if epoch != 0 {
        *seen = (count > 0).then(|| Record { epoch, since: now() });
    }
    if was_seen { Err(RecordSeen::lost()) } else { Ok(()) }
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
            assert!(seen.check_answer(&looked, now()).unwrap());
        }
    }

    #[test]
    fn w6_a_lost_record_is_told_until_there_is_another_and_of_that_once() {
        let (seen, later) = (RecordSeen::default(), now() + Duration::from_secs(1));
        assert!(seen.check_answer(&looked(3, 1), later).unwrap());
        assert!(seen.check_answer(&looked(3, 0), later).unwrap(), "zero is a record");
        for _ in 0..2 {
            assert_eq!(kind(seen.check_answer(&looked(0, 0), later)), Some(ErrorKind::StateLost));
        }
        assert_eq!(kind(seen.check_answer(&looked(4, 1), later)), Some(ErrorKind::StateLost));
        assert!(seen.check_answer(&looked(4, 1), later).unwrap());
        seen.follow(5);
        assert!(seen.check_answer(&looked(5, 1), later).unwrap());
    }

    #[test]
    fn w6_an_answer_older_than_an_add_says_nothing() {
        let (seen, before) = (RecordSeen::default(), now());
        seen.follow(5);
        assert!(!seen.check_answer(&looked(4, 1), before).unwrap());
        assert!(!seen.check_answer(&looked(0, 0), before).unwrap());
        assert!(seen.check_answer(&looked(5, 1), before).unwrap());
    }
}
