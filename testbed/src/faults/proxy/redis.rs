//! One connection of a Redis client.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use super::action::{Effect, Ordered, Then};
use super::resp::{self, Command, Frame};
use super::state::Ledger;
use super::stop::Stop;
use super::wire::{Piece, Wire, split};

const SUBSCRIPTIONS: [&str; 6] =
    ["SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE"];
const MESSAGES: [&str; 3] = ["message", "pmessage", "smessage"];

/// Matches replies to commands by their order. A connection with TLS or another protocol is
/// forwarded unread.
#[derive(Debug, Default)]
pub(super) struct Redis {
    sent: Vec<u8>,
    received: Vec<u8>,
    pending: VecDeque<Pending>,
    foreign: bool,
    /// Nothing more passes, by direction.
    client_ended: bool,
    server_ended: bool,
    version_3: bool,
    subscribed: bool,
}

/// A command that waits for its reply.
#[derive(Debug)]
struct Pending {
    name: String,
    /// The number of its replies: a subscription has one for each channel.
    replies: usize,
    fate: Option<Ordered>,
    /// When a blocking pop times out; `None` for other commands, or without a time limit.
    gives_up: Option<Instant>,
    pops: bool,
    version: Option<bool>,
}

impl Pending {
    fn of(command: &Command, fate: Option<Ordered>) -> Self {
        let name = command.words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        let timeout = match name.as_str() {
            "BLPOP" | "BRPOP" => Some(command.last.as_str()),
            "BLMPOP" => command.words.get(1).map(String::as_str),
            _ => None,
        };
        let seconds = timeout.and_then(|seconds| seconds.parse().ok()).filter(|&seconds: &f64| seconds > 0.0);
        let wait = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let channels =
            if SUBSCRIPTIONS.contains(&name.as_str()) { command.count.saturating_sub(1) } else { 1 };
        let version = command.words.get(1).filter(|_| name == "HELLO").map(|version| version == "3");
        Self {
            replies: channels.max(1),
            fate,
            gives_up: wait.map(|wait| Instant::now() + wait),
            pops: timeout.is_some(),
            version,
            name,
        }
    }
}

impl Redis {
    fn command(&mut self, bytes: &[u8], command: &Command, ledger: &Ledger) -> Option<Piece> {
        if command.count == 0 {
            return Some(Piece::now(bytes));
        }
        let name = command.words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        // Without passwords.
        let shown = match name.as_str() {
            "AUTH" => 1,
            "HELLO" => 2,
            _ => command.words.len(),
        };
        let fate = ledger.seen(&name, &command.words[..shown.min(command.words.len())].join(" "));
        if self.client_ended {
            return None;
        }
        let rewritten = ledger.rewritten(bytes);
        let piece = Piece::treated(rewritten.as_deref().unwrap_or(bytes), ledger.carry_out(fate.request));
        if piece.is_last() {
            self.client_ended = true;
        } else {
            self.pending.push_back(Pending::of(command, fate.reply));
        }
        Some(piece)
    }

    /// Returns whether a frame is no reply to a command: a message of a subscription, or an
    /// invalidation.
    fn is_unasked(&self, frame: &Frame) -> bool {
        let confirms = SUBSCRIPTIONS.iter().any(|name| name.eq_ignore_ascii_case(&frame.head));
        match frame.kind {
            b'>' => !confirms,
            b'*' => self.subscribed && MESSAGES.contains(&frame.head.as_str()),
            _ => false,
        }
    }

    fn frame(&mut self, bytes: &[u8], frame: &Frame, ledger: &Ledger) -> Option<Piece> {
        if self.is_unasked(frame) {
            let swallowed = MESSAGES.contains(&frame.head.as_str()) && ledger.swallow_wake_up();
            return (!swallowed && !self.server_ended).then(|| Piece::now(bytes));
        }
        let Some(front) = self.pending.front_mut() else {
            return (!self.server_ended).then(|| Piece::now(bytes));
        };
        front.replies -= 1;
        if front.replies > 0 {
            return (!self.server_ended).then(|| Piece::now(bytes));
        }
        let request = self.pending.pop_front()?;
        ledger.replied();
        self.version_3 = request.version.filter(|_| frame.kind != b'-').unwrap_or(self.version_3);
        self.subscribed |= SUBSCRIPTIONS.contains(&request.name.as_str());
        if self.server_ended {
            return None;
        }
        if request.pops && frame.kind == b'*' && !frame.nil && ledger.swallow_wake_up() {
            return Some(self.nothing(&request));
        }
        let piece = Piece::treated(bytes, ledger.carry_out(request.fate));
        self.server_ended |= piece.is_last();
        Some(piece)
    }

    /// Returns the reply of a pop that found nothing, to be sent when the pop times out. Without a
    /// time limit it is never sent.
    fn nothing(&mut self, request: &Pending) -> Piece {
        let nil: &[u8] = if self.version_3 { b"_\r\n" } else { b"*-1\r\n" };
        match request.gives_up {
            Some(at) => Piece::at(at, nil),
            None => {
                self.server_ended = true;
                Piece::treated(&[], Some(Effect::Drop(Then::Silence)))
            }
        }
    }
}

impl Wire for Redis {
    fn client_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Vec<Piece> {
        let mut sent = mem::take(&mut self.sent);
        sent.extend_from_slice(bytes);
        let (pieces, rest) = split(sent, |bytes| {
            let command = if self.foreign { Err(Stop::Foreign) } else { resp::command(bytes) }?;
            Ok((command.length, self.command(&bytes[..command.length], &command, ledger)))
        });
        self.foreign |= rest.is_none();
        self.sent = rest.unwrap_or_default();
        pieces
    }

    fn server_sent(&mut self, bytes: &[u8], ledger: &Ledger) -> Vec<Piece> {
        let mut received = mem::take(&mut self.received);
        received.extend_from_slice(bytes);
        let (pieces, rest) = split(received, |bytes| {
            let frame = if self.foreign { Err(Stop::Foreign) } else { resp::frame(bytes) }?;
            Ok((frame.length, self.frame(&bytes[..frame.length], &frame, ledger)))
        });
        self.foreign |= rest.is_none();
        self.received = rest.unwrap_or_default();
        pieces
    }

    fn rest(&mut self, way: usize) -> Vec<u8> {
        mem::take(if way == 0 { &mut self.sent } else { &mut self.received })
    }
}
