//! Compares the store's own record of its holds with what its clients saw.
//!
//! The server keeps the record, not the library: by triggers on the store's tables, or in the
//! append-only file. The record is in the order in which the store wrote, and its times are the
//! store's.
//!
//! Three rules. At every grant, the holds that were live by the store's own record and clock are
//! within the limit. A later grant of a mutex has a larger token. Every grant that a client saw is
//! in the record, with its token.
//!
//! # Assumes
//! The record is whole from the first grant on, and the store's clock was not set back.
//!
//! # Cannot see
//! Limits of an object that was resized. Grants by `attach`: they change an existing hold.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use stanchion_core::{FencingToken, Kind, Ticket};

use super::digest::{Dossier, RecordedCall};
use super::fields::{Fields, Line};
use super::line::{object, object_text};
use super::{Call, ObjectId, Rule, Violation, What};

/// One change of a hold, as the store recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) object: ObjectId,
    pub(crate) ticket: Ticket,
    pub(crate) change: HoldChange,
}

/// The kind of a change. Times in µs of the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldChange {
    /// The hold begins.
    Granted { token: FencingToken, weight: u32, at: u64, until: u64 },
    /// The end of the hold moves.
    Renewed { until: u64 },
    /// The hold ends.
    Ended,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line::new("v1");
        line.add("object", object_text(&self.object)).add("ticket", self.ticket);
        match self.change {
            HoldChange::Granted { token, weight, at, until } => {
                line.add("what", "granted").add("token", token.get()).add("weight", weight);
                line.add("at", at).add("until", until)
            }
            HoldChange::Renewed { until } => line.add("what", "renewed").add("until", until),
            HoldChange::Ended => line.add("what", "ended"),
        };
        f.write_str(&line.into_string())
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let fields = line.strip_prefix("v1 ").ok_or("the line is not of version v1")?;
        let mut fields = Fields::parse(fields)?;
        let object = object(fields.text("object")?)?;
        let ticket = fields.get("ticket")?;
        let change = match fields.text("what")? {
            "granted" => HoldChange::Granted {
                token: FencingToken::new(fields.get("token")?).map_err(|error| error.to_string())?,
                weight: fields.get("weight")?,
                at: fields.get("at")?,
                until: fields.get("until")?,
            },
            "renewed" => HoldChange::Renewed { until: fields.get("until")? },
            "ended" => HoldChange::Ended,
            other => return Err(format!("{other:?} is no change of a hold")),
        };
        fields.end()?;
        Ok(Self { object, ticket, change })
    }
}

