//! A flight on the wire: the calls by name, runs of equal takes as one, and what each call is told in the end.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use sqlx::Arguments;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use stanchion_core::engine::steps::{Answers, FlightId, LimitAsk, LimitCall, Limited, QuotaCheck};
use stanchion_core::limit::{ExactQuota, Reserved, Snapshot};
use stanchion_core::{Name, OnMismatch, Quota, Result};

use super::{number, uuid};
use crate::error::unexpected;

/// What a flight carries for one name.
#[derive(Debug)]
pub(super) struct Cargo<'a> {
    name: &'a Name,
    /// The places of its calls in the flight, in order.
    calls: Vec<usize>,
    groups: Vec<Group<'a>>,
}

/// One reserve, or equal takes in a row.
#[derive(Debug)]
struct Group<'a> {
    call: &'a LimitCall,
    count: usize,
}

/// Sorts a flight by name, as rows are locked; the calls of a name stay in order.
pub(super) fn by_name(calls: &[LimitCall]) -> Vec<Cargo<'_>> {
    let mut cargo: Vec<Cargo<'_>> = Vec::new();
    let mut places: HashMap<&Name, usize> = HashMap::new();
    let mut last: Option<(&Name, usize)> = None;
    for (index, call) in calls.iter().enumerate() {
        let name = &call.object.name;
        let place = match last {
            Some((same, place)) if same == name => place,
            _ => *places.entry(name).or_insert_with(|| {
                cargo.push(Cargo { name, calls: Vec::new(), groups: Vec::new() });
                cargo.len() - 1
            }),
        };
        last = Some((name, place));
        cargo[place].load(index, call);
    }
    cargo.sort_unstable_by_key(|cargo| cargo.name);
    cargo
}

