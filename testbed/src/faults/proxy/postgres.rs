//! One connection of a Postgres client: <https://www.postgresql.org/docs/current/protocol.html>.

use std::collections::{HashMap, VecDeque};
use std::mem;

use super::action::{Effect, Ordered};
use super::pg_frame::{self, Opening};
use super::state::Ledger;
use super::stop::Stop;
use super::wire::{Piece, Wire, split};

/// Groups messages into requests, each ended by `Sync` or a simple query, and matches
/// `ReadyForQuery` to them by their order. From the moment a connection uses TLS or another
/// protocol, its bytes are forwarded unread.
#[derive(Debug, Default)]
pub(super) struct Postgres {
    sent: Vec<u8>,
    received: Vec<u8>,
    started: bool,
    foreign: bool,
    /// Nothing more passes, by direction.
    client_ended: bool,
    server_ended: bool,
    group: MessageGroup,
    /// A `Flush` has sent the group's request before its end: it is already counted, and rules have
    /// acted on it.
    begun: bool,
    pending: VecDeque<Pending>,
    /// The statement behind each name, for requests that only name it.
    statements: HashMap<Vec<u8>, String>,
}

/// The messages of a request that is not complete.
#[derive(Debug, Default)]
struct MessageGroup {
    bytes: Vec<u8>,
    statement: Option<String>,
    /// The name of the request, if it has no statement.
    kind: Option<&'static str>,
}

/// A request that waits for its reply.
#[derive(Debug)]
struct Pending {
    fate: Option<Ordered>,
    /// The reply is one byte, the answer to a request for encryption.
    byte: bool,
    /// The bytes so far of a reply that will be lost or cut.
    collected: Vec<u8>,
}

impl Postgres {
    fn request(
        &mut self,
        name: &str,
        text: &str,
        bytes: &[u8],
        byte: bool,
        ledger: &Ledger,
    ) -> Option<Piece> {
        let fate = ledger.seen(name, text);
        if self.client_ended {
            return None;
        }
        let piece = Piece::treated(bytes, ledger.carry_out(fate.request));
        if piece.is_last() {
            self.client_ended = true;
        } else {
            self.pending.push_back(Pending { fate: fate.reply, byte, collected: Vec::new() });
        }
        Some(piece)
    }

    fn opening(&mut self, bytes: &[u8], opening: Opening, ledger: &Ledger) -> Option<Piece> {
        match opening {
            Opening::Encryption => self.request("SSLREQUEST", "SSLREQUEST", bytes, true, ledger),
            Opening::Cancel => {
                let piece = self.request("CANCEL", "CANCEL", bytes, false, ledger);
                self.pending.clear();
                piece
            }
            Opening::Startup(parameters) => {
                self.started = true;
                self.request("STARTUP", &format!("STARTUP {parameters}"), bytes, false, ledger)
            }
        }
    }

    fn message(&mut self, bytes: &[u8], ledger: &Ledger) -> Option<Piece> {
        let passed = |postgres: &Self| (!postgres.client_ended).then(|| Piece::now(bytes));
        let body = &bytes[5..];
        match bytes[0] {
            // Parts of a request in progress: a password, rows of a copy. And `Terminate`.
            b'p' | b'd' | b'c' | b'f' | b'X' => return passed(self),
            b'P' => {
                let (name, rest) = pg_frame::text(body);
                let statement = pg_frame::words(pg_frame::text(rest).0);
                self.statements.insert(name.to_vec(), statement.clone());
                self.group.statement.get_or_insert(statement);
            }
            b'B' => self.name_statement(pg_frame::text(pg_frame::text(body).1).0),
            b'D' if body.first() == Some(&b'S') => {
                self.name_statement(pg_frame::text(&body[1..]).0);
                self.group.kind.get_or_insert("DESCRIBE");
            }
            b'C' => drop(self.group.kind.get_or_insert("CLOSE")),
            b'Q' => drop(self.group.statement.insert(pg_frame::words(pg_frame::text(body).0))),
            b'F' => self.group.kind = Some("CALL"),
            _ => {}
        }
        self.group.bytes.extend_from_slice(bytes);
        if !b"QFSH".contains(&bytes[0]) {
            return None;
        }
        let group = mem::take(&mut self.group);
        if mem::replace(&mut self.begun, bytes[0] == b'H') {
            return (!self.client_ended).then(|| Piece::now(group.bytes));
        }
        let text = group.statement.unwrap_or_else(|| group.kind.unwrap_or("SYNC").to_owned());
        self.request(&pg_frame::first_word(&text), &text, &group.bytes, false, ledger)
    }

