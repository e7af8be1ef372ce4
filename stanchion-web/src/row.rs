//! One name, as the page shows it.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use stanchion_core::{Holder, Inspection, Kind, Listed};

/// Two readings of one time that differ by less are the same time, in ms: each was counted from the
/// moment of an answer.
const SAME: u64 = 250;

/// A time in ms of the clock of the [`Watch`](crate::look::Watch).
pub(crate) type Millis = u64;

/// A name, as an index.
pub(crate) type Key = (&'static str, String);

/// A name and its holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) holders: Option<u64>,
    pub(crate) weight: Option<u64>,
    pub(crate) waiters: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) tokens: Option<u64>,
    /// `None` also while it is in use.
    pub(crate) used_at_ms: Option<Millis>,
    pub(crate) holds: Vec<Hold>,
}

/// A hold. A token is a text, since readers of JSON may keep 53 bits of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hold {
    pub(crate) label: Option<String>,
    pub(crate) ticket: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) weight: u32,
    pub(crate) granted_at_ms: Option<Millis>,
    pub(crate) lease_ends_at_ms: Option<Millis>,
    /// The longest rest that was seen of the lease.
    pub(crate) lease_ms: Option<u64>,
}

impl Row {
    /// Makes the row of a name that was listed at `at`. Its known holds stay until they are looked
    /// at.
    pub(crate) fn new(listed: &Listed, at: Millis, before: Option<&Self>) -> Self {
        // A name in use is used at every moment.
        let idle = listed.last_used.filter(|idle| !idle.is_zero());
        let used = idle.map(|idle| at.saturating_sub(millis(idle)));
        let holds = before.filter(|_| listed.holders != Some(0)).map(|row| row.holds.clone());
        Self {
            kind: listed.kind.as_str(),
            name: listed.name.as_str().to_owned(),
            holders: listed.holders,
            weight: listed.weight,
            waiters: listed.waiters,
            limit: listed.limit,
            tokens: listed.tokens,
            used_at_ms: same(before.and_then(|row| row.used_at_ms), used),
            holds: holds.unwrap_or_default(),
        }
    }

    pub(crate) fn key(&self) -> Key {
        (self.kind, self.name.clone())
    }

    /// Takes over the result of a closer look at `at`; returns the number of new holds.
    pub(crate) fn inspected(&mut self, state: &Inspection, at: Millis) -> u64 {
        let before = std::mem::take(&mut self.holds);
        let by_ticket: HashMap<_, _> =
            before.iter().filter_map(|hold| Some((hold.ticket.as_deref()?, hold))).collect();
        let known = |holder: &Holder| by_ticket.get(&*holder.ticket?.to_string()).copied();
        let begun = state.holders.iter().filter(|holder| holder.ticket.is_some() && known(holder).is_none());
        let begun = begun.count();
        self.holds = state.holders.iter().map(|holder| Hold::new(holder, at, known(holder))).collect();
        self.holders = Some(number(state.holders.len()));
        self.weight = Some(state.holders.iter().map(|holder| u64::from(holder.weight)).sum());
        self.waiters = Some(state.waiters);
        number(begun)
    }
}

impl Hold {
    fn new(holder: &Holder, at: Millis, before: Option<&Self>) -> Self {
        let left = holder.lease_left.map(millis);
        let granted = holder.age.map(|age| at.saturating_sub(millis(age)));
        let ends = left.map(|left| at.saturating_add(left));
        Self {
            label: holder.label.clone(),
            ticket: holder.ticket.map(|ticket| ticket.to_string()),
            token: holder.token.map(|token| token.get().to_string()),
            weight: holder.weight,
            granted_at_ms: same(before.and_then(|hold| hold.granted_at_ms), granted),
            lease_ends_at_ms: same(before.and_then(|hold| hold.lease_ends_at_ms), ends),
            lease_ms: left.max(before.and_then(|hold| hold.lease_ms)),
        }
    }
}

/// Returns the new reading, or the one before if both are of one time.
fn same(before: Option<Millis>, now: Option<Millis>) -> Option<Millis> {
    before.filter(|before| now.is_some_and(|now| now.abs_diff(*before) < SAME)).or(now)
}

/// Returns whether a name of this kind has holders.
pub(crate) fn has_holders(kind: &str) -> bool {
    [Kind::Mutex, Kind::Semaphore, Kind::WaitGroup].iter().any(|held| held.as_str() == kind)
}

/// Returns whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use stanchion_core::{FencingToken, Name, Ticket};

    use super::*;

    fn listed() -> Listed {
        let mut listed = Listed::new(Kind::Mutex, Name::new("a").unwrap());
        (listed.holders, listed.last_used) = (Some(1), Some(Duration::from_millis(700)));
        listed
    }

    fn holder(ticket: u128, age: u64, left: u64) -> Holder {
        let mut holder = Holder::new(
            Ticket::from(ticket),
            FencingToken::try_from(7_u64).unwrap(),
            1,
            Duration::from_millis(age),
        );
        holder.lease_left = Some(Duration::from_millis(left));
        holder
    }

    #[test]
    fn a_row_changes_only_if_its_name_does() {
        let first = Row::new(&listed(), 1_000, None);
        assert_eq!(first.used_at_ms, Some(300));
        let mut later = listed();
        later.last_used = Some(Duration::from_millis(1_790));
        assert_eq!(Row::new(&later, 2_000, Some(&first)), first);
        later.last_used = Some(Duration::from_millis(1_300));
        assert_eq!(Row::new(&later, 2_000, Some(&first)).used_at_ms, Some(700));
    }

    #[test]
    fn a_hold_keeps_its_times_until_its_lease_is_renewed() {
        let mut row = Row::new(&listed(), 1_000, None);
        let look = |age, left| Inspection::new(vec![holder(1, age, left)], 2, Some(1));
        assert_eq!(row.inspected(&look(500, 10_000), 1_000), 1);
        let first = row.clone();
        assert_eq!((first.waiters, first.holds[0].lease_ms), (Some(2), Some(10_000)));
        assert_eq!(row.inspected(&look(1_510, 8_990), 2_000), 0);
        assert_eq!(row, Row { holds: first.holds.clone(), ..row.clone() });
        assert_eq!(row.inspected(&look(2_500, 9_990), 3_000), 0);
        assert_eq!(row.holds[0].granted_at_ms, Some(500));
        assert_eq!(row.holds[0].lease_ends_at_ms, Some(12_990));
        assert_eq!(row.holds[0].lease_ms, Some(10_000), "the longest rest");
        let next = Inspection::new(vec![holder(2, 0, 5_000)], 0, Some(1));
        assert_eq!(row.inspected(&next, 3_000), 1, "another hold");
        assert_eq!(row.holds[0].lease_ms, Some(5_000));
    }
}
