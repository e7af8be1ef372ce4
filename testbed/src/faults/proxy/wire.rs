//! The interface between the proxy and a protocol.

use std::time::Duration;

use tokio::time::Instant;

use super::action::{Effect, Then};
use super::state::Ledger;
use super::stop::Stop;

/// Bytes to forward in one direction, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// The earliest time to forward them.
    pub(super) at: Option<Instant>,
    /// The fate of the connection after them.
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

    /// Creates the piece for a complete request or reply with the effect on it.
    pub(super) fn treated(bytes: &[u8], effect: Option<Effect>) -> Self {
        match effect {
            None => Self::now(bytes),
            Some(Effect::Delay(by)) => Self::after(by, bytes),
            Some(Effect::Drop(then)) => Self { then: Some(then), ..Self::default() },
            Some(Effect::Cut(then)) => Self { then: Some(then), ..Self::now(&bytes[..bytes.len() / 2]) },
        }
    }

    /// Returns whether no piece may follow it in its direction.
    pub(super) fn is_last(&self) -> bool {
        self.then.is_some()
    }
}

/// Takes one frame after the other from the front of `bytes`. Returns the pieces to forward, and
/// the bytes left for later; `None` if the rest is of another protocol and is forwarded unchanged.
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

/// The protocol of one connection: takes the bytes that were read, and returns the pieces to write.
pub(super) trait Wire: Send {
    /// Processes bytes of the client.
    fn client_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Vec<Piece>;

    /// Processes bytes of the server.
    fn server_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Vec<Piece>;

    /// Returns the bytes that were read and not yet forwarded to the server (`0`) or to the client
    /// (`1`), at the end of input.
    fn rest(&mut self, way: usize) -> Vec<u8>;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::postgres::Postgres;
    use super::super::redis::Redis;
    use super::super::state::{Ledger, Shared};
    use super::{Piece, Wire};

    /// Passes both sides' bytes in chunks of `size`, and returns how many requests and replies were
    /// seen.
    fn counts(mut wire: impl Wire, size: usize, talk: &[(&[u8], &[u8])]) -> (u64, u64) {
        let shared = Arc::new(Shared::new());
        let ledger = Ledger::begin(&shared);
        let joined =
            |pieces: Vec<Piece>| pieces.into_iter().flat_map(|piece| piece.bytes).collect::<Vec<_>>();
        for (request, reply) in talk {
            let passed = request.chunks(size).flat_map(|bytes| joined(wire.client_sent(bytes, &ledger)));
            assert_eq!(passed.collect::<Vec<_>>(), *request, "in chunks of {size}");
            let passed = reply.chunks(size).flat_map(|bytes| joined(wire.server_sent(bytes, &ledger)));
            assert_eq!(passed.collect::<Vec<_>>(), *reply, "in chunks of {size}");
        }
        let state = shared.state();
        (state.requests, state.replies)
    }

    #[test]
    fn what_passes_does_not_depend_on_how_it_is_cut_up() {
        let redis: &[(&[u8], &[u8])] = &[
            (b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", b"%1\r\n$5\r\nproto\r\n:3\r\n"),
            (b"PING\r\n*1\r\n$4\r\nPING\r\n", b"+PONG\r\n>2\r\n+invalidate\r\n_\r\n+PONG\r\n"),
            (b"*3\r\n$5\r\nBLPOP\r\n$1\r\na\r\n$1\r\n1\r\n", b"*2\r\n$1\r\na\r\n$2\r\n\r\n\r\n"),
        ];
        let postgres: &[(&[u8], &[u8])] = &[
            (&[0, 0, 0, 8, 4, 210, 22, 47], b"N"),
            (b"\0\0\0\x09\0\x03\0\0\0", b"R\0\0\0\x08\0\0\0\0S\0\0\0\x08a\0b\0Z\0\0\0\x05I"),
            (
                b"P\0\0\0\x0as\0x\0\0\0S\0\0\0\x04Q\0\0\0\x06x\0",
                b"1\0\0\0\x04Z\0\0\0\x05IA\0\0\0\x04Z\0\0\0\x05I",
            ),
        ];
        for size in 1..64 {
            assert_eq!(counts(Redis::default(), size, redis), (4, 4));
            assert_eq!(counts(Postgres::default(), size, postgres), (4, 4));
        }
    }

    #[test]
    fn what_is_encrypted_passes_unread() {
        let hello: &[(&[u8], &[u8])] = &[(b"\x16\x03\x01*1\r\n", b"\x16\x03\x03+OK\r\n")];
        assert_eq!(counts(Redis::default(), 4, hello), (0, 0));
        let granted: &[(&[u8], &[u8])] =
            &[(&[0, 0, 0, 8, 4, 210, 22, 47], b"S"), (b"\x16\x03\x01", b"\x16\x03\x03Z\0\0\0\x05I")];
        assert_eq!(counts(Postgres::default(), 2, granted), (1, 1));
    }
}
