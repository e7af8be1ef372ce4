//! The actions of rules, and their effects on a request and its reply.

use std::time::Duration;

/// The fate of a connection after a request or reply was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Both ends see an orderly end of the connection (FIN).
    Fin,
    /// Both ends see a reset (RST).
    Reset,
    /// The connection stays open, and nothing more passes in the direction of the dropped bytes: a
    /// stream has no gaps. Healing does not end that; closing or resetting the connection does.
    Silence,
}

/// The action of a [rule](super::Proxy::on) on a request or its reply.
///
/// If several rules match one request, the oldest rule for requests and the oldest rule for replies
/// act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The request never reaches the server.
    DropRequest(Then),
    /// Half of the request's bytes reach the server.
    CutRequest(Then),
    /// The request, and all bytes after it in its direction, reach the server later by this time.
    DelayRequest(Duration),
    /// The server acts on the request, and its whole reply never reaches the client. The connection
    /// ends when the reply is complete, or when the server waits for more data of the client, such
    /// as a password.
    DropReply(Then),
    /// Half of the reply's bytes reach the client.
    CutReply(Then),
    /// The reply, and all bytes after it in its direction, reach the client later by this time.
    DelayReply(Duration),
}

/// The effect on one side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Drop(Then),
    Cut(Then),
    Delay(Duration),
}

/// An effect and the number of the rule that causes it.
pub(super) type Ordered = (u64, Effect);

/// The effects of the rules on one request and its reply.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    pub(super) request: Option<Ordered>,
    pub(super) reply: Option<Ordered>,
}

impl Fate {
    pub(super) fn add(&mut self, rule: u64, action: Action) {
        let (side, effect) = match action {
            Action::DropRequest(then) => (&mut self.request, Effect::Drop(then)),
            Action::CutRequest(then) => (&mut self.request, Effect::Cut(then)),
            Action::DelayRequest(by) => (&mut self.request, Effect::Delay(by)),
            Action::DropReply(then) => (&mut self.reply, Effect::Drop(then)),
            Action::CutReply(then) => (&mut self.reply, Effect::Cut(then)),
            Action::DelayReply(by) => (&mut self.reply, Effect::Delay(by)),
        };
        side.get_or_insert((rule, effect));
    }
}
