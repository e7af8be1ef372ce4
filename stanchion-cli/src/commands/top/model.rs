//! The model of the view: the rows, their order, the chosen one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stanchion::spi::clock;
use stanchion::{Holder, Kind, Ticket};

use super::snapshot::{Key, Row, Snapshot};

/// A hold that the user wants to be freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) key: Key,
    /// `None` where the store does not know it.
    pub(super) ticket: Option<Ticket>,
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Name,
    Waiters,
    Age,
    Kind,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Name => Self::Waiters,
            Self::Waiters => Self::Age,
            Self::Age => Self::Kind,
            Self::Kind => Self::Name,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Waiters => "waiting",
            Self::Age => "age",
            Self::Kind => "kind",
        }
    }
}

/// The present meaning of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Table,
    /// The text of a filter is written.
    Filter,
    /// All holders of the chosen name; the index of the chosen one.
    Holders(usize),
    /// The question whether to free a hold.
    Asked(Hold),
    /// The meaning of the keys.
    Help,
}

/// The state of the view.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) store: &'static str,
    pub(super) mode: Mode,
    pub(super) filter: String,
    pub(super) sort: Sort,
    pub(super) message: Option<String>,
    pub(super) last: Option<Snapshot>,
    /// How many rows the table had at the last drawing, and the first of them.
    pub(super) height: usize,
    pub(super) first: usize,
    is_paused: bool,
    chosen: Option<Key>,
    rows: Vec<Row>,
    /// The longest rest of a lease that was seen of each name: about the lease.
    longest: HashMap<Key, Duration>,
}

