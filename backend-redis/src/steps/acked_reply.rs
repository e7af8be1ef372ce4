//! A reply, and whether enough replicas have what was written.

use stanchion_core::{Error, ErrorKind, Result};

use super::reply::Reply;

/// A reply. If too few replicas have acknowledged what was written, `shortfall` is the error of that.
#[derive(Debug)]
pub(super) struct AckedReply {
    pub(super) reply: Reply,
    pub(super) shortfall: Option<Error>,
}

/// Returns the error of a grant that `count` replicas have acknowledged, if that is fewer than `wanted`.
pub(super) fn shortfall(count: Result<u32>, wanted: u32) -> Option<Error> {
    match count {
        Ok(count) if count >= wanted => None,
        Ok(count) => {
            let detail = format!("{count} of {wanted} replicas acknowledged the grant, which was undone");
            Some(Error::new(ErrorKind::Unavailable, detail))
        }
        Err(error) => Some(error),
    }
}
