//! What has to keep a grant, beside the memory of the primary, before it is handed out.

use std::time::Duration;

use redis::{Cmd, Value};
use stanchion_core::{Error, ErrorKind, Result};

use crate::error;

/// What a script writes that more than the primary's memory may have to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    Grants,
    Renewals,
    Other,
}

/// What a store waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Durability {
    /// How many replicas have to acknowledge a grant.
    pub(crate) replicas: u32,
    /// The primary, and that many replicas, have to have it on disk.
    pub(crate) fsync: bool,
    /// Renewals wait, too.
    pub(crate) renewals: bool,
}

/// A wait for what a request wrote, on its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quorum {
    replicas: u32,
    fsync: bool,
    milliseconds: u64,
}

/// What acknowledged a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// The primary has it on disk. A wait for replicas alone does not ask for that.
    disk: bool,
    replicas: u32,
}

impl Durability {
    /// Whether grants wait at all.
    pub(crate) fn waits(&self) -> bool {
        self.replicas > 0 || self.fsync
    }

    /// Returns the wait for a script that writes this, if there is any, which takes `timeout` at
    /// most.
    pub(crate) fn quorum(&self, writes: Writes, timeout: Duration) -> Option<Quorum> {
        let waits = match writes {
            Writes::Grants => self.waits(),
            Writes::Renewals => self.waits() && self.renewals,
            Writes::Other => false,
        };
        // At least 1 ms, because a timeout of 0 is none.
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        waits.then_some(Quorum { replicas: self.replicas, fsync: self.fsync, milliseconds })
    }

    /// Returns the error of a write that too little keeps.
    pub(crate) fn shortfall(&self, acknowledged: Result<Acknowledged>, writes: Writes) -> Option<Error> {
        let what = if writes == Writes::Grants { "the grant" } else { "the renewal" };
        let detail = match acknowledged {
            Ok(Acknowledged { disk: false, .. }) if self.fsync => {
                format!("the server had not written to disk in time {what}")
            }
            Ok(Acknowledged { replicas, .. }) if replicas < self.replicas => {
                format!("{replicas} of {} replicas acknowledged {what}", self.replicas)
            }
            Ok(_) => return None,
            Err(error) => return Some(error),
        };
        Some(Error::new(ErrorKind::Unavailable, detail))
    }
}

impl Quorum {
    pub(crate) fn command(&self) -> Cmd {
        let mut wait = redis::cmd(if self.fsync { "WAITAOF" } else { "WAIT" });
        if self.fsync {
            wait.arg(1);
        }
        wait.arg(self.replicas).arg(self.milliseconds);
        wait
    }
}

impl Acknowledged {
    /// Reads the answer to `WAIT` or `WAITAOF`.
    ///
    /// # Errors
    /// `Unknown` if it is neither.
    pub(crate) fn read(answer: &Value) -> Result<Self> {
        let count = |value: &Value| match value {
            Value::Int(count) => u32::try_from(*count).map_err(|_| error::unexpected()),
            _ => Err(error::unexpected()),
        };
        match answer {
            Value::Array(counts) => match counts.as_slice() {
                [disk, replicas] => Ok(Self { disk: count(disk)? > 0, replicas: count(replicas)? }),
                _ => Err(error::unexpected()),
            },
            answer => Ok(Self { disk: false, replicas: count(answer)? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortfall(durability: Durability, answer: &Value) -> Option<String> {
        let error = durability.shortfall(Acknowledged::read(answer), Writes::Renewals)?;
        Some(error.to_string())
    }

    #[test]
    fn too_little_is_told() {
        let replicas = Durability { replicas: 2, ..Durability::default() };
        assert_eq!(shortfall(replicas, &Value::Int(2)), None);
        assert!(shortfall(replicas, &Value::Int(1)).unwrap().contains("1 of 2 replicas"));
        let fsync = Durability { fsync: true, ..replicas };
        let counts = |disk, replicas| Value::Array(vec![Value::Int(disk), Value::Int(replicas)]);
        assert_eq!(shortfall(fsync, &counts(1, 2)), None);
        assert!(shortfall(fsync, &counts(1, 0)).unwrap().contains("0 of 2 replicas"));
        assert!(shortfall(fsync, &counts(0, 2)).unwrap().contains("disk"));
        assert!(shortfall(fsync, &Value::Nil).is_some());
    }

    #[test]
    fn renewals_wait_by_choice() {
        let waits = |durability: Durability, writes| durability.quorum(writes, Duration::ZERO).is_some();
        let grants = Durability { replicas: 1, ..Durability::default() };
        let all = Durability { renewals: true, ..grants };
        let none = Durability { renewals: true, ..Durability::default() };
        assert!(waits(grants, Writes::Grants) && !waits(grants, Writes::Renewals));
        assert!(waits(all, Writes::Renewals) && !waits(all, Writes::Other) && !waits(none, Writes::Renewals));
        let wait = all.quorum(Writes::Grants, Duration::ZERO).unwrap();
        assert_eq!(wait.milliseconds, 1);
    }
}
