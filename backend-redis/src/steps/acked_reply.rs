//! A reply, and whether enough keeps what was written.

use stanchion_core::{Error, Result};

use super::reply::Reply;

/// A reply. If too little keeps what was written, `shortfall` is the error of that.
#[derive(Debug)]
pub(super) struct AckedReply {
    pub(super) reply: Reply,
    pub(super) shortfall: Option<Error>,
}

impl AckedReply {
    /// Reads the reply. Its error is that of a write which too little keeps; `is_written` tells
    /// whether there was one.
    pub(super) fn confirmed<A>(
        self,
        read: impl FnOnce(Reply) -> Result<A>,
        is_written: impl FnOnce(&A) -> bool,
    ) -> Result<A> {
        let answer = read(self.reply)?;
        match self.shortfall {
            Some(shortfall) if is_written(&answer) => Err(shortfall),
            _ => Ok(answer),
        }
    }
}
