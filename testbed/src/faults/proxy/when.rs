//! The requests that a rule matches.

use std::fmt;
use std::sync::Arc;

use super::request::Request;

type Filter = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// The requests that a rule matches. Requests are counted from the moment the rule is
/// [added](super::Proxy::on), over all connections; only requests that pass the filters count.
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

    /// Restricts it to requests for which `filter` is true. The filter runs inside the proxy, and
    /// must not call it.
    #[must_use]
    pub fn matching(mut self, filter: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    pub(super) fn admits(&self, request: &Request) -> bool {
        self.filters.iter().all(|filter| filter(request))
    }

    /// Returns whether it matches the request with this number among the requests that pass the
    /// filters.
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
