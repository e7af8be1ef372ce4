//! A request of limiter calls, sorted by name, and the decoding of the store's answer.
//!
//! A store receives the calls of a name in order, with equal takes in a row as one [`CallRun`]. It
//! answers in text, which it keeps for retries: parts separated by `;`, each a letter followed by
//! whole numbers.
//!
//! | part | meaning |
//! | --- | --- |
//! | `q AMOUNT PERIOD BURST` | the quota in force for the following parts, with the period in µs |
//! | `s TOKENS FRACTION SETTLED` | the bucket's content for the following parts, as [`Snapshot::new`] takes it; `SETTLED` is 1 if no reservation is outstanding |
//! | `t COUNT ADMITTED COST` | equal takes; the first `ADMITTED` of them are allowed; the three numbers of an `s` may follow |
//! | `r READY_AT WAIT` | a reservation, in µs |
//! | `n` | no reservation within the maximum wait |
//! | `c` | refused for good: a refund was executed first |
//! | `m COUNT` | `COUNT` calls whose quota is not the one in force |
//! | `l COUNT` | `COUNT` calls whose cost is more than the burst in force |

use std::collections::HashMap;
use std::str::{FromStr, Split};
use std::time::Duration;

use super::{Decide, LimitAsk, Limited, Object, RequestId};
use crate::limiter::{ExactQuota, Reserved, Snapshot};
use crate::{Name, Quota};

/// The calls of one batch for one name.
#[derive(Clone, Debug)]
pub struct NameBatch<'a> {
    /// The batch that the engine sent them in.
    pub id: RequestId,
    /// The limiter.
    pub object: &'a Object,
    /// The indices of its calls in the request, in order.
    pub calls: Vec<usize>,
    /// Its calls, in order.
    pub runs: Vec<CallRun<'a>>,
}

/// One reserve call, or several equal takes in a row.
#[derive(Clone, Copy, Debug)]
pub struct CallRun<'a> {
    /// The call.
    pub call: &'a Decide,
    /// Number of equal calls.
    pub count: usize,
}

/// Sorts calls by name. Names are in the order of their first call; the calls of a name stay in
/// order.
#[must_use]
pub fn by_name<'a>(calls: &[&'a Decide]) -> Vec<NameBatch<'a>> {
    let mut batches: Vec<NameBatch<'_>> = Vec::new();
    let mut places: HashMap<(RequestId, &Name), usize> = HashMap::new();
    let mut last: Option<((RequestId, &Name), usize)> = None;
    for (index, call) in calls.iter().copied().enumerate() {
        let name = (call.id, &call.object.name);
        let place = match last {
            Some((same, place)) if same == name => place,
            _ => *places.entry(name).or_insert_with(|| {
                batches.push(NameBatch {
                    id: call.id,
                    object: &call.object,
                    calls: Vec::new(),
                    runs: Vec::new(),
                });
                batches.len() - 1
            }),
        };
        last = Some((name, place));
        batches[place].push(index, call);
    }
    batches
}

impl<'a> NameBatch<'a> {
    fn push(&mut self, index: usize, call: &'a Decide) {
        self.calls.push(index);
        match self.runs.last_mut() {
            Some(group) if matches!(call.ask, LimitAsk::Take { .. }) && group.call == call => {
                group.count += 1;
            }
            _ => self.runs.push(CallRun { call, count: 1 }),
        }
    }

    /// Returns the result of each call, in order, from the parts of an answer; `None` if the answer
    /// does not fit the calls.
    ///
    /// `behind` is as in [`Snapshot::new`], at the moment of the decision. `elapsed` is the store
    /// time since the decision, in µs; every wait is shortened by it. The answer may be that to an
    /// earlier copy of the request, with other runs for the same calls.
    #[must_use]
    pub fn decode<'p>(
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

    /// Returns the quota with these numbers. A quota that a call brought needs no check.
    fn exact(&self, amount: u64, period: u64, burst: u64) -> Option<ExactQuota> {
        let same =
            |quota: &ExactQuota| (quota.amount(), quota.period(), quota.burst()) == (amount, period, burst);
        let made = || Quota::per(amount, Duration::from_micros(period)).burst(burst).validate().ok();
        self.runs.iter().map(|group| group.call.quota).find(same).or_else(made)
    }
}

/// The content of the bucket.
struct Content {
    snapshot: Snapshot,
    settled: bool,
}

impl Content {
    fn read(words: &mut Words<'_>, quota: ExactQuota, behind: u64) -> Option<Self> {
        let snapshot = Snapshot::new(quota, words.next()?, words.next()?, behind).ok()?;
        Some(Self { snapshot, settled: words.next::<u8>()? == 1 })
    }

    /// Computes the verdicts of equal takes, which have to agree with the store's count.
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

/// Shortens the waits in a result by the time since the decision, to zero at least.
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

/// Numbers separated by spaces.
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