/// Checks the record. `entries` are in the order of the record.
pub(super) fn check(entries: &[Entry], dossiers: &[Dossier<'_>], found: &mut Vec<Violation>) {
    let mut by_object: HashMap<&ObjectId, Vec<&Entry>> = HashMap::new();
    for entry in entries {
        by_object.entry(&entry.object).or_default().push(entry);
    }
    for dossier in dossiers.iter().filter(|dossier| dossier.object.kind != Kind::Limiter) {
        let own = by_object.remove(dossier.object).unwrap_or_default();
        order(&own, dossier, found);
        if let Some(limit) = limit(dossier) {
            sweep(&own, limit, dossier, found);
        }
        known(&own, dossier, found);
    }
}

fn known(entries: &[&Entry], dossier: &Dossier<'_>, found: &mut Vec<Violation>) {
    let granted = |entry: &&Entry| match entry.change {
        HoldChange::Granted { token, .. } => Some((entry.ticket, token)),
        _ => None,
    };
    let recorded: HashSet<(Ticket, FencingToken)> = entries.iter().filter_map(granted).collect();
    let grants = |asked: &&RecordedCall<'_>| matches!(asked.call, Call::Acquire { .. } | Call::Add { .. });
    for asked in dossier.calls.iter().filter(grants) {
        if let Some((ticket, token)) = seen(asked).filter(|grant| !recorded.contains(grant)) {
            let text = format!("the store has no record of a grant to {ticket} with token {token}");
            found.push(Violation::new(Rule::NotRecorded, Some(dossier.object), text, asked.events()));
        }
    }
}

fn seen(asked: &RecordedCall<'_>) -> Option<(Ticket, FencingToken)> {
    match asked.answer?.what {
        What::Granted { ticket, token, .. } => Some((ticket, token)),
        _ => None,
    }
}

fn order(entries: &[&Entry], dossier: &Dossier<'_>, found: &mut Vec<Violation>) {
    if dossier.object.kind != Kind::Mutex {
        return;
    }
    let mut last = None;
    for entry in entries {
        let HoldChange::Granted { token, .. } = entry.change else { continue };
        if let Some(last) = last.filter(|last| *last >= token) {
            let text = format!("the store granted {} with token {token} after token {last}", entry.ticket);
            found.push(Violation::new(Rule::TokenOrder, Some(dossier.object), text, Vec::new()));
        }
        last = last.max(Some(token));
    }
}

/// Returns the limit if it never changed.
fn limit(dossier: &Dossier<'_>) -> Option<u64> {
    if dossier.object.kind == Kind::Mutex {
        return Some(1);
    }
    if dossier.calls.iter().any(|asked| matches!(asked.call, Call::Resize { .. })) {
        return None;
    }
    let limits = dossier.calls.iter().filter_map(|asked| match asked.call {
        Call::Acquire { permits, .. } => *permits,
        Call::Add { limit, .. } => *limit,
        _ => None,
    });
    limits.max().map(u64::from)
}

fn sweep(entries: &[&Entry], limit: u64, dossier: &Dossier<'_>, found: &mut Vec<Violation>) {
    let mut live: HashMap<Ticket, (u64, u32)> = HashMap::new();
    for entry in entries {
        match entry.change {
            HoldChange::Granted { weight, at, until, .. } => {
                live.insert(entry.ticket, (until, weight));
                live.retain(|_, (until, _)| *until > at);
                let out: u64 = live.values().map(|(_, weight)| u64::from(*weight)).sum();
                if out > limit {
                    let text = format!(
                        "with the grant to {} at {at} of the store's clock {out} were live, the limit was {limit}",
                        entry.ticket
                    );
                    found.push(Violation::new(Rule::GrantedTooMuch, Some(dossier.object), text, Vec::new()));
                }
            }
            HoldChange::Renewed { until: new } => {
                if let Some((until, _)) = live.get_mut(&entry.ticket) {
                    *until = new;
                }
            }
            HoldChange::Ended => {
                live.remove(&entry.ticket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stanchion_core::{Name, Ticket};

    use super::*;
    use crate::history::{Event, History};

    fn mutex() -> ObjectId {
        ObjectId::new(Kind::Mutex, Name::new("a b").unwrap())
    }

    fn semaphore() -> ObjectId {
        ObjectId::new(Kind::Semaphore, Name::new("s").unwrap())
    }

    fn token(token: u64) -> FencingToken {
        FencingToken::new(token).unwrap()
    }

    fn entry(object: &ObjectId, ticket: u128, change: HoldChange) -> Entry {
        Entry { object: object.clone(), ticket: Ticket::from(ticket), change }
    }

    fn granted(object: &ObjectId, ticket: u128, number: u64, (at, until): (u64, u64)) -> Entry {
        entry(object, ticket, HoldChange::Granted { token: token(number), weight: 1, at, until })
    }

    /// Checks a client's grants, one after the other, against the store's record.
    fn rules(object: &ObjectId, seen: &[(u128, u64)], entries: Vec<Entry>) -> Vec<Rule> {
        let permits = (object.kind == Kind::Semaphore).then_some(2);
        let call = Call::Acquire { weight: 1, permits, ttl: Some(100), waits: true };
        let mut events = Vec::new();
        for (operation, (ticket, number)) in (1..).zip(seen) {
            let at = 10 * operation;
            let (ticket, token) = (Ticket::from(*ticket), token(*number));
            let granted = What::Granted { ticket, token, deadline: Some(at + 5), weight: 1 };
            let steps = [
                (at, What::Invoked { call: call.clone(), time_limit: None }),
                (at + 1, granted),
                (at + 2, What::Releasing { lease: None }),
                (at + 3, What::Released),
            ];
            events.extend(steps.map(|(at, what)| Event::new(at, 1, 0, operation, what).of(object.clone())));
        }
        let history = History::of(events).with_audit(entries);
        history.check().violations.into_iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn every_entry_comes_back() {
        let changes = [
            HoldChange::Granted { token: token(7), weight: 3, at: 5, until: 9 },
            HoldChange::Renewed { until: 11 },
            HoldChange::Ended,
        ];
        for change in changes {
            let entry = entry(&mutex(), 0xabc, change);
            assert_eq!(entry.to_string().parse::<Entry>().unwrap(), entry);
        }
        for wrong in ["", "v2 object=mutex:a", "v1 object=mutex:a ticket=1 what=stolen"] {
            assert!(wrong.parse::<Entry>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn m1_one_after_the_other_is_well() {
        let mutex = mutex();
        let entries = vec![
            granted(&mutex, 1, 1, (10, 110)),
            entry(&mutex, 1, HoldChange::Renewed { until: 150 }),
            entry(&mutex, 1, HoldChange::Ended),
            granted(&mutex, 2, 2, (20, 120)),
            // The lease is over; its record is swept later.
            granted(&mutex, 3, 3, (120, 220)),
            entry(&mutex, 2, HoldChange::Ended),
        ];
        assert_eq!(rules(&mutex, &[(1, 1), (2, 2)], entries), []);
    }

    #[test]
    fn m1_s1_a_grant_over_the_limit_is_found() {
        let (mutex, semaphore) = (mutex(), semaphore());
        let twice = |object| vec![granted(object, 1, 1, (10, 110)), granted(object, 2, 2, (109, 209))];
        assert_eq!(rules(&mutex, &[(1, 1)], twice(&mutex)), [Rule::GrantedTooMuch]);
        assert_eq!(rules(&semaphore, &[(1, 1)], twice(&semaphore)), []);
        let mut thrice = twice(&semaphore);
        thrice.push(granted(&semaphore, 3, 3, (109, 209)));
        assert_eq!(rules(&semaphore, &[(1, 1)], thrice), [Rule::GrantedTooMuch]);
        let renewed = vec![
            granted(&mutex, 1, 1, (10, 110)),
            entry(&mutex, 1, HoldChange::Renewed { until: 150 }),
            granted(&mutex, 2, 2, (120, 220)),
        ];
        assert_eq!(rules(&mutex, &[(1, 1)], renewed), [Rule::GrantedTooMuch]);
    }

    #[test]
    fn m2_a_smaller_token_is_found() {
        let mutex = mutex();
        let entries = vec![
            granted(&mutex, 1, 5, (10, 110)),
            entry(&mutex, 1, HoldChange::Ended),
            granted(&mutex, 2, 5, (20, 120)),
        ];
        assert_eq!(rules(&mutex, &[(1, 5)], entries), [Rule::TokenOrder]);
    }

    #[test]
    fn c3_a_grant_that_the_store_knows_nothing_of_is_found() {
        let mutex = mutex();
        let entries = || vec![granted(&mutex, 1, 1, (10, 110)), entry(&mutex, 1, HoldChange::Ended)];
        assert_eq!(rules(&mutex, &[(1, 1)], entries()), []);
        assert_eq!(rules(&mutex, &[(1, 1), (2, 2)], entries()), [Rule::NotRecorded]);
        assert_eq!(rules(&mutex, &[(1, 3)], entries()), [Rule::NotRecorded]);
    }
}
