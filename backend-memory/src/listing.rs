//! Lists the names of a namespace, a part of a shard at a time.

use stanchion_core::{Cursor, Kind, ListOptions, ListPage, Listed, Name, Result};

use crate::STORE;
use crate::names::SHARDS;
use crate::session::Session;
use crate::state::State;

/// Maximum number of names of one call, those included that turn out to have no state: a caller
/// with many idle handles must not keep its runtime from other work.
const MAX_NAMES: usize = 10_000;

/// Where a listing goes on: behind a name of a shard of a kind. The empty text stands before all
/// names.
struct Position {
    kind: usize,
    shard: usize,
    after: String,
}

impl Position {
    fn read(text: &str) -> Result<Self> {
        let read = || {
            let mut parts = text.splitn(3, ':');
            let (kind, shard) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let after = parts.next()?.to_owned();
            (kind < Kind::ALL.len() && shard < SHARDS).then_some(Self { kind, shard, after })
        };
        read().ok_or_else(Cursor::invalid)
    }

    fn write(&self) -> String {
        format!("{}:{}:{}", self.kind, self.shard, self.after)
    }

    /// Returns the beginning of the next shard; `None` at the end.
    fn next_shard(&self) -> Option<Self> {
        let (kind, shard) =
            if self.shard + 1 < SHARDS { (self.kind, self.shard + 1) } else { (self.kind + 1, 0) };
        (kind < Kind::ALL.len()).then(|| Self { kind, shard, after: String::new() })
    }
}

/// Returns a page of the names with state.
pub(crate) fn list(session: &Session, options: &ListOptions) -> Result<ListPage> {
    options.check()?;
    session.check_open()?;
    let begin = || Ok(Position { kind: 0, shard: 0, after: String::new() });
    let read = |cursor: &Cursor| Position::read(cursor.position(STORE, &session.namespace)?);
    let mut at = options.after.as_ref().map_or_else(begin, read)?;
    let wanted = usize::try_from(options.page).unwrap_or(usize::MAX);
    let (mut entries, mut looked_at) = (Vec::new(), 0);
    loop {
        let kind = Kind::ALL[at.kind];
        let next = if options.kind.is_some_and(|only| only != kind) {
            at.next_shard()
        } else {
            let most = wanted - entries.len();
            let names = session.state.names_after(kind, at.shard, &options.prefix, &at.after, most);
            looked_at += names.len();
            entries.extend(names.iter().filter_map(|name| session.state.listed(kind, name)));
            match names.last() {
                Some(last) if names.len() == most => Some(Position { after: last.as_str().to_owned(), ..at }),
                _ => at.next_shard(),
            }
        };
        let Some(next) = next else { return Ok(ListPage::new(entries, None)) };
        if entries.len() >= wanted || looked_at >= MAX_NAMES {
            let next = Cursor::new(STORE, &session.namespace, &next.write());
            return Ok(ListPage::new(entries, Some(next)));
        }
        at = next;
    }
}

impl State {
    /// Returns the first names of a shard that come after one, in the order of their bytes.
    fn names_after(&self, kind: Kind, shard: usize, prefix: &str, after: &str, most: usize) -> Vec<Name> {
        match kind {
            Kind::Limiter => self.limiters.after(shard, prefix, after, most),
            #[cfg(feature = "bloom")]
            Kind::BloomFilter => self.filters.after(shard, prefix, after, most),
            #[cfg(not(feature = "bloom"))]
            Kind::BloomFilter => Vec::new(),
            _ => self.names(kind).after(shard, prefix, after, most),
        }
    }

    /// Returns the figures of a name; `None` if it has no state.
    fn listed(&self, kind: Kind, name: &Name) -> Option<Listed> {
        let mut listed = Listed::new(kind, name.clone());
        let is_listed = match kind {
            Kind::Limiter => {
                let at = self.limiter_clock.read();
                self.limiters.find(name)?.list(at, &mut listed)
            }
            #[cfg(feature = "bloom")]
            Kind::BloomFilter => self.filters.find(name)?.list(self.clock.read(), &mut listed),
            #[cfg(not(feature = "bloom"))]
            Kind::BloomFilter => false,
            _ => self.names(kind).find(name)?.change(|permits, transition| {
                permits.reap(transition);
                permits.list(transition.at(), &mut listed)
            }),
        };
        is_listed.then_some(listed)
    }
}