    fn name_statement(&mut self, name: &[u8]) {
        if let (None, Some(statement)) = (&self.group.statement, self.statements.get(name)) {
            self.group.statement = Some(statement.clone());
        }
    }

    /// Processes one message of the server.
    fn reply(&mut self, bytes: &[u8], ledger: &Ledger) -> Option<Piece> {
        let kind = bytes[0];
        if kind == b'A' && ledger.swallow_wake_up() {
            return None;
        }
        let unasked = b"ANS".contains(&kind) || self.pending.is_empty();
        if unasked {
            return (!self.server_ended).then(|| Piece::now(bytes));
        }
        self.part(bytes, kind == b'Z', pg_frame::awaits_client(bytes), ledger)
    }

    /// Processes a part of the oldest request's reply. A reply is lost or cut only when it is
    /// complete, or when the server waits for the client in the middle of it: it would wait for
    /// ever.
    fn part(&mut self, bytes: &[u8], complete: bool, awaits: bool, ledger: &Ledger) -> Option<Piece> {
        let front = self.pending.front_mut()?;
        let fate = front.fate;
        let piece = match fate.map(|(_, effect)| effect) {
            Some(Effect::Drop(_) | Effect::Cut(_)) => {
                front.collected.extend_from_slice(bytes);
                self.server_ended = true;
                (complete || awaits).then(|| {
                    front.fate = None;
                    Piece::treated(&mem::take(&mut front.collected), ledger.carry_out(fate))
                })
            }
            _ if self.server_ended => None,
            None => Some(Piece::now(bytes)),
            Some(Effect::Delay(by)) => {
                if complete {
                    ledger.carry_out(fate);
                }
                Some(Piece::after(by, bytes))
            }
        };
        if complete {
            self.pending.pop_front();
            ledger.replied();
        }
        piece
    }

    /// Processes the message of the client at the front of these bytes; returns its length, too.
    fn next_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Result<(usize, Option<Piece>), Stop> {
        if self.started {
            let length = pg_frame::message(bytes)?;
            return Ok((length, self.message(&bytes[..length], ledger)));
        }
        let (length, opening) = pg_frame::opening(bytes)?;
        Ok((length, self.opening(&bytes[..length], opening, ledger)))
    }

    /// Processes the message of the server at the front of these bytes; returns its length, too.
    fn next_received(&mut self, bytes: &[u8], ledger: &Ledger) -> Result<(usize, Option<Piece>), Stop> {
        if self.pending.front().is_some_and(|request| request.byte) {
            let answer = *bytes.first().ok_or(Stop::Part)?;
            // After a yes, both directions are encrypted.
            self.foreign = answer != b'N';
            return Ok((1, self.part(&bytes[..1], true, false, ledger)));
        }
        let length = pg_frame::message(bytes)?;
        Ok((length, self.reply(&bytes[..length], ledger)))
    }
}

impl Wire for Postgres {
    fn client_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Vec<Piece> {
        let mut sent = mem::take(&mut self.sent);
        sent.extend_from_slice(bytes);
        let (pieces, rest) =
            split(
                sent,
                |bytes| {
                    if self.foreign { Err(Stop::Foreign) } else { self.next_sent(bytes, ledger) }
                },
            );
        self.foreign |= rest.is_none();
        self.sent = rest.unwrap_or_default();
        pieces
    }

    fn server_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Vec<Piece> {
        let mut received = mem::take(&mut self.received);
        received.extend_from_slice(bytes);
        let (pieces, rest) = split(received, |bytes| {
            if self.foreign { Err(Stop::Foreign) } else { self.next_received(bytes, ledger) }
        });
        self.foreign |= rest.is_none();
        self.received = rest.unwrap_or_default();
        pieces
    }

    fn rest(&mut self, way: usize) -> Vec<u8> {
        if way == 1 {
            return mem::take(&mut self.received);
        }
        let mut rest = mem::take(&mut self.group).bytes;
        rest.append(&mut self.sent);
        rest
    }
}
