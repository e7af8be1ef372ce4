//! A flight on the wire: the calls by name, runs of equal takes as one, and what each call is told in the end.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use redis::Cmd;
use stanchion_core::engine::steps::{FlightId, LimitAsk, LimitCall, Limited, Object, QuotaCheck};
use stanchion_core::limit::{ExactQuota, Reserved, Snapshot};
use stanchion_core::{Name, OnMismatch, Quota, Result};

use crate::error::unexpected;
use crate::steps::reply::Reply;

/// What a flight carries for one name.
#[derive(Debug)]
pub(super) struct Cargo<'a> {
    pub(super) object: &'a Object,
    /// The places of its calls in the flight, in order.
    pub(super) calls: Vec<usize>,
    flight: FlightId,
    groups: Vec<Group<'a>>,
}

/// One reserve, or equal takes in a row.
#[derive(Debug)]
struct Group<'a> {
    call: &'a LimitCall,
    count: usize,
}

/// Sorts a flight by name; the calls of a name stay in order.
pub(super) fn by_name(flight: FlightId, calls: &[LimitCall]) -> Vec<Cargo<'_>> {
    let mut cargo: Vec<Cargo<'_>> = Vec::new();
    let mut places: HashMap<&Name, usize> = HashMap::new();
    let mut last: Option<(&Name, usize)> = None;
    for (index, call) in calls.iter().enumerate() {
        let name = &call.object.name;
        let place = match last {
            Some((same, place)) if same == name => place,
            _ => *places.entry(name).or_insert_with(|| {
                cargo.push(Cargo { object: &call.object, calls: Vec::new(), flight, groups: Vec::new() });
                cargo.len() - 1
            }),
        };
        last = Some((name, place));
        cargo[place].load(index, call);
    }
    cargo
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

    /// The arguments of one limiter.
    pub(super) fn arguments(command: &mut Cmd, cargo: &Self) {
        let FlightId { lane, number } = cargo.flight;
        command.arg(lane.to_string()).arg(number).arg(cargo.groups.len());
        for Group { call, count } in &cargo.groups {
            let LimitCall { quota, check, ask, .. } = call;
            command.arg(match check {
                QuotaCheck::First(OnMismatch::Refuse) => "r",
                QuotaCheck::First(OnMismatch::Replace) => "p",
                QuotaCheck::First(OnMismatch::Adopt) | QuotaCheck::Follow => "a",
            });
            command.arg(quota.amount()).arg(quota.period()).arg(quota.burst());
            match ask {
                LimitAsk::Take { cost } => command.arg(cost).arg("").arg(count),
                LimitAsk::Reserve { ticket, cost, max_wait } => {
                    command.arg(cost).arg(ticket.to_string()).arg(max_wait)
                }
            };
        }
    }

    /// What each call is told, in order; waits count from now, also where the answer is that of an earlier copy.
    ///
    /// # Errors
    /// `Unknown` for what the script does not answer, and where a later flight of the lane came before.
    pub(super) fn unload(&self, reply: &Reply) -> Result<Vec<Limited>> {
        if reply.number(0)? != 1 {
            return Err(unexpected());
        }
        let known = self.groups.iter().map(|group| group.call.quota);
        let mut limited = told(&reply.text(1)?, known).ok_or_else(unexpected)?;
        if let Some(elapsed) = reply.further(2)? {
            limited.iter_mut().for_each(|limited| age(limited, elapsed));
        }
        if limited.len() == self.calls.len() { Ok(limited) } else { Err(unexpected()) }
    }
}