impl Model {
    pub(super) fn new(store: &'static str) -> Self {
        Self {
            store,
            mode: Mode::Table,
            filter: String::new(),
            sort: Sort::Name,
            message: None,
            last: None,
            height: 50,
            first: 0,
            is_paused: false,
            chosen: None,
            rows: Vec::new(),
            longest: HashMap::new(),
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn pause(&mut self) {
        self.is_paused = !self.is_paused;
    }

    pub(super) fn say(&mut self, message: String) {
        self.message = Some(message);
    }

    /// Takes over the store's answer. If there is none, the known rows stay.
    pub(super) fn update(&mut self, mut snapshot: Snapshot) {
        if let (Some(last), true) = (&mut self.last, snapshot.error.is_some() && snapshot.rows.is_empty()) {
            last.error = snapshot.error.take();
            return;
        }
        let mut longest = HashMap::new();
        for row in &snapshot.rows {
            let before = self.longest.remove(&row.key());
            let left = row.holders.iter().filter_map(|holder| holder.lease_left).chain(before).max();
            longest.extend(left.map(|left| (row.key(), left)));
        }
        self.longest = longest;
        self.last = Some(snapshot);
        self.arrange();
    }

    /// Puts the rows that the filter lets through in order.
    pub(super) fn arrange(&mut self) {
        let all = self.last.as_ref().map(|last| &*last.rows).unwrap_or_default();
        let mut rows: Vec<Row> =
            all.iter().filter(|row| row.listed.name.as_str().contains(&self.filter)).cloned().collect();
        rows.sort_by(|one, other| one.listed.name.cmp(&other.listed.name).then(rank(one).cmp(rank(other))));
        match self.sort {
            Sort::Name => {}
            Sort::Waiters => rows.sort_by_key(|row| std::cmp::Reverse(row.waiters())),
            Sort::Age => rows.sort_by_key(|row| std::cmp::Reverse(age(row))),
            Sort::Kind => rows.sort_by_key(rank),
        }
        self.rows = rows;
    }

    pub(super) fn sort_by_next(&mut self) {
        self.sort = self.sort.next();
        self.arrange();
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the index of the chosen row, which stays with its name.
    pub(super) fn index(&self) -> usize {
        let chosen = self.chosen.as_ref();
        self.rows.iter().position(|row| Some(&row.key()) == chosen).unwrap_or_default()
    }

    pub(super) fn choose(&mut self, index: usize) {
        let last = self.rows.len().saturating_sub(1);
        self.chosen = self.rows.get(index.min(last)).map(Row::key);
    }

    pub(super) fn chosen(&self) -> Option<&Row> {
        self.rows.get(self.index())
    }

    /// Returns the names whose holders are of interest: the names on the screen, and the chosen
    /// one.
    pub(super) fn on_screen(&self) -> Vec<Key> {
        let seen = self.rows.iter().skip(self.first).take(self.height);
        let mut keys: Vec<_> = seen.map(Row::key).collect();
        keys.extend(self.chosen().map(Row::key).filter(|chosen| !keys.contains(chosen)));
        keys
    }

    /// Returns the hold that a wish to free means.
    pub(super) fn meant(&self) -> Option<Hold> {
        let row = self.chosen()?;
        let at = if let Mode::Holders(at) = self.mode { at } else { 0 };
        let can_be_freed = matches!(row.listed.kind, Kind::Mutex | Kind::Semaphore);
        let holder = row.holders.get(at).filter(|_| can_be_freed)?;
        Some(Hold { key: row.key(), ticket: holder.ticket })
    }

    /// Returns the rest of a lease now.
    pub(super) fn left(&self, holder: &Holder) -> Option<Duration> {
        let at = self.last.as_ref().map_or_else(now, |last| last.at);
        Some(holder.lease_left?.saturating_sub(now().saturating_duration_since(at)))
    }

    /// Returns the whole of which a lease's rest is a part, as far as it was seen.
    pub(super) fn longest(&self, row: &Row) -> Duration {
        self.longest.get(&row.key()).copied().unwrap_or_default()
    }
}

fn now() -> Instant {
    clock::real().into_std()
}

fn age(row: &Row) -> Duration {
    row.holders.iter().filter_map(|holder| holder.age).max().unwrap_or_default()
}

fn rank(row: &Row) -> &'static str {
    row.listed.kind.as_str()
}

#[cfg(test)]
pub(super) mod tests {
    use stanchion::Name;
    use stanchion::{FencingToken, Listed};

    use super::*;

    /// Returns a row with a number of waiters, held for a number of seconds.
    pub(in crate::commands::top) fn row(kind: Kind, name: &str, waiters: u64, age: u64) -> Row {
        let mut listed = Listed::new(kind, Name::new(name).unwrap());
        (listed.holders, listed.waiters) = (Some(1), Some(waiters));
        let token = FencingToken::new(7).unwrap();
        let mut holder = Holder::new(Ticket::from(u128::from(age)), token, 1, Duration::from_secs(age));
        holder.label = Some(format!("holder of {name}"));
        holder.lease_left = Some(Duration::from_secs(5));
        Row { listed, holders: vec![holder] }
    }

    pub(in crate::commands::top) fn snapshot(rows: Vec<Row>) -> Snapshot {
        Snapshot { rows, is_cut: false, error: None, took: Duration::from_millis(3), at: now() }
    }

    fn names(model: &Model) -> Vec<&str> {
        model.rows().iter().map(|row| row.listed.name.as_str()).collect()
    }

    #[test]
    fn rows_are_sorted_and_filtered_and_the_choice_stays_with_its_name() {
        let mut model = Model::new("redis");
        let rows =
            vec![row(Kind::Mutex, "b", 1, 9), row(Kind::Limiter, "c", 0, 0), row(Kind::Mutex, "a", 5, 1)];
        model.update(snapshot(rows));
        assert_eq!(names(&model), ["a", "b", "c"]);
        model.choose(1);
        model.sort_by_next();
        assert_eq!((names(&model), model.index()), (vec!["a", "b", "c"], 1), "by waiters");
        model.sort_by_next();
        assert_eq!((names(&model), model.index()), (vec!["b", "a", "c"], 0), "by age");
        model.sort_by_next();
        assert_eq!(names(&model), ["c", "a", "b"], "by kind");
        model.filter = "c".to_owned();
        model.arrange();
        assert_eq!((names(&model), model.index()), (vec!["c"], 0), "the chosen one is hidden");
        model.choose(99);
        assert_eq!(model.index(), 0);
    }

    #[test]
    fn what_was_known_stays_while_the_store_is_away() {
        let mut model = Model::new("redis");
        model.update(snapshot(vec![row(Kind::Mutex, "a", 0, 1)]));
        model.update(Snapshot { error: Some("away".to_owned()), ..snapshot(Vec::new()) });
        assert_eq!(names(&model), ["a"]);
        assert_eq!(model.last.as_ref().unwrap().error.as_deref(), Some("away"));
    }

    #[test]
    fn only_holds_of_locks_can_be_freed() {
        let mut model = Model::new("redis");
        model.update(snapshot(vec![row(Kind::Mutex, "a", 0, 1), row(Kind::WaitGroup, "b", 0, 2)]));
        assert_eq!(model.meant().unwrap().ticket, Some(Ticket::from(1)));
        model.mode = Mode::Holders(1);
        assert_eq!(model.meant(), None, "there is one holder only");
        model.mode = Mode::Table;
        model.choose(1);
        assert_eq!(model.meant(), None);
    }
}
