//! What the proxy asks of a protocol, whichever it is.

use std::time::Duration;

use tokio::time::Instant;

use super::rule::{Deed, Then};
use super::state::Ledger;

/// Why there is no frame at the front of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// More bytes are needed to tell.
    Part,
    /// It is not this protocol.
    Foreign,
}

/// Bytes on their way in one direction, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// They do not leave before.
    pub(super) at: Option<Instant>,
    /// What becomes of the connection behind them.
    pub(super) then: Option<Then>,
}

impl Piece {
    pub(super) fn now(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }

    pub(super) fn after(delay: Duration, bytes: &[u8]) -> Self {
        Self::at(Instant::now() + delay, bytes)
    }

    pub(super) fn at(at: Instant, bytes: &[u8]) -> Self {
        Self { at: Some(at), ..Self::now(bytes) }
    }

    /// A whole request or reply, after what is done to it.
    pub(super) fn treated(bytes: &[u8], deed: Option<Deed>) -> Self {
        match deed {
            None => Self::now(bytes),
            Some(Deed::Delay(by)) => Self::after(by, bytes),
            Some(Deed::Drop(then)) => Self { then: Some(then), ..Self::default() },
            Some(Deed::Cut(then)) => Self { then: Some(then), ..Self::now(&bytes[..bytes.len() / 2]) },
        }
    }

    /// Whether nothing may follow it in its direction.
    pub(super) fn is_last(&self) -> bool {
        self.then.is_some()
    }
}

/// Takes one frame after the other from the front of `bytes`. Returns what is to be passed on, and what is left for
/// later; `None` if the rest is not of this protocol and is passed on as it is.
pub(super) fn split(
    mut bytes: Vec<u8>,
    mut next: impl FnMut(&[u8]) -> Result<(usize, Option<Piece>), Stop>,
) -> (Vec<Piece>, Option<Vec<u8>>) {
    let mut pieces = Vec::new();
    let mut at = 0;
    loop {
        match next(&bytes[at..]) {
            Ok((length, piece)) => {
                pieces.extend(piece);
                at += length;
            }
            Err(Stop::Part) => return (pieces, Some(bytes.split_off(at))),
            Err(Stop::Foreign) => {
                pieces.push(Piece::now(&bytes[at..]));
                return (pieces, None);
            }
        }
    }
}

/// One connection as its protocol sees it: takes what was read, and says what is to be written.
pub(super) trait Wire: Send {
    fn client_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Vec<Piece>;

    fn server_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Vec<Piece>;

    /// What was read and not yet passed on, to the server (`0`) or to the client (`1`), once there is no more to read.
    fn rest(&mut self, way: usize) -> Vec<u8>;
}