/// Reads an answer of `limit_decide.lua`. It may be that to an earlier copy of the flight, with other groups for the same
/// calls, so nothing is taken from those. Quotas that are `known` need no check.
fn told(answer: &str, known: impl Iterator<Item = ExactQuota> + Clone) -> Option<Vec<Limited>> {
    let mut parts = answer.split(';');
    let behind = Words::of(parts.next()?).skip(2)?.next()?;
    let mut limited = Vec::new();
    let mut quota = None;
    for part in parts {
        let (kind, rest) = part.split_at_checked(1)?;
        let mut words = Words::of(rest.strip_prefix(' ').unwrap_or(rest));
        if kind == "q" {
            quota = Some(exact(words.next()?, words.next()?, words.next()?, known.clone())?);
            continue;
        }
        let quota = quota?;
        match kind {
            "t" => takes(&mut limited, &mut words, quota, behind)?,
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

/// The verdicts of equal takes, by core's own arithmetic, which has to agree with the script's.
fn takes(limited: &mut Vec<Limited>, words: &mut Words<'_>, quota: ExactQuota, behind: u64) -> Option<()> {
    let (count, admitted, cost): (usize, usize, u64) = (words.next()?, words.next()?, words.next()?);
    let mut snapshot = Snapshot::new(quota, words.next()?, words.next()?, behind).ok()?;
    let settled = words.next::<u8>()? == 1;
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

    fn skip(mut self, count: usize) -> Option<Self> {
        for _ in 0..count {
            self.0.next()?;
        }
        Some(self)
    }

    fn next<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use stanchion_core::{Kind, Ticket};

    use super::*;

    fn quota(burst: u64) -> ExactQuota {
        Quota::per_second(10).burst(burst).validate().unwrap()
    }

    fn call(name: &str, ask: LimitAsk) -> LimitCall {
        let object = Object { kind: Kind::Limiter, name: Name::new(name).unwrap() };
        LimitCall { object, quota: quota(9), check: QuotaCheck::Follow, ask }
    }

    fn read(answer: &str) -> Option<Vec<Limited>> {
        told(answer, [quota(9)].into_iter())
    }

    #[test]
    fn l5_runs_of_equal_takes_go_as_one_and_keep_their_order() {
        let take = |name, cost| call(name, LimitAsk::Take { cost });
        let reserve = || call("a", LimitAsk::Reserve { ticket: Ticket::random(), cost: 1, max_wait: 0 });
        let mut other = take("a", 1);
        other.quota = quota(8);
        let calls = [
            take("a", 1),
            take("b", 1),
            take("a", 1),
            take("a", 2),
            reserve(),
            reserve(),
            take("b", 1),
            take("a", 1),
            other,
        ];
        let flight = FlightId { lane: Ticket::random(), number: 1 };
        let cargo = by_name(flight, &calls);
        let counts = |cargo: &Cargo<'_>| cargo.groups.iter().map(|group| group.count).collect::<Vec<_>>();
        assert_eq!(cargo.len(), 2);
        assert_eq!(
            (cargo[0].calls.as_slice(), counts(&cargo[0])),
            (&[0, 2, 3, 4, 5, 7, 8][..], vec![2, 1, 1, 1, 1, 1])
        );
        assert_eq!((cargo[1].calls.as_slice(), counts(&cargo[1])), (&[1, 6][..], vec![2]));
    }

    #[test]
    fn l5_each_call_of_a_run_gets_its_own_verdict() {
        let told = read("7 1000 0;q 1 100000 9;t 3 2 2 5 50000 1;n;r 300 200").unwrap();
        let verdicts: Vec<_> = told
            .iter()
            .filter_map(|limited| match limited {
                Limited::Taken { verdict, settled: true, .. } => {
                    Some((verdict.allowed, verdict.remaining, verdict.retry_after, verdict.reset_after))
                }
                _ => None,
            })
            .collect();
        let expected =
            [(true, 3, None, 550_000), (true, 1, None, 750_000), (false, 1, Some(50_000), 750_000)];
        assert_eq!(verdicts, expected);
        assert_eq!(told[3], Limited::Reserved { place: None, quota: quota(9) });
        assert!(matches!(told[4], Limited::Reserved { place: Some(place), .. } if place.wait == 200));
    }

    #[test]
    fn c3_an_answer_of_no_step_is_not_understood() {
        for answer in [
            "",
            "7 1000 0;t 1 1 1 5 0 1",
            "7 1000 0;q 1 100000 9;t 1 0 1 5 0 1",
            "7 1000 0;q 1 100000 9;t 1 1 1 10 0 1",
            "7 1000 0;q 1 100000 9;x",
            "7 1000 0;q 0 100000 9;n",
            "7 1000 0;q 1 100000 9;ü",
        ] {
            assert_eq!(read(answer), None, "{answer}");
        }
    }
}
