//! Which requests a fault meets, and what it does to them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::state::Request;

type Filter = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// What becomes of a connection after something on it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Both ends see an orderly end of the connection (FIN).
    Fin,
    /// Both ends see it reset (RST).
    Reset,
    /// It stays open, and nothing more passes in the direction of what was dropped: a stream has no gaps. Healing does
    /// not end that; closing or resetting the connection does.
    Silence,
}

/// What a [rule](super::Proxy::on) does to a request or to its reply.
///
/// When several rules meet one request, the oldest that acts on the request and the oldest that acts on the reply do so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The request never reaches the server.
    DropRequest(Then),
    /// Half of the request's bytes reach the server.
    CutRequest(Then),
    /// The request, and what follows it in its direction, reaches the server so much later.
    DelayRequest(Duration),
    /// The server acts on the request, and its whole reply never reaches the client. The connection ends when the reply
    /// has come, or the server waits for more of the client, as for a password.
    DropReply(Then),
    /// Half of the reply's bytes reach the client.
    CutReply(Then),
    /// The reply, and what follows it in its direction, reaches the client so much later.
    DelayReply(Duration),
}

/// What is done to one side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Drop(Then),
    Cut(Then),
    Delay(Duration),
}

/// A deed and the number of the rule that wants it.
pub(super) type Ordered = (u64, Deed);

/// What the rules have in store for one request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    pub(super) request: Option<Ordered>,
    pub(super) reply: Option<Ordered>,
}

impl Fate {
    pub(super) fn add(&mut self, rule: u64, action: Action) {
        let (side, deed) = match action {
            Action::DropRequest(then) => (&mut self.request, Deed::Drop(then)),
            Action::CutRequest(then) => (&mut self.request, Deed::Cut(then)),
            Action::DelayRequest(by) => (&mut self.request, Deed::Delay(by)),
            Action::DropReply(then) => (&mut self.reply, Deed::Drop(then)),
            Action::CutReply(then) => (&mut self.reply, Deed::Cut(then)),
            Action::DelayReply(by) => (&mut self.reply, Deed::Delay(by)),
        };
        side.get_or_insert((rule, deed));
    }
}

/// Which requests a rule meets: counted from the moment the rule is [added](super::Proxy::on), over all connections,
/// and among those that pass its filters only.
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
    /// The `k`-th request alone, counted from 1. A `k` of 0 meets none.
    #[must_use]
    pub fn nth(k: u64) -> Self {
        Self { first: k, lasting: false, filters: Vec::new() }
    }

    /// The next request alone.
    #[must_use]
    pub fn next() -> Self {
        Self::nth(1)
    }

    /// The `k`-th request, counted from 1, and all after it, until the rule is removed.
    #[must_use]
    pub fn from_nth(k: u64) -> Self {
        Self { lasting: true, ..Self::nth(k) }
    }

    /// Every request, until the rule is removed.
    #[must_use]
    pub fn each() -> Self {
        Self::from_nth(1)
    }

    /// Only requests with this [name](Request::name), in any case.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let name = name.to_ascii_uppercase();
        self.matching(move |request| request.name == name)
    }

    /// Only requests whose [text](Request::text) contains this.
    #[must_use]
    pub fn containing(self, part: &str) -> Self {
        let part = part.to_owned();
        self.matching(move |request| request.text.contains(&part))
    }

    /// Only requests for which `filter` says yes. It runs inside the proxy, which it must not call.
    #[must_use]
    pub fn matching(mut self, filter: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    pub(super) fn admits(&self, request: &Request) -> bool {
        self.filters.iter().all(|filter| filter(request))
    }

    /// Whether the request with this number among those admitted is met.
    pub(super) fn meets(&self, number: u64) -> bool {
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
