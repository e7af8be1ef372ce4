//! Looks at the store, which all viewers share.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_lock::{Mutex, MutexGuard};
use futures_util::future::OptionFuture;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use stanchion_core::clock::{Instant, now, sleep_until};
use stanchion_core::{ErrorKind, Inspection, Kind, ListOptions, Result, Store, StoreExt as _};

use crate::messages::Messages;
use crate::overview::{Overview, Seen};
use crate::row::{Key, Millis, Row, has_holders, millis, number};

/// Maximum number of names that a look has.
const MAX_NAMES: usize = 2_000;
/// Maximum number of names whose holds one look asks for, and of requests for them at a time.
const MAX_INSPECTED: usize = 500;
const CONCURRENT: usize = 16;
/// Number of points of the plots, and the time that they are kept.
const MAX_POINTS: usize = 600;
const HISTORY: u64 = 600_000;
/// The reading of the clock at the begin of a watch, in ms: a hold that is older than the watch, by
/// up to a hundred years, has a time.
const BEGIN: Millis = 100 * 365 * 24 * 60 * 60 * 1_000;
/// Length of the pause after a look, as a multiple of the length of the look: looks must not be all
/// that the store does.
const PAUSE: u32 = 4;

/// Totals of one look.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Point {
    pub(crate) at_ms: Millis,
    pub(crate) names: u64,
    pub(crate) held: u64,
    pub(crate) waiting: u64,
    /// Holds that were seen to begin, per second. A hold that began and ended between two looks was
    /// not seen.
    pub(crate) began_per_s: f64,
}

/// The names at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Its number in the order of looks; 0 before the first.
    pub(crate) number: u64,
    /// When it ended.
    pub(crate) at: Millis,
    pub(crate) took: Duration,
    pub(crate) rows: BTreeMap<Key, Arc<Row>>,
    /// There are more names than are shown.
    pub(crate) more: bool,
    /// Why this is not new: the rows are of the look before.
    pub(crate) error: Option<String>,
    pub(crate) points: Arc<VecDeque<Point>>,
    /// When the holds of each name were asked for.
    inspected: HashMap<Key, Millis>,
    due: Instant,
}

/// The names that are looked at: names of a kind, if one is given, that begin with a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) kind: Option<Kind>,
    pub(crate) prefix: String,
}

/// Watches that share it look one after the other, with one pause for all of them after each look.
#[derive(Clone, Debug)]
pub(crate) struct Turn(Arc<Mutex<Instant>>);

impl Turn {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(now())))
    }

    /// Waits for the turn, and for the end of the pause.
    async fn begin(&self) -> Pause<'_> {
        let due = self.0.lock().await;
        sleep_until(*due).await;
        Pause { due, start: now(), times: PAUSE }
    }
}

/// Ends the turn with a pause, also if the request for the look goes away before its end.
struct Pause<'a> {
    due: MutexGuard<'a, Instant>,
    start: Instant,
    /// How many times the length of the look.
    times: u32,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let end = now();
        *self.due = end + end.saturating_duration_since(self.start) * self.times;
    }
}

/// A store that is looked at when it is asked for, but not more often than the interval says.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) scope: Scope,
    interval: Duration,
    turn: Option<Turn>,
    origin: Instant,
    latest: Mutex<Arc<Look>>,
    /// What its viewers are told.
    pub(crate) messages: Messages,
}

impl Watch {
    pub(crate) fn new(store: Arc<dyn Store>, scope: Scope, interval: Duration) -> Self {
        Self::since(now(), store, scope, interval, None)
    }

    /// Makes a watch of other names by the same clock.
    pub(crate) fn search(&self, scope: Scope, turn: Turn) -> Self {
        Self::since(self.origin, Arc::clone(&self.store), scope, self.interval, Some(turn))
    }

