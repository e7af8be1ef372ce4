//! The lower bound on a limiter's bucket at each refusal.

use stanchion_core::{DecidedBy, Quota};

use super::digest::RecordedCall;
use super::hold::definite_end;
use super::surroundings::{NEVER, Surroundings};
use super::windows::Rate;
use super::{Bounds, Call, ObjectId, Rule, Violation, What};

/// A cost that was or may have been taken at an unknown instant between two times of the workers'
/// clock.
#[derive(Clone, Copy, Debug)]
struct Taken {
    earliest: u64,
    latest: u64,
    cost: u64,
}

/// Checks the refusals of calls that were answered before `to`. None of the calls touches a break.
pub(super) fn check(
    object: &ObjectId,
    calls: &[&RecordedCall<'_>],
    to: u64,
    quota: Quota,
    exact: bool,
    (around, bounds): (&Surroundings, &Bounds),
    found: &mut Vec<Violation>,
) {
    let Some(rate) = Rate::of(quota, if exact { 100 } else { 99 }) else { return };
    let mut bucket = Low { rate, level: i128::from(rate.burst) * i128::from(rate.period), last: 0 };
    let mut judged: Vec<Judged<'_>> = calls.iter().filter_map(|asked| Judged::of(asked, exact)).collect();
    // Among decisions in the same µs, the ones that took tokens may have come first.
    judged.sort_by_key(|one| (one.at, one.refused));
    let uncertain = |asked: &&&RecordedCall<'_>| !exact || !is_certain(asked);
    let mut taken: Vec<Taken> =
        calls.iter().filter(uncertain).filter_map(|asked| taken(asked, around, bounds)).collect();
    taken.sort_by_key(|one| one.earliest);
    let begins: Vec<u64> = taken.iter().map(|one| one.earliest).collect();
    let sums = prefix_sums(&taken);
    taken.sort_by_key(|one| one.latest);
    let (mut over, mut arrived) = (taken.iter().peekable(), 0_u128);
    for one in judged {
        while let Some(taken) = over.next_if(|taken| taken.latest < one.asked.invoked.at) {
            bucket.take(if exact { one.at } else { taken.latest }, taken.cost);
            arrived += u128::from(taken.cost);
        }
        if !one.refused {
            bucket.take(one.at, one.cost);
            continue;
        }
        let answered = one.asked.answered().unwrap_or(NEVER);
        let begun = sums[begins.partition_point(|earliest| *earliest <= answered)];
        let pending = begun.saturating_sub(arrived);
        if answered < to && bucket.least(one.at, pending) >= i128::from(one.cost) {
            let text = format!(
                "a cost of {} was refused although at least {} tokens were there ({quota})",
                one.cost,
                bucket.least(one.at, pending),
            );
            let violation = Violation::new(Rule::RefusedWithRoom, Some(object), text, one.asked.events());
            found.push(violation);
        }
    }
}

/// A decision with the time by which decisions are ordered: the store's clock if it is known for
/// all, else the invocation.
struct Judged<'h> {
    asked: &'h RecordedCall<'h>,
    at: u64,
    cost: u64,
    refused: bool,
}

impl<'h> Judged<'h> {
    fn of(asked: &'h RecordedCall<'h>, exact: bool) -> Option<Self> {
        let Call::Take { cost, .. } = asked.call else { return None };
        let What::Decided { allowed, store_time, by: DecidedBy::Store, .. } = asked.answer?.what else {
            return None;
        };
        let at = match store_time.filter(|_| exact) {
            Some(time) => time,
            None if allowed => return None,
            None => asked.invoked.at,
        };
        Some(Self { asked, at, cost: *cost, refused: !allowed })
    }
}

fn is_certain(asked: &RecordedCall<'_>) -> bool {
    matches!(
        asked.answer.map(|answer| &answer.what),
        Some(What::Decided { by: DecidedBy::Store | DecidedBy::LocalCache, .. })
    )
}

/// Returns the cost that a call took or may have taken; `None` if it certainly took nothing.
fn taken(asked: &RecordedCall<'_>, around: &Surroundings, bounds: &Bounds) -> Option<Taken> {
    let (Call::Take { cost, .. } | Call::Reserve { cost, .. }) = asked.call else { return None };
    let worker = asked.invoked.worker;
    let late = |sent| around.arrival(worker, sent).saturating_add(bounds.epsilon);
    let latest = match asked.answer.map(|answer| (answer.at, &answer.what)) {
        // Both the store's readings and these are rounded down.
        Some((at, What::Decided { allowed: true, by: DecidedBy::Store, .. })) => at.saturating_add(2),
        Some((at, What::Decided { by: DecidedBy::OutagePolicy, .. })) => late(at),
        // The answer reached the caller after its limit: the caller gives the place back only then.
        Some((at, What::Decided { by: DecidedBy::Store, .. })) if is_overdue(asked, at) => late(at),
        Some((_, What::Decided { .. })) => return None,
        Some((at, _)) if definite_end(asked).is_none() => late(at),
        Some(_) => return None,
        None => match around.death(worker) {
            NEVER => NEVER,
            death => late(death),
        },
    };
    Some(Taken { earliest: asked.invoked.at, latest, cost: *cost })
}

/// Returns whether a reservation was answered after the latest time at which its place could come.
fn is_overdue(asked: &RecordedCall<'_>, answered: u64) -> bool {
    let limit = asked.time_limit.unwrap_or(NEVER);
    matches!(asked.call, Call::Reserve { .. }) && answered > asked.invoked.at.saturating_add(limit)
}

fn prefix_sums(taken: &[Taken]) -> Vec<u128> {
    let mut sums = vec![0_u128];
    for one in taken {
        sums.push(sums.last().copied().unwrap_or(0) + u128::from(one.cost));
    }
    sums
}

/// A bucket that never has more than the real one: every cost is taken as late as possible.
struct Low {
    rate: Rate,
    /// The level in units of `1 / period` token.
    level: i128,
    last: u64,
}

impl Low {
    fn level_at(&self, now: u64) -> i128 {
        let full = i128::from(self.rate.burst) * i128::from(self.rate.period);
        let grown = i128::from(self.rate.amount) * i128::from(now.saturating_sub(self.last));
        full.min(self.level + grown)
    }

    fn take(&mut self, now: u64, cost: u64) {
        self.level = self.level_at(now) - i128::from(cost) * i128::from(self.rate.period);
        self.last = self.last.max(now);
    }

    /// Returns the lower bound in whole tokens, if `pending` more may have been taken.
    fn least(&self, now: u64, pending: u128) -> i128 {
        let level = self.level_at(now).div_euclid(i128::from(self.rate.period));
        level - i128::try_from(pending).unwrap_or(i128::MAX / 2)
    }
}
