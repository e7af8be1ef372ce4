//! Rules: the requests that they match, and their actions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::state::Request;

type Filter = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// The fate of a connection after a request or reply was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Both ends see an orderly end of the connection (FIN).
    Fin,
    /// Both ends see a reset (RST).
    Reset,
    /// The connection stays open, and nothing more passes in the direction of the dropped bytes: a stream has no gaps.
    /// Healing does not end that; closing or resetting the connection does.
    Silence,
}

/// The action of a [rule](super::Proxy::on) on a request or its reply.
///
/// If several rules match one request, the oldest rule for requests and the oldest rule for replies act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The request never reaches the server.
    DropRequest(Then),
    /// Half of the request's bytes reach the server.
    CutRequest(Then),
    /// The request, and all bytes after it in its direction, reach the server later by this time.
    DelayRequest(Duration),
    /// The server acts on the request, and its whole reply never reaches the client. The connection ends when the reply
    /// is complete, or when the server waits for more data of the client, such as a password.
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

/// The requests that a rule matches. Requests are counted from the moment the rule is [added](super::Proxy::on), over
/// all connections; only requests that pass the filters count.
///
/// ```
/// use stanchion_testbed::faults::When;
///
/// let third_script = When::nth(3).named("EVALSHA");
/// let commits = When::each().matching(|request| request.text.starts_with("COMMIT"));
/// # let _ = (third_script, commits);
/// ```
#[derive(Clone)]
pub struct When {
    first: u64,
    lasting: bool,
    filters: Vec<Filter>,
}

impl When {
    /// Matches only the `k`-th request, counted from 1. A `k` of 0 matches none.
    #[must_use]
    pub fn nth(k: u64) -> Self {
        Self { first: k, lasting: false, filters: Vec::new() }
    }

    /// Matches only the next request.
    #[must_use]
    pub fn next() -> Self {
        Self::nth(1)
    }

    /// Matches the `k`-th request, counted from 1, and all after it, until the rule is removed.
    #[must_use]
    pub fn from_nth(k: u64) -> Self {
        Self { lasting: true, ..Self::nth(k) }
    }

    /// Matches every request, until the rule is removed.
    #[must_use]
    pub fn each() -> Self {
        Self::from_nth(1)
    }

    /// Restricts it to requests with this [name](Request::name), in any case.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let name = name.to_ascii_uppercase();
        self.matching(move |request| request.name == name)
    }

    /// Restricts it to requests whose [text](Request::text) contains `part`.
    #[must_use]
    pub fn containing(self, part: &str) -> Self {
        let part = part.to_owned();
        self.matching(move |request| request.text.contains(&part))
    }

    /// Restricts it to requests for which `filter` is true. The filter runs inside the proxy, and must not call it.
    #[must_use]
    pub fn matching(mut self, filter: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    pub(super) fn admits(&self, request: &Request) -> bool {
        self.filters.iter().all(|filter| filter(request))
    }

    /// Returns whether it matches the request with this number among the requests that pass the filters.
    pub(super) fn matches_number(&self, number: u64) -> bool {
        number == self.first || (self.lasting && number > self.first)
    }
}

impl fmt::Debug for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("When")
            .field("first", &self.first)
            .field("lasting", &self.lasting)
            .field("filters", &self.filters.len())
            .finish()
    }
}