    fn since(
        origin: Instant,
        store: Arc<dyn Store>,
        scope: Scope,
        interval: Duration,
        turn: Option<Turn>,
    ) -> Self {
        let none = Look {
            number: 0,
            at: 0,
            took: Duration::ZERO,
            rows: BTreeMap::new(),
            more: false,
            error: None,
            points: Arc::default(),
            inspected: HashMap::new(),
            due: origin,
        };
        Self {
            store,
            scope,
            interval,
            turn,
            origin,
            latest: Mutex::new(Arc::new(none)),
            messages: Messages::default(),
        }
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Millis {
        self.reading(now())
    }

    fn reading(&self, at: Instant) -> Millis {
        BEGIN + millis(at.saturating_duration_since(self.origin))
    }

    /// Returns the latest look, or a new one if that is due. Of several callers one looks and the
    /// others wait for it; if it goes away meanwhile, the next one looks.
    pub(crate) async fn look(&self) -> Arc<Look> {
        let mut latest = self.latest.lock().await;
        if latest.number == 0 || now() >= latest.due {
            *latest = Arc::new(self.take(&latest).await);
        }
        Arc::clone(&latest)
    }

    /// Waits for a look after the one of that number.
    pub(crate) async fn next(&self, number: u64) -> Arc<Look> {
        loop {
            let look = self.look().await;
            if look.number > number {
                return look;
            }
            sleep_until(look.due).await;
        }
    }

    async fn take(&self, before: &Look) -> Look {
        let mut turn = OptionFuture::from(self.turn.as_ref().map(Turn::begin)).await;
        let start = now();
        let mut look = match self.seen(before).await {
            Ok(look) => look,
            Err(error) => Look { error: Some(error.to_string()), ..before.clone() },
        };
        look.number += 1;
        let end = now();
        look.took = end.saturating_duration_since(start);
        // A store that is away has no work by this, and its return is to be seen soon.
        let times = if look.error.is_some() { 1 } else { PAUSE };
        if let Some(pause) = &mut turn {
            pause.times = times;
        }
        look.due = end + self.interval.max(look.took * times);
        look
    }

    /// Looks at all names, and at the holds of some.
    async fn seen(&self, before: &Look) -> Result<Look> {
        let (rows, more) = self.list(before).await?;
        let mut look = Look { rows, more, error: None, ..before.clone() };
        look.inspected.retain(|key, _| look.rows.contains_key(key));
        let begun = self.inspect(&mut look, before).await?;
        look.at = self.now();
        look.add_point(before, begun);
        Ok(look)
    }

    async fn list(&self, before: &Look) -> Result<(BTreeMap<Key, Arc<Row>>, bool)> {
        let mut options = ListOptions::new().prefix(&self.scope.prefix);
        options.kind = self.scope.kind;
        let Overview { names, is_cut } = Overview::take(&*self.store, &options, MAX_NAMES).await?;
        let of = |Seen { listed, at }: &Seen| {
            let key = (listed.kind.as_str(), listed.name.as_str().to_owned());
            let known = before.rows.get(&key);
            let row = Row::new(listed, self.reading(*at), known.map(AsRef::as_ref));
            let unchanged = known.filter(|known| ***known == row).map(Arc::clone);
            (key, unchanged.unwrap_or_else(|| Arc::new(row)))
        };
        Ok((names.iter().map(of).collect(), is_cut))
    }

    /// Asks for the holds of the names that have changed, and then of the names that were asked for
    /// the longest time ago. Returns the number of holds that have begun.
    ///
    /// # Errors
    /// Of a store that went away meanwhile. Each further request would take its whole time limit.
    async fn inspect(&self, look: &mut Look, before: &Look) -> Result<u64> {
        let counts = |row: &Row| (row.holders, row.waiters);
        let held = look.rows.values().filter(|row| has_holders(row.kind) && row.holders != Some(0));
        let mut held: Vec<_> = held
            .map(|row| {
                let key = row.key();
                let known = before.rows.get(&key).filter(|known| counts(known) == counts(row));
                (known.map(|_| look.inspected.get(&key).copied().unwrap_or_default()), key)
            })
            .collect();
        held.sort_unstable();
        held.truncate(MAX_INSPECTED);
        let asked: Vec<_> = held.into_iter().map(|(_, key)| self.ask(key)).collect();
        let mut answers = stream::iter(asked).buffer_unordered(CONCURRENT);
        let mut begun = 0;
        while let Some(answer) = answers.next().await {
            let Some((key, state, at)) = answer? else { continue };
            if let Some(row) = look.rows.get_mut(&key) {
                let mut closer = Row::clone(row);
                begun += closer.inspected(&state, at);
                if closer != **row {
                    *row = Arc::new(closer);
                }
            }
            look.inspected.insert(key, at);
        }
        Ok(begun)
    }

    /// Asks for the holds of a name. If the store cannot answer, the name keeps its known holds.
    async fn ask(&self, key: Key) -> Result<Option<(Key, Inspection, Millis)>> {
        let kind = Kind::ALL.iter().copied().find(|kind| kind.as_str() == key.0);
        let Some(kind) = kind else { return Ok(None) };
        match self.store.inspect(kind, &key.1).await {
            Ok(state) => Ok(Some((key, state, self.now()))),
            Err(error) if is_outage(error.kind()) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// Returns whether an error is about the store rather than about the name that was asked for.
fn is_outage(kind: ErrorKind) -> bool {
    kind.is_retryable() || kind == ErrorKind::Closed
}

impl Look {
    fn add_point(&mut self, before: &Self, begun: u64) {
        let sum = |of: fn(&Row) -> Option<u64>| self.rows.values().filter_map(|row| of(row)).sum();
        let elapsed = Duration::from_millis(self.at.saturating_sub(before.at)).as_secs_f64();
        // The holds of the first look began at any time before.
        let is_known = before.number > 0 && elapsed > 0.0;
        #[expect(clippy::cast_precision_loss, reason = "no store begins 2^53 holds between two looks")]
        let began_per_s = if is_known { begun as f64 / elapsed } else { 0.0 };
        let point = Point {
            at_ms: self.at,
            names: number(self.rows.len()),
            held: sum(|row| row.holders),
            waiting: sum(|row| row.waiters),
            began_per_s,
        };
        let points = Arc::make_mut(&mut self.points);
        points.push_back(point);
        let oldest = self.at.saturating_sub(HISTORY);
        while points.len() > MAX_POINTS || points.front().is_some_and(|point| point.at_ms < oldest) {
            points.pop_front();
        }
    }
}
