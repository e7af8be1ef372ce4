//! What a flight of limiter calls carries for each name, and how a store's answer to it is read.
//!
//! A store is sent the calls of a name in order, equal takes in a row as one [`Group`]. It answers in text, which it
//! keeps for retries: parts with a `;` between, each a letter and whole numbers.
//!
//! | part | says |
//! | --- | --- |
//! | `q AMOUNT PERIOD BURST` | the quota in force from here on, the period in µs |
//! | `s TOKENS FRACTION SETTLED` | what is in the bucket from here on, as [`Snapshot::new`] takes it; 1 if no reservation is outstanding |
//! | `t COUNT ADMITTED COST` | equal takes and how many of them, from the first, are allowed; the three numbers of an `s` may follow |
//! | `r READY_AT WAIT` | a place, in µs |
//! | `n` | no place that soon |
//! | `c` | refused for good, since a refund came first |
//! | `m COUNT` | so many calls whose quota is not the one in force |
//! | `l COUNT` | so many calls that cost more than the burst in force |

use std::collections::HashMap;
use std::str::{FromStr, Split};
use std::time::Duration;

use super::{LimitAsk, LimitCall, Limited, Object};
use crate::limiter::{ExactQuota, Reserved, Snapshot};
use crate::{Name, Quota};

/// What a flight carries for one name.
#[derive(Clone, Debug)]
pub struct NameBatch<'a> {
    /// The limiter.
    pub object: &'a Object,
    /// The places of its calls in the flight, in order.
    pub calls: Vec<usize>,
    /// Its calls, in order.
    pub groups: Vec<Group<'a>>,
}

/// One reserve, or equal takes in a row.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Each of them.
    pub call: &'a LimitCall,
    /// How many they are.
    pub count: usize,
}

/// Sorts a flight by name, in the order in which names come first; the calls of a name stay in order.
#[must_use]
pub fn by_name(calls: &[LimitCall]) -> Vec<NameBatch<'_>> {
    let mut cargo: Vec<NameBatch<'_>> = Vec::new();
    let mut places: HashMap<&Name, usize> = HashMap::new();
    let mut last: Option<(&Name, usize)> = None;
    for (index, call) in calls.iter().enumerate() {
        let name = &call.object.name;
        let place = match last {
            Some((same, place)) if same == name => place,
            _ => *places.entry(name).or_insert_with(|| {
                cargo.push(NameBatch { object: &call.object, calls: Vec::new(), groups: Vec::new() });
                cargo.len() - 1
            }),
        };
        last = Some((name, place));
        cargo[place].load(index, call);
    }
    cargo
}

impl<'a> NameBatch<'a> {
    fn load(&mut self, index: usize, call: &'a LimitCall) {
        self.calls.push(index);
        match self.groups.last_mut() {
            Some(group) if matches!(call.ask, LimitAsk::Take { .. }) && group.call == call => {
                group.count += 1;
            }
            _ => self.groups.push(Group { call, count: 1 }),
        }
    }

    /// What each call is told, in order, by the parts of an answer; `None` if it is not one to this cargo.
    ///
    /// `behind` is what [`Snapshot::new`] takes, of the moment of the decision; `elapsed` is the store time since then,
    /// in µs, by which every wait has become shorter. The answer may be that to an earlier copy of the flight, with other
    /// groups for the same calls.
    #[must_use]
    pub fn unload<'p>(
        &self,
        parts: impl Iterator<Item = &'p str>,
        behind: u64,
        elapsed: u64,
    ) -> Option<Vec<Limited>> {
        let mut limited = self.read(parts, behind)?;
        limited.iter_mut().for_each(|limited| age(limited, elapsed));
        (limited.len() == self.calls.len()).then_some(limited)
    }

    fn read<'p>(&self, parts: impl Iterator<Item = &'p str>, behind: u64) -> Option<Vec<Limited>> {
        let mut limited = Vec::new();
        let mut quota = None;
        let mut content = None;
        for part in parts {
            let (kind, rest) = part.split_at_checked(1)?;
            let mut words = Words::of(rest.strip_prefix(' ').unwrap_or(rest));
            if kind == "q" {
                quota = Some(self.exact(words.next()?, words.next()?, words.next()?)?);
                content = None;
                continue;
            }
            let quota = quota?;
            match kind {
                "s" => content = Some(Content::read(&mut words, quota, behind)?),
                "t" => {
                    let takes = (words.next()?, words.next()?, words.next()?);
                    if !words.is_empty() {
                        content = Some(Content::read(&mut words, quota, behind)?);
                    }
                    content.as_mut()?.takes(&mut limited, quota, takes)?;
                }
                "r" => {
                    let mut place = Reserved::default();
                    (place.ready_at, place.wait) = (words.next()?, words.next()?);
                    limited.push(Limited::Reserved { place: Some(place), quota });
                }
                "n" => limited.push(Limited::Reserved { place: None, quota }),
                "c" => limited.push(Limited::Cancelled),
                "m" => repeat(&mut limited, words.next()?, Limited::Mismatch { stored: quota }),
                "l" => repeat(&mut limited, words.next()?, Limited::TooLarge { quota }),
                _ => return None,
            }
        }
        Some(limited)
    }

    /// The quota of these numbers; one that the calls brought needs no check.
    fn exact(&self, amount: u64, period: u64, burst: u64) -> Option<ExactQuota> {
        let same =
            |quota: &ExactQuota| (quota.amount(), quota.period(), quota.burst()) == (amount, period, burst);
        let made = || Quota::per(amount, Duration::from_micros(period)).burst(burst).validate().ok();
        self.groups.iter().map(|group| group.call.quota).find(same).or_else(made)
    }
}

/// What is in the bucket.
struct Content {
    snapshot: Snapshot,
    settled: bool,
}

impl Content {
    fn read(words: &mut Words<'_>, quota: ExactQuota, behind: u64) -> Option<Self> {
        let snapshot = Snapshot::new(quota, words.next()?, words.next()?, behind).ok()?;
        Some(Self { snapshot, settled: words.next::<u8>()? == 1 })
    }

    /// The verdicts of equal takes, by our own arithmetic, which has to agree with the store's.
    fn takes(
        &mut self,
        limited: &mut Vec<Limited>,
        quota: ExactQuota,
        (count, admitted, cost): (usize, usize, u64),
    ) -> Option<()> {
        for index in 0..count {
            let verdict = self.snapshot.take(cost);
            if verdict.allowed != (index < admitted) {
                return None;
            }
            limited.push(Limited::Taken { verdict, quota, settled: self.settled });
        }
        Some(())
    }
}

/// What was decided so long ago, as it is now; a wait that is over is one of nothing.
fn age(limited: &mut Limited, elapsed: u64) {
    let less = |wait: &mut u64| *wait = wait.saturating_sub(elapsed);
    match limited {
        Limited::Taken { verdict, .. } => {
            verdict.retry_after.iter_mut().for_each(less);
            less(&mut verdict.reset_after);
        }
        Limited::Reserved { place: Some(place), .. } => less(&mut place.wait),
        _ => {}
    }
}

fn repeat(limited: &mut Vec<Limited>, count: usize, answer: Limited) {
    limited.extend(std::iter::repeat_n(answer, count));
}

/// Numbers with a space between.
struct Words<'a>(std::iter::Peekable<Split<'a, char>>);

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.split(' ').peekable())
    }

    fn next<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    fn is_empty(&mut self) -> bool {
        self.0.peek().is_none()
    }
}

#[cfg(test)]
mod tests;