/// The arguments of `limit_decide` behind the first.
///
/// # Errors
/// What the client says of values that cannot be written.
pub(super) fn load(
    arguments: &mut PgArguments,
    flight: FlightId,
    cargo: &[Cargo<'_>],
) -> std::result::Result<(), BoxDynError> {
    let groups = || cargo.iter().flat_map(|cargo| &cargo.groups);
    let quotas = |part: fn(&ExactQuota) -> u64| -> Vec<_> {
        groups().map(|group| number(part(&group.call.quota))).collect()
    };
    let sizes = cargo.iter().map(|cargo| i32::try_from(cargo.groups.len()));
    arguments.add(uuid(flight.lane))?;
    arguments.add(number(flight.number))?;
    arguments.add(cargo.iter().map(|cargo| cargo.name.as_str()).collect::<Vec<_>>())?;
    arguments.add(sizes.collect::<std::result::Result<Vec<_>, _>>()?)?;
    arguments.add(groups().map(|group| check(group.call.check)).collect::<Vec<_>>())?;
    arguments.add(quotas(ExactQuota::amount))?;
    arguments.add(quotas(ExactQuota::period))?;
    arguments.add(quotas(ExactQuota::burst))?;
    let (mut costs, mut tickets, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    for Group { call, count } in groups() {
        let (cost, ticket, span) = match call.ask {
            LimitAsk::Take { cost } => (cost, None, i64::try_from(*count)?),
            LimitAsk::Reserve { ticket, cost, max_wait } => (cost, Some(uuid(ticket)), number(max_wait)),
        };
        costs.push(number(cost));
        tickets.push(ticket);
        spans.push(span);
    }
    arguments.add(costs)?;
    arguments.add(tickets)?;
    arguments.add(spans)
}

fn check(check: QuotaCheck) -> i8 {
    let letter = match check {
        QuotaCheck::First(OnMismatch::Refuse) => b'r',
        QuotaCheck::First(OnMismatch::Replace) => b'p',
        QuotaCheck::First(OnMismatch::Adopt) | QuotaCheck::Follow => b'a',
    };
    letter.cast_signed()
}

/// What each of `count` calls is told; of a name whose answer is not understood or none, because a later flight of the
/// lane came before, it is `Unknown`.
pub(super) fn unload(cargo: &[Cargo<'_>], told: &[Option<String>], count: usize) -> Answers<Limited> {
    let mut answers: Vec<Option<Result<Limited>>> = (0..count).map(|_| None).collect();
    for (cargo, told) in cargo.iter().zip(told) {
        let limited = told.as_deref().and_then(|told| cargo.unload(told)).unwrap_or_default();
        for (index, limited) in cargo.calls.iter().zip(limited) {
            answers[*index] = Some(Ok(limited));
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unexpected()))).collect()
}

impl<'a> Cargo<'a> {
    fn load(&mut self, index: usize, call: &'a LimitCall) {
        self.calls.push(index);
        match self.groups.last_mut() {
            Some(group) if matches!(call.ask, LimitAsk::Take { .. }) && group.call == call => {
                group.count += 1;
            }
            _ => self.groups.push(Group { call, count: 1 }),
        }
    }

    fn unload(&self, told: &str) -> Option<Vec<Limited>> {
        let known = self.groups.iter().map(|group| group.call.quota);
        read(told, known).filter(|limited| limited.len() == self.calls.len())
    }
}

/// Reads an answer of `limit_decide`. It may be that to an earlier copy of the flight, with other groups for the same
/// calls, so nothing is taken from those. Quotas that are `known` need no check.
fn read(answer: &str, known: impl Iterator<Item = ExactQuota> + Clone) -> Option<Vec<Limited>> {
    let mut parts = answer.split(';');
    let mut head = Words::of(parts.next()?);
    let (elapsed, behind): (u64, u64) = (head.next()?, head.next()?);
    let mut limited = Vec::new();
    let mut quota = None;
    let mut content = None;
    for part in parts {
        let (kind, rest) = part.split_at_checked(1)?;
        let mut words = Words::of(rest.strip_prefix(' ').unwrap_or(rest));
        if kind == "q" {
            quota = Some(exact(words.next()?, words.next()?, words.next()?, known.clone())?);
            content = None;
            continue;
        }
        let quota = quota?;
        match kind {
            "s" => {
                let snapshot = Snapshot::new(quota, words.next()?, words.next()?, behind).ok()?;
                content = Some((snapshot, words.next::<u8>()? == 1));
            }
            "t" => {
                let (snapshot, settled) = content.as_mut()?;
                takes(&mut limited, &mut words, quota, snapshot, *settled)?;
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
    limited.iter_mut().for_each(|limited| age(limited, elapsed));
    Some(limited)
}

/// The verdicts of equal takes, by core's own arithmetic, which has to agree with the function's.
fn takes(
    limited: &mut Vec<Limited>,
    words: &mut Words<'_>,
    quota: ExactQuota,
    snapshot: &mut Snapshot,
    settled: bool,
) -> Option<()> {
    let (count, admitted, cost): (usize, usize, u64) = (words.next()?, words.next()?, words.next()?);
    for index in 0..count {
        let verdict = snapshot.take(cost);
        if verdict.allowed != (index < admitted) {
            return None;
        }
        limited.push(Limited::Taken { verdict, quota, settled });
    }
    Some(())
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

fn exact(
    amount: u64,
    period: u64,
    burst: u64,
    mut known: impl Iterator<Item = ExactQuota>,
) -> Option<ExactQuota> {
    let same =
        |quota: &ExactQuota| (quota.amount(), quota.period(), quota.burst()) == (amount, period, burst);
    let made = || Quota::per(amount, Duration::from_micros(period)).burst(burst).validate().ok();
    known.find(same).or_else(made)
}

/// Numbers with a space between.
struct Words<'a>(std::str::Split<'a, char>);

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.split(' '))
    }

    fn next<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use stanchion_core::engine::steps::Object;
    use stanchion_core::{Kind, Ticket};

    use super::*;

    fn quota(burst: u64) -> ExactQuota {
        Quota::per_second(10).burst(burst).validate().unwrap()
    }

    fn call(name: &str, ask: LimitAsk) -> LimitCall {
        let object = Object { kind: Kind::Limiter, name: Name::new(name).unwrap() };
        LimitCall { object, quota: quota(9), check: QuotaCheck::Follow, ask }
    }

    fn told(answer: &str) -> Option<Vec<Limited>> {
        read(answer, [quota(9)].into_iter())
    }

    fn verdicts(told: &[Limited]) -> Vec<(bool, u64, Option<u64>, u64)> {
        let verdict = |limited: &Limited| match limited {
            Limited::Taken { verdict, settled: true, .. } => {
                Some((verdict.allowed, verdict.remaining, verdict.retry_after, verdict.reset_after))
            }
            _ => None,
        };
        told.iter().filter_map(verdict).collect()
    }

    #[test]
    fn l5_runs_of_equal_takes_go_as_one_and_keep_their_order() {
        let take = |name, cost| call(name, LimitAsk::Take { cost });
        let reserve = || call("b", LimitAsk::Reserve { ticket: Ticket::random(), cost: 1, max_wait: 0 });
        let mut other = take("b", 1);
        other.quota = quota(8);
        let calls = [
            take("b", 1),
            take("a", 1),
            take("b", 1),
            take("b", 2),
            reserve(),
            reserve(),
            take("a", 1),
            take("b", 1),
            other,
        ];
        let cargo = by_name(&calls);
        let counts = |cargo: &Cargo<'_>| cargo.groups.iter().map(|group| group.count).collect::<Vec<_>>();
        assert_eq!(cargo.len(), 2);
        assert_eq!((cargo[0].calls.as_slice(), counts(&cargo[0])), (&[1, 6][..], vec![2]));
        assert_eq!(
            (cargo[1].calls.as_slice(), counts(&cargo[1])),
            (&[0, 2, 3, 4, 5, 7, 8][..], vec![2, 1, 1, 1, 1, 1])
        );
    }

    #[test]
    fn l5_each_call_of_a_run_gets_its_own_verdict() {
        let told = told("0 0;q 1 100000 9;s 5 50000 1;t 2 2 2;t 1 0 2;n;r 300 200").unwrap();
        let expected =
            [(true, 3, None, 550_000), (true, 1, None, 750_000), (false, 1, Some(50_000), 750_000)];
        assert_eq!(verdicts(&told), expected);
        assert_eq!(told[3], Limited::Reserved { place: None, quota: quota(9) });
        assert!(matches!(told[4], Limited::Reserved { place: Some(place), .. } if place.wait == 200));
    }

    #[test]
    fn l5_waits_of_a_remembered_answer_count_from_its_retry() {
        let told = told("60000 0;q 1 100000 9;s 0 0 1;t 1 0 1;r 300 200").unwrap();
        assert_eq!(verdicts(&told), [(false, 0, Some(40_000), 840_000)]);
        let Limited::Reserved { place: Some(place), .. } = told[1] else { panic!("a place") };
        assert_eq!((place.ready_at, place.wait), (300, 0));
    }

    #[test]
    fn c3_an_answer_of_no_step_is_not_understood() {
        for answer in [
            "",
            "0",
            "0 0;t 1 1 1",
            "0 0;q 1 100000 9;t 1 1 1",
            "0 0;s 5 0 1;t 1 1 1",
            "0 0;q 1 100000 9;s 5 0 1;t 1 0 1",
            "0 0;q 1 100000 9;s 10 0 1;t 1 1 1",
            "0 0;q 1 100000 9;s 5 0 1;q 1 100000 8;t 1 1 1",
            "0 0;q 1 100000 9;x",
            "0 0;q 0 100000 9;n",
            "0 0;q 1 100000 9;ü",
        ] {
            assert_eq!(told(answer), None, "{answer}");
        }
    }
}
